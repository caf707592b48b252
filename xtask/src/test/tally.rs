//! Counting tests in what cargo's test runner prints.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl Tally {
    /// The sum of all result lines of a log: `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
    pub(super) fn of(log: &str) -> Self {
        let mut total = Self::default();
        for counts in log.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            total += Self::of_result_line(counts);
        }
        total
    }

    fn of_result_line(line: &str) -> Self {
        let mut tally = Self::default();
        // The verdict before the first full stop has no number and therefore counts nothing.
        for part in line.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => tally.passed += number,
                "failed" => tally.failed += number,
                "ignored" => tally.skipped += number,
                _ => {}
            }
        }
        tally
    }

    pub(super) fn executed(self) -> u64 {
        self.passed + self.failed
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = *self;
        write!(formatter, "{passed} passed, {failed} failed")?;
        if skipped > 0 {
            write!(formatter, ", {skipped} skipped")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
running 3 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s

test result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 12.50s
   test result: ok. 100 passed; 0 failed; quoted by a test that failed
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s; merged doctests compilation took 0.90s
";

    #[test]
    fn result_lines_are_summed_and_quoted_ones_are_not() {
        assert_eq!(Tally::of(LOG), Tally { passed: 17, failed: 2, skipped: 1 });
    }

    #[test]
    fn filtered_out_tests_count_as_nothing() {
        let log =
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
        assert_eq!(Tally::of(log).executed(), 0);
    }

    #[test]
    fn skipped_tests_are_told_only_when_there_are_some() {
        assert_eq!(Tally { passed: 5, failed: 0, skipped: 0 }.to_string(), "5 passed, 0 failed");
        assert_eq!(Tally { passed: 5, failed: 1, skipped: 2 }.to_string(), "5 passed, 1 failed, 2 skipped");
    }
}
