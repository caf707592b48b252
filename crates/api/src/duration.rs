//! Durations in the user's own spelling.
//!
//! An object that is read and written back must not change, so `720h` stays `720h`; it is parsed where it is used.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// The word that switches a [`NillableDuration`] off.
pub const NEVER: &str = "Never";

/// Why a duration can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form `1h30m`.
    #[error("{0:?} is not a duration; write it like \"90s\", \"15m\" or \"1h30m\"")]
    Malformed(String),
    /// More than 292 years.
    #[error("{0:?} is too long for a duration")]
    TooLong(String),
}

/// A duration as Go writes it, such as `1h30m`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoDuration(pub String);

impl GoDuration {
    /// The length of time.
    pub fn parse(&self) -> Result<SignedDuration, DurationError> {
        parse_go(&self.0)
    }
}

impl From<&str> for GoDuration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A duration as Go writes it, or `Never`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NillableDuration(pub String);

impl NillableDuration {
    /// The length of time; `None` is `Never`.
    pub fn parse(&self) -> Result<Option<SignedDuration>, DurationError> {
        if self.0 == NEVER { Ok(None) } else { parse_go(&self.0).map(Some) }
    }
}

impl From<&str> for NillableDuration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a duration by the rules of Go's `time.ParseDuration`: an optional sign, then numbers (with an optional fraction)
/// each followed by `ns`, `us`, `µs`, `ms`, `s`, `m` or `h`; or a bare `0`.
pub fn parse_go(text: &str) -> Result<SignedDuration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(malformed)?;
        let (number, tail) = rest.split_at(number_length);
        let unit_length = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_length);
        let nanoseconds = unit_nanoseconds(unit).ok_or_else(malformed)?;
        total = total.checked_add(scaled(number, nanoseconds, text)?).ok_or_else(too_long)?;
        rest = tail;
    }
    let signed = i64::try_from(if negative { -total } else { total }).map_err(|_| too_long())?;
    Ok(SignedDuration::from_nanos(signed))
}

fn unit_nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        // Both the micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number` units in nanoseconds; digits of the fraction beyond 18 have no effect.
fn scaled(number: &str, unit: i128, text: &str) -> Result<i128, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(malformed());
    }
    // 20 digits exceed every duration and still fit an i128 after scaling.
    if whole.trim_start_matches('0').len() > 20 {
        return Err(too_long());
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| malformed())? };
    let mut nanoseconds = whole.checked_mul(unit).ok_or_else(too_long)?;
    let fraction = fraction.get(..fraction.len().min(18)).unwrap_or_default();
    if !fraction.is_empty() {
        let digits: i128 = fraction.parse().map_err(|_| malformed())?;
        let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(18));
        nanoseconds += digits * unit / scale;
    }
    Ok(nanoseconds)
}

/// Writes a duration as Go's `Duration.String` does for whole seconds, for example `1h0m0s`; fractions of a second are cut.
pub fn format_go(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let sign = if duration.as_secs() < 0 { "-" } else { "" };
    if hours > 0 {
        format!("{sign}{hours}h{minutes}m{seconds}s")
    } else if minutes > 0 {
        format!("{sign}{minutes}m{seconds}s")
    } else {
        format!("{sign}{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("720h", 2_592_000),
            ("1h30m", 5_400),
            ("8h0m0s", 28_800),
            ("1.5h", 5_400),
            (".5m", 30),
            ("-1m", -60),
            ("+1m", 60),
            ("5m5m", 600),
        ] {
            assert_eq!(parse_go(text), Ok(SignedDuration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_go("3µs2ns"), Ok(SignedDuration::from_nanos(3002)));
        assert_eq!(parse_go("1.5ms"), Ok(SignedDuration::from_nanos(1_500_000)));
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "",
            "1",
            "1d",
            "h",
            "1h30",
            "-",
            "1..5s",
            ".s",
            "1 h",
            "Never",
            "3000000h",
            "99999999999999999999999h",
        ] {
            assert!(parse_go(text).is_err(), "{text:?} was read");
        }
    }

    #[test]
    fn never_is_no_duration() {
        assert_eq!(NillableDuration::from("Never").parse(), Ok(None));
        assert_eq!(NillableDuration::from("30s").parse(), Ok(Some(SignedDuration::from_secs(30))));
        assert!(NillableDuration::from("never").parse().is_err());
    }

    #[test]
    fn whole_seconds_are_written_as_go_writes_them() {
        for (seconds, text) in [(0, "0s"), (90, "1m30s"), (3600, "1h0m0s"), (-60, "-1m0s")] {
            assert_eq!(format_go(SignedDuration::from_secs(seconds)), text);
        }
    }
}
