//! Why a claim ends by itself, and what its infrastructure says.

use jiff::SignedDuration;
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::condition::{self, FALSE};
use karpenter_capi_api::names::conditions::{self, reasons};

/// Why a claim ends without anybody having deleted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The infrastructure provider says that there is no capacity, or no quota.
    InsufficientCapacity,
    /// The infrastructure provider says that the Machine will never be.
    LaunchFailed,
    /// No Machine with infrastructure in time.
    LaunchTimedOut,
    /// No Node in time.
    RegistrationTimedOut,
    /// Its Node is gone, while its Machine is there.
    NodeGone,
}

impl Failure {
    /// The reason of the event, in upstream's words where it has them.
    pub fn event(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "InsufficientCapacityError",
            Self::LaunchFailed => "LaunchFailed",
            Self::LaunchTimedOut => "LaunchTimedOut",
            Self::RegistrationTimedOut => "RegistrationTimedOut",
            Self::NodeGone => "NodeGone",
        }
    }

    /// The label `reason` of the metric, upstream's where it has one.
    pub fn metric(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::LaunchFailed => "launch_failed",
            Self::LaunchTimedOut => "launch_timeout",
            Self::RegistrationTimedOut => "registration_timeout",
            Self::NodeGone => "node_gone",
        }
    }

    /// Whether it counts for the registration health of its NodePool. Missing capacity says nothing of how machines are set up.
    pub fn is_unhealthy(self) -> bool {
        matches!(self, Self::LaunchFailed | Self::LaunchTimedOut | Self::RegistrationTimedOut)
    }

    /// Whether another claim on the same MachineDeployment is likely to fail in the same way.
    pub fn repeats(self) -> bool {
        self != Self::NodeGone
    }
}

/// How long a MachineDeployment is left alone after so many equal failures in a row (the first is 1): 3 minutes, doubling up to an
/// hour.
pub fn back_off(failures: u32) -> SignedDuration {
    let doublings = failures.saturating_sub(1).min(5);
    SignedDuration::from_mins(3_i64 << doublings).min(SignedDuration::from_hours(1))
}

/// What keeps a Machine from being launched, where waiting may be of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) failure: Failure,
    pub(super) reason: String,
    pub(super) message: String,
}

/// What the infrastructure provider says of a Machine without provider ID: no capacity, by reason or message, or a failure for good.
pub(super) fn trouble(machine: &Machine) -> Option<Trouble> {
    let told = || condition::find(&machine.status.conditions, conditions::CAPI_INFRASTRUCTURE_READY);
    terminal(machine).or_else(|| {
        let told = told().filter(|told| told.status == FALSE)?;
        let lacking = is_lack_of_capacity(&told.reason) || is_lack_of_capacity(&told.message);
        lacking.then(|| Trouble::new(Failure::InsufficientCapacity, &told.reason, &told.message))
    })
}

/// A failure for good. Cluster API is giving these fields up, and only some providers still write them.
pub(super) fn terminal(machine: &Machine) -> Option<Trouble> {
    let status = &machine.status;
    if status.failure_reason.is_none() && status.failure_message.is_none() {
        return None;
    }
    let reason = status.failure_reason.as_deref().unwrap_or_default();
    let message = status.failure_message.as_deref().unwrap_or_default();
    let lacking = is_lack_of_capacity(reason) || is_lack_of_capacity(message);
    Some(Trouble::new(
        if lacking { Failure::InsufficientCapacity } else { Failure::LaunchFailed },
        reason,
        message,
    ))
}

impl Trouble {
    fn new(failure: Failure, reason: &str, message: &str) -> Self {
        let default = match failure {
            Failure::InsufficientCapacity => reasons::INSUFFICIENT_CAPACITY,
            _ => reasons::LAUNCH_FAILED,
        };
        let reason = if reason.is_empty() { default } else { reason };
        Self { failure, reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// What clouds say when they have no machine, or permit no more of them. Throttling ("rate exceeded", `RequestLimitExceeded`) is no
/// lack of capacity: it passes.
const LACK_OF_CAPACITY: &[&str] = &[
    "insufficientcapacity",
    "insufficient capacity",
    "insufficientinstancecapacity",
    "insufficientresources",
    "insufficient resources",
    "insufficientfreeaddresses",
    "outofcapacity",
    "out of capacity",
    "out of host capacity",
    "no capacity",
    "not enough capacity",
    "capacitynotavailable",
    "capacity-not-available",
    "unfulfillablecapacity",
    "maxspotinstancecountexceeded",
    "spotmaxpricetoolow",
    "instancelimitexceeded",
    "vcpulimitexceeded",
    "quotaexceeded",
    "quota exceeded",
    "exceeding approved",
    "exceeds quota",
    "insufficient quota",
    "zone_resource_pool_exhausted",
    "resource_pool_exhausted",
    "stockout",
    "skunotavailable",
    "allocationfailed",
    "overconstrained",
    "no valid host was found",
    "not enough resources",
];

fn is_lack_of_capacity(text: &str) -> bool {
    let text = text.to_lowercase();
    LACK_OF_CAPACITY.iter().any(|words| text.contains(words))
}
