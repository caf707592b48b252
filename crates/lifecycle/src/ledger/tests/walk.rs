//! Thousands of random walks through interleavings of people, crashes and Cluster API's controllers: always the same end.

use super::world::World;

/// A small fixed generator: the walk of a seed is the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

fn walk(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let floor = i64::try_from(dice.roll(3)).unwrap();
    let mut world = World::with_floor(floor);
    let mut claims = 0_u64;
    for _ in 0..60 {
        world.now += i64::try_from(dice.roll(12)).unwrap();
        match dice.roll(10) {
            0 | 1 if claims < 8 => {
                world.claim(&format!("c{claims}"));
                claims += 1;
            }
            2 if claims > 0 => world.delete_claim(&format!("c{}", dice.roll(claims))),
            3 => world.drain_all(),
            // A crash after each number of writes, also after none.
            4..=6 => _ = world.operate(usize::try_from(dice.roll(4)).unwrap()),
            7 => world.reconcile_machines(),
            8 => world.reconcile_deployment(),
            _ => world.reconcile_set(dice.roll(2) == 0),
        }
    }
    world.quiesce();
    world.check(floor);
    assert!(world.shrunk.is_empty(), "seed {seed}: Cluster API chose a victim itself: {:?}", world.shrunk);
    let old = world.machines.iter().filter(|machine| machine.created < super::at(-1_000)).count();
    assert_eq!(i64::try_from(old).unwrap(), floor, "seed {seed}: a Machine that is not ours was lost");
}

#[test]
fn every_interleaving_ends_with_one_machine_for_each_claim_and_loses_none() {
    for seed in 0..20_000 {
        walk(seed);
    }
}
