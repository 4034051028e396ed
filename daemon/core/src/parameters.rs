//! The parameters of each action, parsed once, as models send them.
//!
//! JSON as models write it: a number may come as `10`, `10.0` or `"10"`, `null` and an empty string
//! mean absent. A field the action does not know is an error, and so is a field given twice: two
//! readers of the same text must never disagree about what was asked.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::ids::{ApprovalId, RequestId};
use crate::names::NamespaceName;
use crate::selector::LabelSelector;

/// The longest parameters taken, in bytes.
pub const MAX_PARAMETERS: usize = 16 * 1024;
/// The longest page token taken, in bytes.
pub const MAX_PAGE_TOKEN: usize = 4096;
/// The longest a caller may wait for a request, in seconds: below every client's patience.
pub const MAX_WAIT_SECONDS: u32 = 40;

/// The longest name or path of a Terraform root taken, in bytes.
pub const MAX_WORKING_DIR: usize = 1024;
/// The longest reason an agent may give, in bytes.
pub const MAX_REASON: usize = 2000;

/// What is wrong with which parameter.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct FieldError {
    /// The parameter's name; `parameters` for the object as a whole.
    pub field: String,
    /// A clause that follows the name: "must not be empty".
    pub problem: String,
}

impl FieldError {
    /// Names a field and what is wrong with it.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// The actions there are. What each does is `sandboxd`'s to say; this is what it may be asked with.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ActionName {
    /// `k8s_get_pod_status`: reads the state of the pods of one namespace.
    PodStatus,
    /// `get_request`: says where one of the caller's own requests stands.
    GetRequest,
    /// `terraform_plan`: says what Terraform would change, and keeps the plan.
    TerraformPlan,
    /// `terraform_apply`: opens an approval for a plan, or applies the one that was approved.
    TerraformApply,
}

impl ActionName {
    /// Every action, in the order agents see them.
    pub const ALL: [Self; 4] = [
        Self::PodStatus,
        Self::TerraformPlan,
        Self::TerraformApply,
        Self::GetRequest,
    ];

    /// The name in MCP, policy and audit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodStatus => "k8s_get_pod_status",
            Self::GetRequest => "get_request",
            Self::TerraformPlan => "terraform_plan",
            Self::TerraformApply => "terraform_apply",
        }
    }

    /// The action of that name, if there is one.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.as_str() == name)
    }
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An action with its parameters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Parameters {
    /// For [`ActionName::PodStatus`].
    PodStatus(PodStatus),
    /// For [`ActionName::GetRequest`].
    GetRequest(GetRequest),
    /// For [`ActionName::TerraformPlan`].
    TerraformPlan(TerraformPlan),
    /// For [`ActionName::TerraformApply`].
    TerraformApply(TerraformApply),
}

/// Which pods to look at.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct PodStatus {
    /// The namespace.
    pub namespace: NamespaceName,
    /// Only pods with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Where the page before ended, as the daemon gave it. Opaque here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
}

/// Which request to ask about.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct GetRequest {
    /// The caller's own request.
    pub request_id: RequestId,
    /// How long to wait for its end, 0 to [`MAX_WAIT_SECONDS`].
    pub wait_seconds: u32,
}

