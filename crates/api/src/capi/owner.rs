use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::names::CAPI_GROUP;

/// The owner that controls the object, if it is of that kind of Cluster API; whichever version it is named in.
pub fn controller_of_kind<'a>(metadata: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    owner_of_kind(metadata, kind).filter(|owner| owner.controller == Some(true))
}

/// The first owner of that kind of Cluster API, whichever version it is named in, preferring the one that controls.
pub fn owner_of_kind<'a>(metadata: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let matching = || {
        owners.iter().filter(|owner| {
            owner.kind == kind
                && owner.api_version.split_once('/').is_some_and(|(group, _)| group == CAPI_GROUP)
        })
    };
    matching().find(|owner| owner.controller == Some(true)).or_else(|| matching().next())
}
