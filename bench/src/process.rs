//! Memory and processor time of a process, as Linux tells them.

use anyhow::{Context, Result};
use serde::Serialize;

/// `/proc/<pid>/stat` counts in hundredths of a second on every Linux that Rust runs on.
const TICKS_PER_SECOND: u32 = 100;

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Memory {
    /// What is resident now (`VmRSS`).
    pub(crate) resident_kib: u32,
    /// The most that was ever resident (`VmHWM`).
    pub(crate) peak_kib: u32,
}

/// The memory of a running process.
pub(crate) fn memory(process_id: u32) -> Result<Memory> {
    let path = format!("/proc/{process_id}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    memory_of_status(&text).with_context(|| format!("{path} has no VmRSS or VmHWM in kB"))
}

/// Processor time of a running process so far, in seconds: its own and the kernel's on its behalf.
pub(crate) fn processor_seconds(process_id: u32) -> Result<f64> {
    let path = format!("/proc/{process_id}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let ticks = ticks_of_stat(&text).with_context(|| format!("{path} has no utime and stime"))?;
    Ok(f64::from(ticks) / f64::from(TICKS_PER_SECOND))
}

fn memory_of_status(text: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(Memory { resident_kib: field("VmRSS")?, peak_kib: field("VmHWM")? })
}

/// The fields after the name, which stands in parentheses and may hold anything.
fn ticks_of_stat(text: &str) -> Option<u32> {
    let (_, after) = text.rsplit_once(')')?;
    // The state is field 3, utime 14, stime 15.
    let mut times = after.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_and_peak_are_told_apart() {
        let status = "Name:\tx\nVmPeak:\t 900000 kB\nVmHWM:\t   70000 kB\nVmRSS:\t   60000 kB\nThreads:\t3\n";
        assert_eq!(memory_of_status(status), Some(Memory { resident_kib: 60_000, peak_kib: 70_000 }));
        assert_eq!(memory_of_status("Name:\tzombie\n"), None);
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_times() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 100";
        assert_eq!(ticks_of_stat(stat), Some(300));
    }

    #[test]
    fn this_process_has_memory() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.resident_kib > 0 && memory.peak_kib >= memory.resident_kib, "{memory:?}");
    }
}
