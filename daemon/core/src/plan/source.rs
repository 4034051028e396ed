//! What the plan says of the configuration it was made from: which attributes a resource sets itself.
//!
//! The plan leaves `dynamic` blocks out. So where a block stands in the values and not here, nobody can
//! tell who set what in it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::address;
use super::document::ResourceChange;
use super::path::{self, Step};
use super::refusal::PlanRefusal;

/// Who sets a value that is not known yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    /// The configuration does not mention it: the provider fills it in.
    Provider,
    /// The configuration hands over a variable, which may be null; then the provider fills it in.
    Variable,
    /// The configuration.
    Configuration,
    /// The plan does not say.
    Unclear,
}

/// The resources of every module, by the calls that lead to it, their type and name.
#[derive(Debug, Default)]
pub(super) struct Source<'a> {
    modules: HashMap<Vec<String>, Module<'a>>,
}

#[derive(Debug, Default)]
struct Module<'a> {
    resources: HashMap<(&'a str, &'a str), &'a Value>,
    /// What its call hands over.
    arguments: Option<&'a Value>,
}

impl<'a> Source<'a> {
    /// Reads `configuration`.
    ///
    /// # Errors
    /// For a provisioner: it runs what no reviewer of the plan sees.
    pub(super) fn read(configuration: &'a Value) -> Result<Self, PlanRefusal> {
        let mut source = Self::default();
        if let Some(root) = configuration.get("root_module") {
            source.module(root, Vec::new(), None)?;
        }
        Ok(source)
    }

    fn module(
        &mut self,
        json: &'a Value,
        calls: Vec<String>,
        arguments: Option<&'a Value>,
    ) -> Result<(), PlanRefusal> {
        let text = |v: &'a Value, key| v.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut module = Module {
            arguments,
            ..Module::default()
        };
        for resource in json
            .get("resources")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if resource.get("provisioners").is_some() {
                return Err(PlanRefusal::Resource {
                    address: address::without_keys(text(resource, "address")),
                    field: "its provisioner".to_owned(),
                    problem: "would run what no plan shows".to_owned(),
                    next: "take it out".to_owned(),
                });
            }
            if text(resource, "mode") == "managed"
                && let Some(expressions) = resource.get("expressions")
            {
                let key = (text(resource, "type"), text(resource, "name"));
                module.resources.insert(key, expressions);
            }
        }
        let called = json.get("module_calls").and_then(Value::as_object);
        for (name, call) in called.into_iter().flatten() {
            if let Some(inner) = call.get("module") {
                let mut calls = calls.clone();
                calls.push(name.clone());
                self.module(inner, calls, call.get("expressions"))?;
            }
        }
        self.modules.insert(calls, module);
        Ok(())
    }

    /// What a resource sets, and the calls that lead to its module; `None` for what is not there any more.
    fn expressions(&self, of: &ResourceChange) -> Option<(&'a Value, Vec<String>)> {
        let calls = if of.module_address.is_empty() {
            Some(Vec::new())
        } else {
            address::calls(&of.module_address)
        };
        let calls = calls?;
        let key = (of.type_name.as_str(), of.name.as_str());
        let expressions = self.modules.get(&calls)?.resources.get(&key)?;
        Some((expressions, calls))
    }

    /// Who sets the value at `path` of a resource whose planned values are `after`.
    pub(super) fn origin(&self, of: &ResourceChange, path: &[Step], after: &Value) -> Origin {
        match self.expressions(of) {
            Some((expressions, calls)) => self.within(expressions, path, after, &calls),
            None => Origin::Unclear,
        }
    }

    /// An attribute that the resource sets and no plan ever has: Terraform hands it to the provider and
    /// forgets it.
    pub(super) fn write_only(&self, of: &ResourceChange) -> Option<&'a str> {
        fn within(block: &Value) -> Option<&str> {
            block.as_object()?.iter().find_map(|(key, inner)| {
                if key.ends_with("_wo") {
                    return Some(key.as_str());
                }
                inner.as_array()?.iter().find_map(within) // blocks; expressions are objects
            })
        }
        within(self.expressions(of)?.0)
    }

    fn within(&self, set: &Value, path: &[Step], values: &Value, calls: &[String]) -> Origin {
        let [Step::Key(key), rest @ ..] = path else {
            return Origin::Unclear;
        };
        let Some(expression) = set.get(key) else {
            // A whole block that is not known may come from a `dynamic` one, which is not told here. What
            // was not told and yet has parts does come from one.
            return if rest.is_empty() {
                Origin::Provider
            } else {
                Origin::Unclear
            };
        };
        let Some(blocks) = expression.as_array() else {
            return self.expression(expression, calls, 0);
        };
        let [Step::Index(index), rest @ ..] = rest else {
            return Origin::Configuration; // some blocks are written out, and how many there will be is not known
        };
        let there = values.get(key).and_then(Value::as_array);
        match (blocks.get(*index), there) {
            (Some(block), Some(there)) if there.len() == blocks.len() => {
                let values = there.get(*index).unwrap_or(&Value::Null);
                self.within(block, rest, values, calls)
            }
            _ => Origin::Unclear, // some come from a `dynamic` block
        }
    }

    /// Whether an expression hands over variables alone, up to the root, or null.
    fn expression(&self, expression: &Value, calls: &[String], depth: usize) -> Origin {
        if let Some(constant) = expression.get("constant_value") {
            return if constant.is_null() {
                Origin::Provider
            } else {
                Origin::Configuration
            };
        }
        let references = expression.get("references").and_then(Value::as_array);
        let Some(references) = references.filter(|r| !r.is_empty() && depth < 32) else {
            return Origin::Configuration;
        };
        for reference in references {
            let Some(name) = reference.as_str().and_then(|r| r.strip_prefix("var.")) else {
                return Origin::Configuration;
            };
            let name = name.split(['.', '[']).next().unwrap_or(name);
            let Some((_, callers)) = calls.split_last() else {
                continue; // a variable of the root: known before planning
            };
            let argument = self
                .modules
                .get(calls)
                .and_then(|module| module.arguments?.get(name));
            if let Some(argument) = argument
                && self.expression(argument, callers, depth + 1) == Origin::Configuration
                && argument.get("constant_value").is_none()
            {
                return Origin::Configuration;
            }
        }
        Origin::Variable
    }
}

