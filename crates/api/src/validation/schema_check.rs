//! The checks of an `OpenAPI` schema: types, patterns, enumerations, bounds, required fields.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use super::Errors;
use crate::{crd, schema};

/// A definition, ready to check objects against.
pub(super) struct Definition {
    schema: Option<JSONSchemaProps>,
    /// Every pattern of the schema, compiled. All of ours compile; a test sees to it.
    patterns: BTreeMap<String, Regex>,
}

impl Definition {
    pub(super) fn new(crd: &CustomResourceDefinition) -> Self {
        let schema = crd::root_schema(crd).cloned();
        let mut patterns = BTreeMap::new();
        if let Some(schema) = &schema {
            compile_patterns(schema, &mut patterns);
        }
        Self { schema, patterns }
    }

    /// Checks spec and status of an object.
    pub(super) fn check<T: Serialize>(&self, object: &T, errors: &mut Errors) {
        let Some(schema) = &self.schema else { return };
        match serde_json::to_value(object) {
            Ok(value) => Checker { patterns: &self.patterns, errors }.check_value(schema, &value, ""),
            Err(error) => errors.add("", "", error.to_string(), "correct the object"),
        }
    }
}

fn compile_patterns(schema: &JSONSchemaProps, patterns: &mut BTreeMap<String, Regex>) {
    if let Some(pattern) = &schema.pattern
        && let Ok(compiled) = Regex::new(pattern)
    {
        patterns.insert(pattern.clone(), compiled);
    }
    for property in schema.properties.iter().flat_map(|properties| properties.values()) {
        compile_patterns(property, patterns);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        compile_patterns(items, patterns);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        compile_patterns(values, patterns);
    }
}

struct Checker<'a> {
    patterns: &'a BTreeMap<String, Regex>,
    errors: &'a mut Errors,
}

impl Checker<'_> {
    fn check_value(&mut self, schema: &JSONSchemaProps, value: &Value, path: &str) {
        if !has_right_type(schema, value) {
            let expected = if schema.x_kubernetes_int_or_string == Some(true) {
                "an integer or a string"
            } else {
                schema.type_.as_deref().unwrap_or("something else")
            };
            self.errors.add(path, shown(value), "this has the wrong type", format!("write {expected}"));
            return;
        }
        match value {
            Value::Object(fields) => self.check_object(schema, fields, path),
            Value::Array(items) => self.check_array(schema, items, path),
            Value::String(text) => self.check_string(schema, text, path),
            Value::Number(number) => self.check_number(schema, number, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_object(
        &mut self,
        schema: &JSONSchemaProps,
        fields: &serde_json::Map<String, Value>,
        path: &str,
    ) {
        for required in schema.required.iter().flatten().filter(|required| !fields.contains_key(*required)) {
            self.errors.add(
                join(path, required),
                "",
                "this field is required",
                format!("set {}", join(path, required)),
            );
        }
        if let Some(most) = schema.max_properties.filter(|most| count(fields.len()) > *most) {
            self.errors.add(path, fields.len(), "there are too many entries", format!("keep at most {most}"));
        }
        let properties = schema.properties.as_ref();
        for (name, value) in fields {
            if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                self.check_value(property, value, &join(path, name));
            } else if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
                self.check_value(values, value, &format!("{path}[{name}]"));
            }
        }
    }

    fn check_array(&mut self, schema: &JSONSchemaProps, items: &[Value], path: &str) {
        if let Some(most) = schema.max_items.filter(|most| count(items.len()) > *most) {
            self.errors.add(
                path,
                format!("{} entries", items.len()),
                "the list is too long",
                format!("keep at most {most}"),
            );
        }
        if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
            for (index, value) in items.iter().enumerate() {
                self.check_value(item, value, &format!("{path}[{index}]"));
            }
        }
        let keys = schema.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
        let identity = |item: &Value| match schema.x_kubernetes_list_type.as_deref() {
            Some("set") => Some(item.to_string()),
            Some("map") => Some(format!("{:?}", keys.iter().map(|key| item.get(key)).collect::<Vec<_>>())),
            _ => None,
        };
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if identity(item).is_some_and(|identity| !seen.insert(identity)) {
                self.errors.add(
                    format!("{path}[{index}]"),
                    shown(item),
                    "this entry stands there twice",
                    "keep one of them",
                );
            }
        }
    }

    fn check_string(&mut self, schema: &JSONSchemaProps, text: &str, path: &str) {
        let length = count(text.chars().count());
        if let Some(most) = schema.max_length.filter(|most| length > *most) {
            self.errors.add(
                path,
                text,
                format!("this has {length} characters"),
                format!("write at most {most}"),
            );
        }
        if let Some(least) = schema.min_length.filter(|least| length < *least) {
            self.errors.add(
                path,
                text,
                format!("this has {length} characters"),
                format!("write at least {least}"),
            );
        }
        if let Some(allowed) = &schema.enum_
            && allowed.iter().all(|allowed| allowed.0 != Value::String(text.to_owned()))
        {
            let allowed: Vec<&str> = allowed.iter().filter_map(|allowed| allowed.0.as_str()).collect();
            self.errors.add(
                path,
                text,
                "this value isn't known",
                format!("use one of {}", allowed.join(", ")),
            );
        }
        if let Some(pattern) = &schema.pattern {
            let matches = self.patterns.get(pattern).is_none_or(|compiled| compiled.is_match(text));
            if !matches {
                self.errors.add(path, text, "this doesn't have the right form", remedy(pattern));
            }
        }
    }

    fn check_number(&mut self, schema: &JSONSchemaProps, number: &serde_json::Number, path: &str) {
        let Some(value) = number.as_f64() else { return };
        if let Some(least) = schema.minimum.filter(|least| value < *least) {
            self.errors.add(path, number, "this is too small", format!("write at least {least}"));
        }
        if let Some(most) = schema.maximum.filter(|most| value > *most) {
            self.errors.add(path, number, "this is too great", format!("write at most {most}"));
        }
    }
}

fn has_right_type(schema: &JSONSchemaProps, value: &Value) -> bool {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema.type_.as_deref() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    }
}

/// What a pattern means, for people.
fn remedy(pattern: &str) -> String {
    let text = match pattern {
        schema::LABEL_VALUE_PATTERN => {
            "write letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        }
        schema::QUALIFIED_NAME_PATTERN => "write a name such as example.com/team",
        schema::DURATION_PATTERN => "write hours, minutes and seconds, such as 1h30m",
        schema::NILLABLE_DURATION_PATTERN => "write hours, minutes and seconds, such as 1h30m, or Never",
        schema::BUDGET_DURATION_PATTERN => "write hours and minutes, such as 8h, 30m or 10h5m",
        schema::SCHEDULE_PATTERN => "write five fields in UTC, such as \"0 9 * * mon-fri\", or @daily",
        schema::BUDGET_NODES_PATTERN => {
            "write a number such as \"5\", or a percentage from \"0%\" to \"100%\""
        }
        schema::QUANTITY_PATTERN => "write a quantity such as 4, 500m or 16Gi",
        schema::PRICE_PATTERN => "write US dollars an hour such as 0.096",
        schema::PRICE_ADJUSTMENT_PATTERN => {
            "write a change in US dollars such as -0.5, or in percent such as +10%; at most all of it can be taken off"
        }
        schema::GROUP_PATTERN => "write the group without a version",
        other => return format!("write something that matches {other}"),
    };
    text.to_owned()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}
