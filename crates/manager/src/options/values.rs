//! Values of flags, read once into types that can't be wrong.

use std::fmt;
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

/// A feature gate of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    name: &'static str,
    /// Whether its being enabled changes anything in this program.
    known_here: bool,
}

const GATES: [Gate; 6] = [
    Gate { name: "NodeRepair", known_here: false },
    Gate { name: "ReservedCapacity", known_here: true },
    Gate { name: "SpotToSpotConsolidation", known_here: false },
    Gate { name: "NodeOverlay", known_here: false },
    Gate { name: "StaticCapacity", known_here: false },
    Gate { name: "CapacityBuffer", known_here: false },
];

/// Upstream's default.
pub(super) const DEFAULT_GATES: &str = "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false";

/// `--feature-gates`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    enabled: Vec<&'static str>,
    unsupported: Vec<&'static str>,
    unknown: Vec<String>,
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("{pair:?} isn't of the form Name=true or Name=false"))?;
            let on = match value.trim() {
                "true" => true,
                "false" => false,
                other => return Err(format!("{other:?} of gate {} must be true or false", name.trim())),
            };
            match GATES.into_iter().find(|gate| gate.name == name.trim()) {
                None => gates.unknown.push(name.trim().to_owned()),
                Some(gate) if on && gate.known_here => gates.enabled.push(gate.name),
                Some(gate) if on => gates.unsupported.push(gate.name),
                Some(_) => {}
            }
        }
        Ok(gates)
    }
}

impl FeatureGates {
    pub(super) fn without_effect(&self) -> Vec<String> {
        let names: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
        let unknown = self.unknown.iter().map(|name| {
            format!(
                "feature gate {name} of --feature-gates is unknown and has no effect; known are {}",
                names.join(", ")
            )
        });
        let unsupported = self
            .unsupported
            .iter()
            .map(|name| format!("feature gate {name} has no effect: this version doesn't have that feature"));
        unknown.chain(unsupported).collect()
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.enabled.join(","))
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