/// What to plan.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct TerraformPlan {
    /// A root's name, or its folder as an absolute path. Which root that is the configuration says.
    pub working_dir: String,
    /// The agent's own words. Shown to humans as unverified, and of no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What to apply.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct TerraformApply {
    /// As in [`TerraformPlan`].
    pub working_dir: String,
    /// The approval to use up. Without one, an approval is opened and nothing applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// Take the approval back instead of using it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub withdraw: bool,
    /// As in [`TerraformPlan`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Parameters {
    /// Reads the parameters of `action` from a JSON object; empty text means `{}`.
    ///
    /// # Errors
    /// [`FieldError`] naming the first field that is missing, unknown, given twice or malformed.
    pub fn parse(action: ActionName, json: &str) -> Result<Self, FieldError> {
        let mut fields = Fields::read(json)?;
        let parameters = match action {
            ActionName::PodStatus => Self::PodStatus(PodStatus {
                namespace: fields.required("namespace")?,
                label_selector: fields.optional("label_selector")?,
                page_token: fields.text("page_token", MAX_PAGE_TOKEN)?,
            }),
            ActionName::GetRequest => Self::GetRequest(GetRequest {
                request_id: fields.required("request_id")?,
                wait_seconds: fields
                    .number("wait_seconds", MAX_WAIT_SECONDS)?
                    .unwrap_or(0),
            }),
            ActionName::TerraformPlan => Self::TerraformPlan(TerraformPlan {
                working_dir: fields.working_dir()?,
                reason: fields.text("reason", MAX_REASON)?,
            }),
            ActionName::TerraformApply => Self::TerraformApply(TerraformApply {
                working_dir: fields.working_dir()?,
                approval_id: fields.optional("approval_id")?,
                withdraw: fields.flag("withdraw")?,
                reason: fields.text("reason", MAX_REASON)?,
            }),
        };
        if let Self::TerraformApply(TerraformApply {
            approval_id: None,
            withdraw: true,
            ..
        }) = &parameters
        {
            return Err(FieldError::new(
                "approval_id",
                "is required with withdraw: the approval to take back",
            ));
        }
        fields.finish()?;
        Ok(parameters)
    }

    /// The action these belong to.
    #[must_use]
    pub const fn action(&self) -> ActionName {
        match self {
            Self::PodStatus(_) => ActionName::PodStatus,
            Self::GetRequest(_) => ActionName::GetRequest,
            Self::TerraformPlan(_) => ActionName::TerraformPlan,
            Self::TerraformApply(_) => ActionName::TerraformApply,
        }
    }

    /// The namespace the action would touch, if it touches one.
    #[must_use]
    pub const fn namespace(&self) -> Option<&NamespaceName> {
        match self {
            Self::PodStatus(p) => Some(&p.namespace),
            Self::GetRequest(_) | Self::TerraformPlan(_) | Self::TerraformApply(_) => None,
        }
    }

    /// The parameters as they were understood, absent ones left out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let json = match self {
            Self::PodStatus(p) => serde_json::to_value(p),
            Self::GetRequest(g) => serde_json::to_value(g),
            Self::TerraformPlan(p) => serde_json::to_value(p),
            Self::TerraformApply(a) => serde_json::to_value(a),
        };
        json.unwrap_or_default()
    }

    /// One text for equal parameters, however they were spelled; what an idempotency key is held to.
    #[must_use]
    pub fn canonical(&self) -> String {
        self.to_json().to_string()
    }
}

