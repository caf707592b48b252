//! Whether an operator is at work.
//!
//! Its Lease is watched for as long as it lasts: a leader renews it within that time, whatever the clocks of the two machines say.

use crate::Refused;
use crate::doctor::connect::Clusters;
use crate::doctor::picture::Unread;
use crate::doctor::{leader, read, say};
use karpenter_capi_api::names::annotations::WORKLOAD_UID_ACCEPT;
use std::time::{Duration, Instant};

/// How often the Lease is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Refuses where an operator is at work, or where that can't be told. `recorded` is the UID that the Cluster names.
pub(super) async fn nobody_is_at_work(
    clusters: &Clusters,
    cluster: &str,
    recorded: Option<&str>,
) -> anyhow::Result<()> {
    let workload = clusters.workload().await.map_err(|error| unknown(&format!("{error:#}")))?;
    let uid = read::workload_uid(&workload).await.map_err(unread)?.unwrap_or_default();
    if let Some(recorded) = recorded.filter(|recorded| *recorded != WORKLOAD_UID_ACCEPT && *recorded != uid) {
        let other =
            format!("this workload cluster (UID {uid}) isn't the one of this Cluster (UID {recorded})");
        return Err(unknown(&other).into());
    }
    let first = read::leases(&workload, clusters, Some(cluster)).await.map_err(unread)?;
    let held: Vec<_> = first.iter().filter(|lease| leader::holder(lease).is_some()).collect();
    let Some(longest) = held.iter().map(|lease| leader::duration(lease)).max() else {
        return Ok(());
    };
    let patience = longest.unsigned_abs();
    let names: Vec<String> = held.iter().map(|lease| leader::name(lease)).collect();
    say(&format!("watching whether Lease {} is renewed, for {patience:?}", names.join(", ")));
    let started = Instant::now();
    while started.elapsed() <= patience {
        tokio::time::sleep(EVERY).await;
        let now = read::leases(&workload, clusters, Some(cluster)).await.map_err(unread)?;
        if let Some(lease) = leader::renewed(&first, &now) {
            return Err(at_work(&leader::name(lease), leader::holder(lease).unwrap_or_default()).into());
        }
    }
    Ok(())
}

fn at_work(lease: &str, holder: &str) -> Refused {
    Refused(format!(
        "nothing was released: an operator is at work ({holder}, by Lease {lease}), and would put its hooks back; stop it first \
         (kubectl scale deployment karpenter-capi-manager --replicas=0), or say --force"
    ))
}

fn unread(unread: Unread) -> Refused {
    unknown(&unread.sentence())
}

fn unknown(why: &str) -> Refused {
    Refused(format!(
        "nothing was released: whether an operator is at work can't be told: {why}; make sure that none is, and say --force"
    ))
}
