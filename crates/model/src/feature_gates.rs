//! Upstream's feature gates: what of it is optional here, and what isn't there at all.

use std::fmt;
use std::str::FromStr;

/// Upstream's default, in upstream's spelling.
pub const DEFAULT: &str = "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false";

/// A feature gate of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Nodes that stay unhealthy are replaced.
    NodeRepair,
    /// Reserved capacity is told apart.
    ReservedCapacity,
    /// Spot nodes are consolidated to cheaper spot nodes.
    SpotToSpotConsolidation,
    /// NodeOverlays count.
    NodeOverlay,
    /// NodePools with `replicas` hold so many nodes.
    StaticCapacity,
    /// CapacityBuffers hold room.
    CapacityBuffer,
}

impl Gate {
    /// Every gate, in the order of [`DEFAULT`].
    pub const ALL: [Self; 6] = [
        Self::NodeRepair,
        Self::ReservedCapacity,
        Self::SpotToSpotConsolidation,
        Self::NodeOverlay,
        Self::StaticCapacity,
        Self::CapacityBuffer,
    ];

    /// The name that is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeRepair => "NodeRepair",
            Self::ReservedCapacity => "ReservedCapacity",
            Self::SpotToSpotConsolidation => "SpotToSpotConsolidation",
            Self::NodeOverlay => "NodeOverlay",
            Self::StaticCapacity => "StaticCapacity",
            Self::CapacityBuffer => "CapacityBuffer",
        }
    }

    /// Whether this project has the feature.
    pub const fn is_supported(self) -> bool {
        !matches!(self, Self::NodeRepair | Self::SpotToSpotConsolidation)
    }
}

/// The value of `--feature-gates`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: Vec<Gate>,
    unknown: Vec<String>,
}

/// A value of `--feature-gates` that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGates {
    /// Not a pair.
    #[error("{0:?} isn't of the form Name=true or Name=false")]
    NoPair(String),
    /// A pair with another value.
    #[error("{value:?} of gate {name} must be true or false")]
    NoBool {
        /// The gate.
        name: String,
        /// Its value.
        value: String,
    },
}

impl FeatureGates {
    /// Every supported gate off.
    pub const NONE: Self = Self { enabled: Vec::new(), unknown: Vec::new() };

    /// Whether the gate is on and the project has the feature.
    pub fn is_on(&self, gate: Gate) -> bool {
        gate.is_supported() && self.enabled.contains(&gate)
    }

    /// The same with that gate on.
    #[must_use]
    pub fn with(mut self, gate: Gate) -> Self {
        self.set(gate, true);
        self
    }

    /// What was set and changes nothing, each a sentence.
    pub fn without_effect(&self) -> Vec<String> {
        let names: Vec<_> = Gate::ALL.iter().map(|gate| gate.name()).collect();
        let unknown = self.unknown.iter().map(|name| {
            format!(
                "feature gate {name} of --feature-gates is unknown and has no effect; known are {}",
                names.join(", ")
            )
        });
        let unsupported = self.enabled.iter().filter(|gate| !gate.is_supported()).map(|gate| {
            format!("feature gate {} has no effect: this version doesn't have that feature", gate.name())
        });
        unknown.chain(unsupported).collect()
    }

    fn set(&mut self, gate: Gate, on: bool) {
        self.enabled.retain(|present| *present != gate);
        if on {
            self.enabled.push(gate);
            self.enabled.sort_unstable();
        }
    }
}

/// Reads `Name=true,Other=false`. What isn't named has upstream's default; of a gate that is named twice the last value counts.
impl FromStr for FeatureGates {
    type Err = InvalidGates;

    fn from_str(text: &str) -> Result<Self, InvalidGates> {
        let mut gates = Self::NONE.with(Gate::ReservedCapacity);
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| InvalidGates::NoPair(pair.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let on = match value {
                "true" => true,
                "false" => false,
                _ => return Err(InvalidGates::NoBool { name: name.to_owned(), value: value.to_owned() }),
            };
            match Gate::ALL.into_iter().find(|gate| gate.name() == name) {
                None => gates.unknown.push(name.to_owned()),
                Some(gate) => gates.set(gate, on),
            }
        }
        Ok(gates)
    }
}

/// The gates that are on and have an effect.
impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            self.enabled.iter().filter(|gate| gate.is_supported()).map(|gate| gate.name()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_holds_without_a_word() {
        assert_eq!(DEFAULT.parse::<FeatureGates>(), "".parse());
        let default: FeatureGates = DEFAULT.parse().unwrap();
        assert_eq!(default.to_string(), "ReservedCapacity");
        assert_eq!(DEFAULT.split(',').count(), Gate::ALL.len());
    }

    #[test]
    fn of_a_gate_that_is_named_twice_the_last_value_counts() {
        let gates: FeatureGates = "NodeOverlay=true, StaticCapacity=true,NodeOverlay=false".parse().unwrap();
        assert!(!gates.is_on(Gate::NodeOverlay) && gates.is_on(Gate::StaticCapacity));
    }

    #[test]
    fn unknown_and_unsupported_gates_are_told_and_stay_off() {
        let gates: FeatureGates = "NodeRepair=true,Telepathy=true,CapacityBuffer=true".parse().unwrap();
        assert_eq!(gates.to_string(), "ReservedCapacity,CapacityBuffer");
        assert!(!gates.is_on(Gate::NodeRepair));
        let told = gates.without_effect();
        assert!(
            told.len() == 2 && told[0].contains("Telepathy") && told[1].contains("NodeRepair"),
            "{told:?}"
        );
    }
}