/// The fields not taken yet.
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn read(json: &str) -> Result<Self, FieldError> {
        if json.len() > MAX_PARAMETERS {
            return Err(FieldError::new(
                "parameters",
                format!(
                    "are {} bytes long, at most {MAX_PARAMETERS} are allowed",
                    json.len()
                ),
            ));
        }
        if json.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let fields: FieldList = serde_json::from_str(json)
            .map_err(|e| FieldError::new("parameters", format!("must be one JSON object: {e}")))?;
        for (index, (name, _)) in fields.0.iter().enumerate() {
            if fields.0[..index].iter().any(|(n, _)| n == name) {
                return Err(FieldError::new(shown(name), "is given twice"));
            }
        }
        Ok(Self(fields.0))
    }

    /// The value of `name`, unless it is absent, `null` or an empty text.
    fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.0.iter().position(|(n, _)| n == name)?;
        let (_, value) = self.0.swap_remove(index);
        let absent = value.is_null() || value.as_str().is_some_and(str::is_empty);
        (!absent).then_some(value)
    }

    fn text(&mut self, name: &str, limit: usize) -> Result<Option<String>, FieldError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(s)) if s.len() <= limit => Ok(Some(s)),
            Some(Value::String(s)) => Err(FieldError::new(
                name,
                format!("is {} bytes long, at most {limit} are allowed", s.len()),
            )),
            Some(other) => Err(FieldError::new(
                name,
                format!("must be a string, not {}", kind(&other)),
            )),
        }
    }

    /// A root's name or an absolute path. The configuration says which roots there are, so no more is
    /// checked than that it can be shown.
    fn working_dir(&mut self) -> Result<String, FieldError> {
        let text = self
            .text("working_dir", MAX_WORKING_DIR)?
            .ok_or_else(|| FieldError::new("working_dir", "is required"))?;
        if text.chars().any(char::is_control) {
            return Err(FieldError::new(
                "working_dir",
                "has a control character; it must be a root's name or its folder",
            ));
        }
        Ok(text)
    }

    fn optional<T: std::str::FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, FieldError> {
        self.text(name, MAX_PARAMETERS)?
            .map(|s| {
                s.parse()
                    .map_err(|e: T::Err| FieldError::new(name, e.to_string()))
            })
            .transpose()
    }

    fn required<T: std::str::FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
    ) -> Result<T, FieldError> {
        self.optional(name)?
            .ok_or_else(|| FieldError::new(name, "is required"))
    }

    fn number(&mut self, name: &str, limit: u32) -> Result<Option<u32>, FieldError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let text = match &value {
            Value::Number(n) => n.to_string(),
            Value::String(s) => s.trim().to_owned(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return Err(FieldError::new(
                    name,
                    format!("must be a number, not {}", kind(&value)),
                ));
            }
        };
        // "10.0" is a whole number to a model; "10.5" is none to us.
        let whole = text
            .split_once('.')
            .map_or(text.as_str(), |(whole, fraction)| {
                if fraction.bytes().all(|b| b == b'0') {
                    whole
                } else {
                    &text
                }
            });
        match whole.parse::<u32>() {
            Ok(n) if n <= limit => Ok(Some(n)),
            _ => Err(FieldError::new(
                name,
                format!("must be a whole number from 0 to {limit}"),
            )),
        }
    }

    /// False where it is absent.
    fn flag(&mut self, name: &str) -> Result<bool, FieldError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(s)) if s == "true" => Ok(true),
            Some(Value::String(s)) if s == "false" => Ok(false),
            Some(_) => Err(FieldError::new(name, "must be true or false")),
        }
    }

    fn finish(self) -> Result<(), FieldError> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(FieldError::new(
                shown(name),
                "is not a parameter of this action",
            )),
        }
    }
}