/// Names of the provider's blocks whose plural is the API's.
const PLURALS: &[(&str, &str)] = &[
    ("container", "containers"),
    ("init_container", "initContainers"),
    ("port", "ports"),
    ("volume", "volumes"),
    ("volume_claim_template", "volumeClaimTemplates"),
    ("volume_mount", "volumeMounts"),
];

/// Where the API takes what the provider has at `path`, as a JSON pointer: `spec[0].template[0].spec[0].volume`
/// is `/spec/template/spec/volumes`.
pub(super) fn pointer(path: &[Step]) -> String {
    let mut pointer = String::new();
    let mut list = false;
    for step in path {
        match step {
            Step::Key(key) => {
                let plural = PLURALS.iter().find(|(name, _)| name == key);
                list = plural.is_some();
                pointer.push('/');
                match plural {
                    Some((_, plural)) => pointer.push_str(plural),
                    None => pointer.push_str(&camel(key)),
                }
            }
            // A block of which there is one is an object to the API.
            Step::Index(index) if list => pointer.extend(["/", &index.to_string()]),
            Step::Index(_) | Step::Element => {}
        }
    }
    pointer
}

fn camel(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    let mut upper = false;
    for c in key.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            text.extend(c.to_uppercase());
            upper = false;
        } else {
            text.push(c);
        }
    }
    text.replace('~', "~0").replace('/', "~1")
}

/// The places that are not known yet.
pub(super) fn unknown_places(unknown: &Value) -> Vec<Vec<Step>> {
    fn walk(unknown: &Value, path: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
        let parts: Vec<(Step, &Value)> = match unknown {
            Value::Bool(true) => {
                found.push(path.clone());
                return;
            }
            Value::Object(map) => of_map(map),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (Step::Index(index), item))
                .collect(),
            Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) => return,
        };
        for (step, part) in parts {
            path.push(step);
            walk(part, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(unknown, &mut Vec::new(), &mut found);
    found
}

fn of_map(map: &Map<String, Value>) -> Vec<(Step, &Value)> {
    map.iter()
        .map(|(key, v)| (Step::Key(key.clone()), v))
        .collect()
}

/// The value at a path, if there is one.
pub(super) fn at<'a>(value: &'a Value, path: &[path::Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
        Step::Element => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pointer_says_where_the_api_takes_it() {
        for (path, at) in [
            (
                json!(["spec", 0, "template", 0, "spec", 0, "volume"]),
                "/spec/template/spec/volumes",
            ),
            (
                json!([
                    "spec",
                    0,
                    "template",
                    0,
                    "spec",
                    0,
                    "container",
                    1,
                    "volume_mount"
                ]),
                "/spec/template/spec/containers/1/volumeMounts",
            ),
            (
                json!(["spec", 0, "service_account_name"]),
                "/spec/serviceAccountName",
            ),
            (
                json!([
                    "spec",
                    0,
                    "job_template",
                    0,
                    "spec",
                    0,
                    "template",
                    0,
                    "spec",
                    0,
                    "init_container",
                    0,
                    "volume_mount"
                ]),
                "/spec/jobTemplate/spec/template/spec/initContainers/0/volumeMounts",
            ),
        ] {
            assert_eq!(pointer(&path::steps(&path).unwrap()), at);
        }
    }

    #[test]
    fn places_that_are_not_known_are_found_at_every_depth() {
        let unknown =
            json!({"id": true, "spec": [{"a": [true, {"b": true}], "c": {}}], "x": false});
        let found: Vec<String> = unknown_places(&unknown)
            .iter()
            .map(|p| path::written(p))
            .collect();
        assert_eq!(found, ["id", "spec[0].a[0]", "spec[0].a[1].b"]);
    }
}
