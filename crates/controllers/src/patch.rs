//! Merge patches, each under the field manager of whoever writes; what the API server answers counts in the index at once.

use crate::context::Context;
use crate::error::{Attempt, Error, is_not_found};
use jiff::Timestamp;
use karpenter_capi_cluster::object::Object;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

impl Context {
    /// Patches an object; None: it is gone, which is an ordinary outcome. `action` is told when it fails.
    pub(crate) async fn merge<K>(
        &self,
        api: &Api<K>,
        name: &str,
        manager: &str,
        patch: &Value,
        action: impl FnOnce() -> String,
    ) -> Result<Option<K>, Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
        Object: From<K>,
    {
        self.merged(api.patch(name, &by(manager), &Patch::Merge(patch)).await, action)
    }

    /// Patches an object's status, as [`Context::merge`].
    pub(crate) async fn merge_status<K>(
        &self,
        api: &Api<K>,
        name: &str,
        manager: &str,
        patch: &Value,
        action: impl FnOnce() -> String,
    ) -> Result<Option<K>, Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
        Object: From<K>,
    {
        self.merged(api.patch_status(name, &by(manager), &Patch::Merge(patch)).await, action)
    }

    fn merged<K>(
        &self,
        result: Result<K, kube::Error>,
        action: impl FnOnce() -> String,
    ) -> Result<Option<K>, Error>
    where
        K: Resource + Clone,
        Object: From<K>,
    {
        match result {
            Ok(object) => {
                // Without its last finalizer a deleted object is gone, and no watch would take it out of the index again.
                let meta = object.meta();
                let gone =
                    meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty);
                if !gone {
                    self.index.assume(object.clone(), Timestamp::now());
                }
                Ok(Some(object))
            }
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error).attempt(action),
        }
    }
}

fn by(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}
