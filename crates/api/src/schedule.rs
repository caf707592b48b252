//! Schedules of disruption budgets: cron lines of five fields, by the rules of the parser that upstream uses (robfig/cron,
//! standard), always in UTC.

use std::fmt;

use jiff::civil::DateTime;

/// A schedule that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days_of_month: Field,
    months: Field,
    days_of_week: Field,
}

/// Why a schedule can't be read. Its text names the schedule and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {remedy}")]
pub struct ScheduleError {
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub remedy: String,
}

/// The values of one field, as a set of bits, and whether it was written as `*` or `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    any: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits.checked_shr(value).unwrap_or(0) & 1 == 1)
    }
}

struct Bounds {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
    /// What the first of `names` stands for.
    first: u32,
}

const MINUTES: Bounds = Bounds { name: "minute", min: 0, max: 59, names: &[], first: 0 };
const HOURS: Bounds = Bounds { name: "hour", min: 0, max: 23, names: &[], first: 0 };
const DAYS_OF_MONTH: Bounds = Bounds { name: "day of month", min: 1, max: 31, names: &[], first: 0 };
const MONTHS: Bounds = Bounds {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    first: 1,
};
const DAYS_OF_WEEK: Bounds = Bounds {
    name: "day of week",
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    first: 0,
};

const MACROS: [(&str, &str); 7] = [
    ("@annually", "0 0 1 1 *"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    ("@midnight", "0 0 * * *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@yearly", "0 0 1 1 *"),
];

impl Schedule {
    /// Reads a cron line of five fields, or one of `@annually`, `@yearly`, `@monthly`, `@weekly`, `@daily`, `@midnight` and
    /// `@hourly`.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let line = text.trim();
        if line.starts_with("TZ=") || line.starts_with("CRON_TZ=") {
            return Err(ScheduleError {
                problem: format!("the schedule {text:?} names a time zone, but schedules are always in UTC"),
                remedy: "take the prefix off and convert the hours to UTC".to_owned(),
            });
        }
        let line = match MACROS.iter().find(|(name, _)| *name == line) {
            Some((_, fields)) => fields,
            None if line.starts_with('@') => {
                return Err(ScheduleError {
                    problem: format!("the schedule {text:?} is no known abbreviation"),
                    remedy: format!("use one of {}", MACROS.map(|(name, _)| name).join(", ")),
                });
            }
            None => line,
        };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [minutes, hours, days_of_month, months, days_of_week] = fields.as_slice() else {
            return Err(ScheduleError {
                problem: format!("the schedule {text:?} has {} fields", fields.len()),
                remedy:
                    "write five: minute, hour, day of month, month, day of week, such as \"0 9 * * mon-fri\""
                        .to_owned(),
            });
        };
        let field = |field: &str, bounds: &Bounds| {
            parse_field(field, bounds).map_err(|(problem, remedy)| ScheduleError {
                problem: format!("in the schedule {text:?}, {problem}"),
                remedy,
            })
        };
        Ok(Self {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days_of_month: field(days_of_month, &DAYS_OF_MONTH)?,
            months: field(months, &MONTHS)?,
            days_of_week: field(days_of_week, &DAYS_OF_WEEK)?,
        })
    }

    /// Whether the schedule fires in the minute that `time`, in UTC, lies in.
    pub fn fires_in_minute_of(&self, time: DateTime) -> bool {
        self.minutes.has(time.minute()) && self.hours.has(time.hour()) && self.fires_on(time)
    }

    /// Whether the schedule fires at all on the day of `time`. If day of month and day of week are both restricted, either
    /// of them is enough; that is the rule of cron.
    pub fn fires_on(&self, time: DateTime) -> bool {
        let by_month_day = self.days_of_month.has(time.day());
        let by_week_day = self.days_of_week.has(time.weekday().to_sunday_zero_offset());
        let day = if self.days_of_month.any || self.days_of_week.any {
            by_month_day && by_week_day
        } else {
            by_month_day || by_week_day
        };
        day && self.months.has(time.month())
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)?;
        if let (Some(first), Some(last)) = (self.names.first(), self.names.last()) {
            write!(f, " or {first} to {last}")?;
        }
        Ok(())
    }
}

