//! NodeOverlays.

use super::{Errors, requirements};
use crate::node_overlay::{NodeOverlay, RESTRICTED_RESOURCES};
use crate::schema;
use crate::v1::{NodeSelectorRequirementWithMinValues, Operator};

/// The CEL rules of the definition.
pub(super) fn check_spec(overlay: &NodeOverlay, errors: &mut Errors) {
    let spec = &overlay.spec;
    let all = spec.requirements_without_min_values();
    requirements::check(&all, "spec.requirements", requirements::On::Overlay, errors);
    check_not_in(&all, errors);
    if let (Some(_), Some(adjustment)) = (&spec.price, &spec.price_adjustment) {
        errors.add("spec.priceAdjustment", adjustment, schema::PRICE_PAIR_MESSAGE, "take one of them out");
    }
    for (resource, amount) in spec.capacity.iter().flatten() {
        if RESTRICTED_RESOURCES.contains(&resource.as_str()) {
            errors.add(
                format!("spec.capacity[{resource}]"),
                &amount.0,
                schema::OVERLAY_CAPACITY_MESSAGE,
                "take it out; the MachineDeployment declares it",
            );
        }
    }
}

fn check_not_in(all: &[NodeSelectorRequirementWithMinValues], errors: &mut Errors) {
    for (index, requirement) in all.iter().enumerate() {
        if requirement.operator == Operator::NotIn && requirement.values.is_empty() {
            errors.add(
                format!("spec.requirements[{index}].values"),
                &requirement.key,
                schema::NOT_IN_MESSAGE,
                "name a value, or use the operator DoesNotExist",
            );
        }
    }
}

/// What only a controller refuses.
pub(super) fn check_at_run_time(overlay: &NodeOverlay, errors: &mut Errors) {
    let all = overlay.spec.requirements_without_min_values();
    requirements::check_at_run_time(&all, "spec.requirements", errors);
}
