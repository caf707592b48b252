//! Kubeconfigs that change while the process runs.
//!
//! Their content is looked at again and again: that works for every way in which a file can be exchanged, a mounted Secret's links
//! included. A change is taken when it works, and whoever runs the operator starts it anew then: there are no clients that are half old
//! and half new. A change that doesn't work is told of, and the old access stays in use.

use std::time::Duration;

use karpenter_capi_access::{Access, AccessError, Role};
use tokio::time::sleep;

use crate::metrics::ProcessMetrics;
use crate::options::{self, ClusterOptions};
use crate::preflight::{self, Subject, Wanted};

/// The access to both clusters.
#[derive(Clone, Debug)]
pub(crate) struct Accesses {
    pub(crate) workload: Access,
    pub(crate) management: Access,
    /// Whether both are one, described once.
    one: bool,
}

impl Accesses {
    pub(crate) async fn load(clusters: &ClusterOptions) -> Result<Self, AccessError> {
        let workload = Access::load(Role::Workload, clusters.workload(), options::WORKLOAD).await?;
        match clusters.management() {
            Some(place) => Ok(Self {
                workload,
                management: Access::load(Role::Management, Some(place), options::MANAGEMENT).await?,
                one: false,
            }),
            None => Ok(Self::of_one(workload)),
        }
    }

    fn of_one(workload: Access) -> Self {
        let management = workload.clone();
        Self { workload, management, one: true }
    }

    /// Whose kubeconfig isn't what it was.
    fn changed(&self) -> Vec<Role> {
        let management = (!self.one).then_some(&self.management);
        let all = [Some(&self.workload), management].into_iter().flatten();
        all.filter(|access| access.has_changed()).map(|access| access.role).collect()
    }

    /// The accesses as they are described now, where they have changed; the error is a sentence.
    async fn renewed(&self, changed: &[Role], wanted: &Wanted<'_>) -> Result<Self, String> {
        let mut renewed = self.clone();
        for role in changed {
            match role {
                Role::Workload => renewed.workload = checked(&self.workload, *role, wanted).await?,
                Role::Management => renewed.management = checked(&self.management, *role, wanted).await?,
            }
        }
        if !self.one {
            return Ok(renewed);
        }
        let one = Self::of_one(renewed.workload);
        works(&one.management, Role::Management, wanted).await?;
        Ok(one)
    }
}

async fn checked(access: &Access, role: Role, wanted: &Wanted<'_>) -> Result<Access, String> {
    let access = access.load_again().await.map_err(|error| in_words(&error))?;
    works(&access, role, wanted).await?;
    Ok(access)
}

/// Asks the cluster for what the start asks for.
async fn works(access: &Access, role: Role, wanted: &Wanted<'_>) -> Result<(), String> {
    let subject = Subject::new(access.as_role(role)).map_err(|error| in_words(&error))?;
    preflight::check(&subject, wanted).await.map_err(|missing| missing.to_string())
}

fn in_words(error: &AccessError) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Waits for a change that works; never returns without one. An interval of 0 never looks.
pub(crate) async fn next(
    accesses: &Accesses,
    wanted: Wanted<'_>,
    every: Duration,
    metrics: &ProcessMetrics,
) -> Accesses {
    if every.is_zero() {
        return std::future::pending().await;
    }
    let mut told = String::new();
    loop {
        sleep(every).await;
        let changed = accesses.changed();
        let renewed = if changed.is_empty() {
            told.clear();
            None
        } else {
            Some(accesses.renewed(&changed, &wanted).await)
        };
        let broken = matches!(renewed, Some(Err(_)));
        for role in [Role::Workload, Role::Management] {
            metrics.kubeconfig_unusable(role, broken && changed.contains(&role));
        }
        match renewed {
            None => {}
            Some(Ok(renewed)) => {
                tracing::info!(
                    "a kubeconfig has changed: {} and {}",
                    renewed.workload,
                    renewed.management.as_role(Role::Management)
                );
                return renewed;
            }
            Some(Err(sentence)) if sentence == told => {}
            Some(Err(sentence)) => {
                tracing::warn!(
                    "a kubeconfig has changed, but can't be used, so the old one is kept: {sentence}"
                );
                told = sentence;
            }
        }
    }
}