type Problem = (String, String);

fn parse_field(text: &str, bounds: &Bounds) -> Result<Field, Problem> {
    let mut field = Field { bits: 0, any: false };
    // As in the original, empty parts of a list are passed over.
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let part = parse_part(part, bounds)?;
        field.bits |= part.bits;
        field.any |= part.any;
    }
    if field.bits == 0 {
        return Err((
            format!("the {} {text:?} names no value", bounds.name),
            format!("write {bounds}, or *"),
        ));
    }
    Ok(field)
}

/// Reads `*`, `5`, `5-9`, `*/10`, `5/10` or `5-9/2`.
fn parse_part(text: &str, bounds: &Bounds) -> Result<Field, Problem> {
    let malformed = || {
        (
            format!("the {} {text:?} can't be read", bounds.name),
            format!("write {bounds}, a range such as {}-{}, or *", bounds.min, bounds.min + 1),
        )
    };
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(step.parse::<u32>().map_err(|_| malformed())?)),
        None => (text, None),
    };
    let whole = matches!(range, "*" | "?");
    let (low, high) = if whole {
        (bounds.min, bounds.max)
    } else if let Some((low, high)) = range.split_once('-') {
        (value(low, bounds).ok_or_else(malformed)?, value(high, bounds).ok_or_else(malformed)?)
    } else {
        let low = value(range, bounds).ok_or_else(malformed)?;
        // With a step, a single value means "from there on".
        (low, if step.is_some() { bounds.max } else { low })
    };
    let step = step.unwrap_or(1);
    check_part(text, range, bounds, (low, high), step)?;
    let width = usize::try_from(step).unwrap_or(usize::MAX);
    let bits =
        (low..=high).step_by(width).fold(0_u64, |bits, value| bits | 1_u64.checked_shl(value).unwrap_or(0));
    Ok(Field { bits, any: whole && step == 1 })
}

fn check_part(
    text: &str,
    range: &str,
    bounds: &Bounds,
    (low, high): (u32, u32),
    step: u32,
) -> Result<(), Problem> {
    let what = format!("the {} {text:?}", bounds.name);
    if low < bounds.min || low.max(high) > bounds.max {
        return Err((format!("{what} is out of range"), format!("write {bounds}")));
    }
    if low > high {
        return Err((
            format!("{what} is a range that runs backwards"),
            format!("write it as two parts, \"{}\"", unwrapped(range, (low, high), bounds)),
        ));
    }
    if step == 0 {
        return Err((format!("{what} has a step of 0"), "write a step of at least 1".to_owned()));
    }
    Ok(())
}

/// A range that runs over the end of its field, as two that don't: `fri-mon` as `fri-sat,sun-mon`.
fn unwrapped(range: &str, (low, high): (u32, u32), bounds: &Bounds) -> String {
    let (low_text, high_text) = range.split_once('-').unwrap_or((range, range));
    let numbers = (bounds.max.to_string(), bounds.min.to_string());
    let last = bounds.names.last().copied().unwrap_or(&numbers.0);
    let first = bounds.names.first().copied().unwrap_or(&numbers.1);
    let until_end = if low == bounds.max { low_text.to_owned() } else { format!("{low_text}-{last}") };
    let from_start = if high == bounds.min { high_text.to_owned() } else { format!("{first}-{high_text}") };
    format!("{until_end},{from_start}")
}

