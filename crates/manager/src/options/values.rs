//! Values of flags, read once into types that can't be wrong.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use karpenter_capi_api::duration::parse_go;
use karpenter_capi_controllers::SchedulerConfig;

/// `--log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    #[value(alias = "warning")]
    Warn,
    Error,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// `--preference-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preferences {
    #[value(name = "Respect")]
    Respect,
    #[value(name = "Ignore")]
    Ignore,
}

/// `--min-values-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinValues {
    #[value(name = "Strict")]
    Strict,
    #[value(name = "BestEffort")]
    BestEffort,
}

/// One of `--log-output-paths`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogOutput {
    Stdout,
    Stderr,
}

/// `--log-output-paths`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOutputs(pub(crate) Vec<LogOutput>);

impl FromStr for LogOutputs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut outputs = Vec::new();
        for word in text.split(',').map(str::trim) {
            let output = match word {
                "stdout" => LogOutput::Stdout,
                "stderr" => LogOutput::Stderr,
                other => {
                    return Err(format!("{other:?} is no output; stdout, stderr or stdout,stderr is right"));
                }
            };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        Ok(Self(outputs))
    }
}

/// A duration in Go's spelling that isn't negative.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let length = parse_go(text).map_err(|error| error.to_string())?;
    Duration::try_from(length)
        .map_err(|_| format!("{text:?} is negative; a duration such as \"10s\" is right"))
}

/// `--scheduler-config`: a file, read now, or the text of one, which a path could hardly be taken for.
pub(super) fn scheduler_config(value: &str) -> Result<SchedulerConfig, String> {
    let is_text = value.trim().is_empty() || value.contains("podTopologySpread");
    let text = if is_text {
        value.to_owned()
    } else {
        std::fs::read_to_string(value).map_err(|error| format!("the file can't be read: {error}"))?
    };
    SchedulerConfig::parse(&text).map_err(|error| error.to_string())
}

/// A name that an object of Kubernetes may have.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = text.len() <= 253
        && text.chars().all(is_inside)
        && text.starts_with(is_end)
        && text.ends_with(is_end);
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends".into())
    }
}
