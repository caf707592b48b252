//! CapacityBuffers.

use super::Errors;
use crate::capacity_buffer::CapacityBuffer;
use crate::schema;

/// The CEL rules of the definition.
pub(super) fn check_spec(buffer: &CapacityBuffer, errors: &mut Errors) {
    let spec = &buffer.spec;
    if let Some(template) = &spec.pod_template_ref {
        if spec.replicas.is_none() && spec.limits.is_none() {
            errors.add(
                "spec.replicas",
                "",
                schema::BUFFER_SIZE_MESSAGE,
                "say for how many pods room is held",
            );
        }
        if spec.scalable_ref.is_some() {
            errors.add(
                "spec.podTemplateRef",
                &template.name,
                schema::BUFFER_REFERENCE_MESSAGE,
                "take one of them out",
            );
        }
    }
}
