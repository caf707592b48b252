//! What the API server would refuse, and what upstream's controllers refuse at run time, for objects that come from files
//! or from a cluster whose definitions are older than ours.
//!
//! The schema's own checks are made from the generated definitions, so that there is one source. The CEL rules are written
//! out here, in the same words; a test evaluates the real rules against the same objects.

mod capacity_buffer;
mod names;
mod node_class;
mod node_overlay;
mod node_pool;
mod requirements;
mod schema_check;

use std::fmt;
use std::sync::LazyLock;

use kube::ResourceExt;
use serde::Serialize;

use self::schema_check::Definition;
use crate::capacity_buffer::CapacityBuffer;
use crate::node_overlay::NodeOverlay;
use crate::v1::{NodeClaim, NodePool};
use crate::v1alpha1::ClusterAPINodeClass;
use crate::{crd, defaults};

pub use self::names::qualified_name_problem;

static NODE_POOL: LazyLock<Definition> = LazyLock::new(|| Definition::new(&crd::node_pool()));
static NODE_CLAIM: LazyLock<Definition> = LazyLock::new(|| Definition::new(&crd::node_claim()));
static NODE_OVERLAY: LazyLock<Definition> = LazyLock::new(|| Definition::new(&crd::node_overlay()));
static CAPACITY_BUFFER: LazyLock<Definition> = LazyLock::new(|| Definition::new(&crd::capacity_buffer()));
static NODE_CLASS: LazyLock<Definition> = LazyLock::new(|| Definition::new(&crd::cluster_api_node_class()));

/// One thing that is wrong with an object. Its text names field, value and remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FieldError {
    /// Path of the field, such as `spec.disruption.budgets[1].schedule`.
    pub field: String,
    /// The value, as it stands there.
    pub value: String,
    /// What is wrong with it.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}: {}; {}", self.field, self.value, self.message, self.remedy)
    }
}

/// The errors of one object; the first one about a field is kept, since the later checks only say the same less precisely.
#[derive(Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    fn add(
        &mut self,
        field: impl Into<String>,
        value: impl fmt::Display,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let field = field.into();
        if self.0.iter().all(|error| error.field != field) {
            self.0.push(FieldError {
                field,
                value: value.to_string(),
                message: message.into(),
                remedy: remedy.into(),
            });
        }
    }
}

/// What is wrong with a NodePool: everything that its definition refuses, and what upstream's `ValidationSucceeded` says.
/// Defaults are filled in first, as the API server does it. Empty if all is well; else in the order of the fields' checks.
pub fn validate_node_pool(pool: &NodePool) -> Vec<FieldError> {
    let mut pool = pool.clone();
    defaults::node_pool(&mut pool);
    let mut errors = Errors::default();
    node_pool::check_spec(&pool, &mut errors);
    NODE_POOL.check(&pool, &mut errors);
    names::check_pool_name(&pool.name_any(), &mut errors);
    node_pool::check_at_run_time(&pool, &mut errors);
    errors.0
}

/// What is probably not meant in a NodePool that is valid: keys of Kubernetes' own domains among its template's labels,
/// and values of the capacity type that don't exist beside some that do.
pub fn warn_node_pool(pool: &NodePool) -> Vec<FieldError> {
    let mut warnings = Errors::default();
    node_pool::check_for_warnings(pool, &mut warnings);
    warnings.0
}

/// What the API server would refuse in a change of a NodePool from `old` to `new`, besides what is wrong with `new` itself.
pub fn validate_node_pool_update(old: &NodePool, new: &NodePool) -> Vec<FieldError> {
    let mut errors = Errors::default();
    node_pool::check_transition(old, new, &mut errors);
    errors.0
}

/// What the definition of NodeClaim refuses in a claim.
pub fn validate_node_claim(claim: &NodeClaim) -> Vec<FieldError> {
    let mut claim = claim.clone();
    defaults::node_claim(&mut claim);
    let mut errors = Errors::default();
    requirements::check(&claim.spec.requirements, "spec.requirements", requirements::On::Claim, &mut errors);
    node_pool::check_class_reference(&claim.spec.node_class_ref, "spec.nodeClassRef", &mut errors);
    node_pool::check_durations(
        "spec",
        claim.spec.termination_grace_period.as_ref(),
        claim.spec.expire_after.as_ref(),
        &mut errors,
    );
    NODE_CLAIM.check(&claim, &mut errors);
    names::check_object_name(&claim.name_any(), &mut errors);
    errors.0
}

/// What is wrong with a node class: what its definition refuses, and a selector that can't be evaluated.
pub fn validate_node_class(class: &ClusterAPINodeClass) -> Vec<FieldError> {
    let mut errors = Errors::default();
    node_class::check_spec(class, &mut errors);
    NODE_CLASS.check(class, &mut errors);
    names::check_class_name(&class.name_any(), &mut errors);
    errors.0
}

/// What the definition of NodeOverlay refuses in an overlay.
pub fn refused_node_overlay(overlay: &NodeOverlay) -> Vec<FieldError> {
    let mut errors = Errors::default();
    node_overlay::check_spec(overlay, &mut errors);
    NODE_OVERLAY.check(overlay, &mut errors);
    names::check_object_name(&overlay.name_any(), &mut errors);
    errors.0
}

/// What is wrong with an overlay: what its definition refuses, and what upstream's `ValidationSucceeded` says.
pub fn validate_node_overlay(overlay: &NodeOverlay) -> Vec<FieldError> {
    let mut errors = Errors(refused_node_overlay(overlay));
    node_overlay::check_at_run_time(overlay, &mut errors);
    errors.0
}

/// What the definition of CapacityBuffer refuses in a buffer.
pub fn refused_capacity_buffer(buffer: &CapacityBuffer) -> Vec<FieldError> {
    let mut errors = Errors::default();
    capacity_buffer::check_spec(buffer, &mut errors);
    CAPACITY_BUFFER.check(buffer, &mut errors);
    names::check_object_name(&buffer.name_any(), &mut errors);
    errors.0
}

#[cfg(test)]
mod tests;
