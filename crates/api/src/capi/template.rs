use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// What an infrastructure template (`AWSMachineTemplate`, `DevMachineTemplate`, …) says of the machines that it makes, by
/// Cluster API's contract for scaling from zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InfrastructureTemplate {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name, namespace, ….
    pub metadata: ObjectMeta,
    /// `status.capacity`.
    pub capacity: BTreeMap<String, Quantity>,
    /// `status.nodeInfo.architecture`, in Go's words.
    pub architecture: Option<String>,
    /// `status.nodeInfo.operatingSystem`, in Go's words.
    pub operating_system: Option<String>,
    /// What in the status couldn't be read, each a sentence that names field and value.
    pub problems: Vec<String>,
}

/// Why an object isn't an infrastructure template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `apiVersion`, `kind` or `metadata` can't be read.
    #[error("the infrastructure template has no readable {0}")]
    Missing(&'static str),
}

impl InfrastructureTemplate {
    /// Reads a template of any kind. A status that can't be read in parts is kept in parts, with `problems`.
    pub fn parse(object: &Value) -> Result<Self, TemplateError> {
        let text = |key: &'static str| {
            object.get(key).and_then(Value::as_str).map(str::to_owned).ok_or(TemplateError::Missing(key))
        };
        let metadata = object
            .get("metadata")
            .and_then(|metadata| serde_json::from_value(metadata.clone()).ok())
            .ok_or(TemplateError::Missing("metadata"))?;
        let mut template =
            Self { api_version: text("apiVersion")?, kind: text("kind")?, metadata, ..Self::default() };
        template.read_capacity(object.pointer("/status/capacity"));
        template.architecture = template.read_text(object, "/status/nodeInfo/architecture");
        template.operating_system = template.read_text(object, "/status/nodeInfo/operatingSystem");
        Ok(template)
    }

    /// API group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    fn read_capacity(&mut self, capacity: Option<&Value>) {
        match capacity {
            None | Some(Value::Null) => {}
            Some(Value::Object(quantities)) => {
                for (name, quantity) in quantities {
                    match quantity {
                        Value::String(text) => {
                            self.capacity.insert(name.clone(), Quantity(text.clone()));
                        }
                        Value::Number(number) => {
                            self.capacity.insert(name.clone(), Quantity(number.to_string()));
                        }
                        other => self.problems.push(format!(
                            "status.capacity[{name}] is {other}; a quantity such as \"4\" is right"
                        )),
                    }
                }
            }
            Some(other) => self.problems.push(format!(
                "status.capacity is {other}; a map from resource names to quantities is right"
            )),
        }
    }

    fn read_text(&mut self, object: &Value, pointer: &str) -> Option<String> {
        match object.pointer(pointer) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(other) => {
                let field = pointer.trim_start_matches('/').replace('/', ".");
                self.problems.push(format!("{field} is {other}; a string is right"));
                None
            }
        }
    }
}
