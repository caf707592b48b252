//! Whether the workload cluster is the one that the Cluster's Machines belong to.
//!
//! A wrong kubeconfig or a cluster made anew shows no claims, and Machines whose claims are missing look like waste. So the UID of the
//! workload cluster stands on the Cluster object, and a person decides when it changes.

use karpenter_capi_api::names::annotations::{WORKLOAD_UID, WORKLOAD_UID_ACCEPT};

/// What to do about the recorded UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// It is the recorded one.
    Known,
    /// Nothing is recorded and nothing depends on it yet, or a person has accepted the change: record this one.
    Record(String),
    /// Nothing is recorded, but Machines carry claims already: work goes on, and nothing is given back on suspicion.
    Unrecorded,
    /// It is another one: nothing is written to the management cluster. The sentence says what to do.
    Foreign(String),
}

/// Judges the UID of the workload cluster's `kube-system` namespace.
pub fn recognize(recorded: Option<&str>, actual: &str, machines_carry_claims: bool) -> Recognition {
    match recorded {
        Some(recorded) if recorded == actual => Recognition::Known,
        None if machines_carry_claims => Recognition::Unrecorded,
        None | Some(WORKLOAD_UID_ACCEPT) => Recognition::Record(actual.to_owned()),
        Some(recorded) => Recognition::Foreign(format!(
            "the workload cluster (UID {actual}) is not the one that this Cluster's Machines belong to (UID {recorded}); check the \
             kubeconfig, or set the annotation {WORKLOAD_UID} of the Cluster to {WORKLOAD_UID_ACCEPT:?} if the cluster was made anew"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cluster_is_recorded_and_recognized_afterwards() {
        assert_eq!(recognize(None, "a", false), Recognition::Record("a".into()));
        assert_eq!(recognize(Some("a"), "a", true), Recognition::Known);
    }

    #[test]
    fn another_cluster_is_refused_until_a_person_accepts_it() {
        assert!(matches!(recognize(Some("a"), "b", true), Recognition::Foreign(_)));
        assert!(matches!(recognize(Some("a"), "b", false), Recognition::Foreign(_)));
        assert_eq!(recognize(Some("accept"), "b", true), Recognition::Record("b".into()));
    }

    #[test]
    fn nothing_is_recorded_over_machines_of_an_unknown_past() {
        assert_eq!(recognize(None, "a", true), Recognition::Unrecorded);
    }
}