fn value(text: &str, bounds: &Bounds) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    if let Some(position) = bounds.names.iter().position(|name| *name == lower) {
        return u32::try_from(position).ok().map(|position| bounds.first + position);
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(schedule: &str, time: &str) -> bool {
        Schedule::parse(schedule).unwrap().fires_in_minute_of(time.parse().unwrap())
    }

    #[test]
    fn a_backward_range_is_refused_with_its_exact_text_and_a_list_is_offered() {
        let error = Schedule::parse("0 0 * * sat-sun").unwrap_err();
        assert!(error.problem.contains("\"0 0 * * sat-sun\""), "{error}");
        assert!(error.remedy.contains("sat,sun"), "{error}");
        assert!(Schedule::parse("0 0 * * sat,sun").is_ok());
    }

    #[test]
    fn a_backward_range_is_offered_as_two_that_mean_the_same() {
        for (text, parts) in [
            ("0 22-6 * * *", "22-23,0-6"),
            ("0 0 * * fri-mon", "fri-sat,sun-mon"),
            ("0 0 * nov-feb *", "nov-dec,jan-feb"),
        ] {
            let error = Schedule::parse(text).unwrap_err();
            assert!(error.remedy.contains(parts), "{error}");
        }
        assert!(Schedule::parse("0 22-23,0-6 * nov-dec,jan-feb fri-sat,sun-mon").is_ok());
    }

    #[test]
    fn time_zones_are_refused_for_being_time_zones() {
        for text in ["TZ=Europe/Berlin 0 9 * * *", "CRON_TZ=Europe/Berlin 0 9 * * *"] {
            let error = Schedule::parse(text).unwrap_err();
            assert!(error.to_string().contains("UTC"), "{error}");
        }
    }

    #[test]
    fn what_the_standard_parser_refuses_is_refused() {
        for text in [
            "",
            "0 9 * *",
            "0 9 * * * *",
            "61 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 7",
            "* * * * fri-mon",
            "*/0 * * * *",
            "a * * * *",
            "1-2-3 * * * *",
            "1/2/3 * * * *",
            "-1 * * * *",
            "@every 1h",
            "@hourlyish",
            ", * * * *",
            "* * L * *",
            "* * * * 5#2",
            "* * * smarch *",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text:?} was read");
        }
    }

    #[test]
    fn abbreviations_fire_when_they_say() {
        assert!(fires("@daily", "2026-03-03T00:00:59"));
        assert!(!fires("@daily", "2026-03-03T00:01"));
        assert!(fires("@hourly", "2026-03-03T17:00"));
        // 2026-03-01 is a Sunday.
        assert!(fires("@weekly", "2026-03-01T00:00"));
        assert!(!fires("@weekly", "2026-03-02T00:00"));
        assert!(fires("@monthly", "2026-03-01T00:00"));
        assert!(fires("@yearly", "2026-01-01T00:00"));
        assert!(!fires("@annually", "2026-02-01T00:00"));
    }

    #[test]
    fn names_ranges_steps_and_lists_are_understood() {
        // 2026-03-03 is a Tuesday.
        assert!(fires("0 9 * * mon-fri", "2026-03-03T09:00"));
        assert!(!fires("0 9 * * mon-fri", "2026-03-07T09:00"));
        assert!(fires("0 9 * MAR Tue", "2026-03-03T09:00"));
        assert!(fires("*/15 8-10/2 * * ?", "2026-03-03T10:45"));
        assert!(!fires("*/15 8-10/2 * * ?", "2026-03-03T09:45"));
        assert!(fires("40/10 * * * *", "2026-03-03T09:50"));
        assert!(!fires("40/10 * * * *", "2026-03-03T09:30"));
    }

    #[test]
    fn day_of_month_or_day_of_week_is_enough_when_both_are_restricted() {
        assert!(fires("0 0 13 * fri", "2026-03-13T00:00"));
        assert!(fires("0 0 13 * fri", "2026-03-06T00:00"));
        assert!(fires("0 0 14 * fri", "2026-03-14T00:00"));
        assert!(!fires("0 0 14 * fri", "2026-03-15T00:00"));
        assert!(!fires("0 0 * * fri", "2026-03-14T00:00"));
    }
}
