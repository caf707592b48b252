//! From a MachineDeployment to an instance type: capacity, labels, taints, overhead, price, and whether it can be had now.
//!
//! [`catalog`] reads one MachineDeployment with what belongs to it and says what scheduling may count on. It is total: whatever
//! stands in an annotation, the result is an entry, with warnings and typed reasons, and no other MachineDeployment is touched by it.
//!
//! [`overlay()`] changes what was read by what NodeOverlays say.
//!
//! The crate knows nothing of pods, and never reads a clock, the environment or the network.

mod amount;
mod availability;
mod capacity;
mod entry;
mod findings;
mod labels;
mod overhead;
mod overlay;
mod price;
mod select;
mod taints;

pub use availability::{Facts, Until};
pub use entry::{CatalogEntry, CatalogInput, catalog};
pub use findings::CatalogWarning;
pub use overlay::{Applied, Choice, Overlaid, Verdict, overlay};
pub use select::{Selection, SelectorError, is_member};

#[cfg(test)]
mod tests;