/// A name the caller chose, short and printable enough for an error.
fn shown(name: &str) -> String {
    let clipped: String = name.chars().take(64).collect();
    clipped.escape_debug().to_string()
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A JSON object with its fields in order, repeats included; `serde_json::Map` keeps the last silently.
struct FieldList(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for FieldList {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = FieldList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldList, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(FieldList(fields))
            }
        }
        d.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "018bcfe5-6800-7ab0-abab-abababababab";

    fn pod_status(json: &str) -> Result<PodStatus, FieldError> {
        match Parameters::parse(ActionName::PodStatus, json)? {
            Parameters::PodStatus(p) => Ok(p),
            other @ (Parameters::GetRequest(_)
            | Parameters::TerraformPlan(_)
            | Parameters::TerraformApply(_)) => unreachable!("{other:?}"),
        }
    }

    fn wait(json_value: &str) -> Result<u32, FieldError> {
        let json = format!(r#"{{"request_id":"{ID}","wait_seconds":{json_value}}}"#);
        match Parameters::parse(ActionName::GetRequest, &json)? {
            Parameters::GetRequest(g) => Ok(g.wait_seconds),
            other @ (Parameters::PodStatus(_)
            | Parameters::TerraformPlan(_)
            | Parameters::TerraformApply(_)) => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn null_and_empty_text_are_absent() {
        let p = pod_status(r#"{"namespace":"demo-app","label_selector":null,"page_token":""}"#)
            .unwrap();
        assert_eq!((p.label_selector, p.page_token), (None, None));
    }

    #[test]
    fn a_missing_namespace_is_named() {
        for json in ["", "{}", r#"{"namespace":null}"#, r#"{"namespace":""}"#] {
            assert_eq!(
                pod_status(json).unwrap_err().to_string(),
                "namespace is required",
                "{json}"
            );
        }
    }

    #[test]
    fn unknown_and_repeated_fields_are_named() {
        let e = pod_status(r#"{"namespace":"a","colour":1}"#).unwrap_err();
        assert_eq!(
            e,
            FieldError::new("colour", "is not a parameter of this action")
        );
        let e = pod_status(r#"{"namespace":"a","namespace":"b"}"#).unwrap_err();
        assert_eq!(e, FieldError::new("namespace", "is given twice"));
    }

    #[test]
    fn terraform_takes_a_root_and_whole_approval_ids_alone() {
        let apply = |json: &str| Parameters::parse(ActionName::TerraformApply, json);
        let Ok(Parameters::TerraformApply(a)) =
            apply(r#"{"working_dir":"demo","approval_id":"0z0zajmrv123","reason":null}"#)
        else {
            panic!("refused");
        };
        assert_eq!(a.working_dir, "demo");
        assert_eq!(a.approval_id.unwrap().as_str(), "0z0zajmrv123");
        assert!(!a.withdraw);
        for (value, withdraw) in [("true", true), ("\"true\"", true), ("\"false\"", false)] {
            let json = format!(
                r#"{{"working_dir":"demo","approval_id":"0z0zajmrv123","withdraw":{value}}}"#
            );
            let Ok(Parameters::TerraformApply(a)) = apply(&json) else {
                panic!("refused: {json}");
            };
            assert_eq!(a.withdraw, withdraw, "{json}");
        }
        for (json, field) in [
            ("{}", "working_dir"),
            (r#"{"working_dir":"demo","withdraw":true}"#, "approval_id"),
            (r#"{"working_dir":"demo","withdraw":1}"#, "withdraw"),
            (r#"{"working_dir":"a\nb"}"#, "working_dir"),
            (
                r#"{"working_dir":"demo","approval_id":"0z0zaj"}"#,
                "approval_id",
            ),
            (r#"{"working_dir":"demo","target":"x"}"#, "target"),
        ] {
            assert_eq!(apply(json).unwrap_err().field, field, "{json}");
        }
    }

    #[test]
    fn wrong_types_are_named() {
        let e = pod_status(r#"{"namespace":["a"]}"#).unwrap_err();
        assert_eq!(
            e,
            FieldError::new("namespace", "must be a string, not an array")
        );
        for json in ["[]", "1", "null", "\"x\"", "{", "{}{}"] {
            assert_eq!(pod_status(json).unwrap_err().field, "parameters", "{json}");
        }
    }

    #[test]
    fn numbers_come_as_models_send_them() {
        for (text, n) in [
            ("10", 10),
            ("10.0", 10),
            ("\"10\"", 10),
            ("\" 10 \"", 10),
            ("null", 0),
            ("\"\"", 0),
            ("1e1", 10),
            ("40", 40),
        ] {
            assert_eq!(wait(text), Ok(n), "{text}");
        }
        for text in [
            "41",
            "-1",
            "1.5",
            "\"null\"",
            "\"ten\"",
            "true",
            "[]",
            "99999999999999999999",
        ] {
            assert_eq!(wait(text).unwrap_err().field, "wait_seconds", "{text}");
        }
    }

    #[test]
    fn a_bad_selector_and_a_bad_namespace_are_named() {
        assert_eq!(
            pod_status(r#"{"namespace":"a","label_selector":"=x"}"#)
                .unwrap_err()
                .field,
            "label_selector"
        );
        assert_eq!(
            pod_status(r#"{"namespace":"Demo"}"#).unwrap_err().field,
            "namespace"
        );
    }

    #[test]
    fn too_long_parameters_are_refused_unread() {
        let json = format!(r#"{{"namespace":"{}"}}"#, "a".repeat(MAX_PARAMETERS));
        assert_eq!(pod_status(&json).unwrap_err().field, "parameters");
    }

    #[test]
    fn equal_parameters_have_one_canonical_text() {
        let a = Parameters::parse(
            ActionName::PodStatus,
            r#"{"namespace":"a","page_token":null}"#,
        )
        .unwrap();
        let b = Parameters::parse(ActionName::PodStatus, r#" { "namespace" : "a" } "#).unwrap();
        assert_eq!(a.canonical(), b.canonical());
        assert_eq!(a.canonical(), r#"{"namespace":"a"}"#);
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(s in "\\PC{0,300}") {
            for action in ActionName::ALL {
                drop(Parameters::parse(action, &s));
            }
        }
    }
}
