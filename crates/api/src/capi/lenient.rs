//! Reading that passes over what can't be read.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::condition::Condition;

/// A value, or the default where it is `null`.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A value that only informs, or the default where it can't be read.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// The conditions that can be read; one without a time, for example, is left out.
pub(crate) fn conditions<'de, D>(deserializer: D) -> Result<Vec<Condition>, D::Error>
where
    D: Deserializer<'de>,
{
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    Ok(values
        .unwrap_or_default()
        .into_iter()
        .filter_map(|value| serde_json::from_value(value).ok())
        .collect())
}

/// `status.v1beta2` of a `v1beta1` object, where the present conditions and counters stand.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NestedV1Beta2 {
    pub(crate) conditions: Option<Vec<Value>>,
    pub(crate) ready_replicas: Option<i32>,
    pub(crate) available_replicas: Option<i32>,
    pub(crate) up_to_date_replicas: Option<i32>,
}

impl NestedV1Beta2 {
    /// The present conditions: the nested ones where there are any, else those of the status itself.
    pub(crate) fn conditions_or(&self, own: Vec<Condition>) -> Vec<Condition> {
        match &self.conditions {
            Some(nested) => {
                nested.iter().filter_map(|value| serde_json::from_value(value.clone()).ok()).collect()
            }
            None => own,
        }
    }
}

/// `status.deprecated` of a `v1beta2` object, where what `v1beta1` had is kept.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deprecated {
    pub(crate) v1beta1: DeprecatedV1Beta1,
}

/// `status.deprecated.v1beta1`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeprecatedV1Beta1 {
    pub(crate) failure_reason: Option<String>,
    pub(crate) failure_message: Option<String>,
}
