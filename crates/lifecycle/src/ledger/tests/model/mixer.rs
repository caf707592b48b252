//! A hash that is the same everywhere and fast without optimisation.

use std::hash::Hasher;

pub(super) struct Mixer(u64);

impl Mixer {
    pub(super) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value) + 1);
    }

    fn write_i8(&mut self, value: i8) {
        self.write_u64(u64::from(value.unsigned_abs()) << 1 | u64::from(value < 0));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value.unsigned_abs() as u64);
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0xA076_1D64_78BD_642F;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
        self.0 = self.0.wrapping_add(0x2545_F491_4F6C_DD1D);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
