//! Whether the body of a write is about the object its path and the approved plan name.

use serde_json::{Map, Value};

use super::{absent, json};

/// What a body must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// One whole object, new: POST.
    New,
    /// One whole object: PUT.
    Whole,
    /// What one owner has of an object: server-side apply.
    Apply,
    /// A part of an object: a merge patch, plain or strategic.
    Part,
    /// A list of operations: a JSON patch.
    Operations,
    /// `DeleteOptions`, or nothing.
    Options,
}

/// Which object a body must be about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity<'a> {
    /// Empty is the core group.
    pub group: &'a str,
    /// From the path.
    pub version: &'a str,
    /// As in `kind`.
    pub kind: &'a str,
    /// Empty for what has no namespace.
    pub namespace: &'a str,
    /// As in `metadata.name`.
    pub name: &'a str,
    /// JSON pointers into the object: what a write must leave out.
    pub absent: &'a [String],
}

const JSON: &str = "application/json";

impl Form {
    /// Of a POST with this content type.
    ///
    /// # Errors
    /// When it cannot be read here.
    pub fn new_object(content_type: &str) -> Result<Self, String> {
        only(content_type, JSON, Self::New)
    }

    /// Of a PUT with this content type.
    ///
    /// # Errors
    /// When it cannot be read here.
    pub fn whole(content_type: &str) -> Result<Self, String> {
        only(content_type, JSON, Self::Whole)
    }

    /// Of a DELETE with this content type.
    ///
    /// # Errors
    /// When it cannot be read here.
    pub fn delete(content_type: &str) -> Result<Self, String> {
        match content_type {
            "" => Ok(Self::Options),
            other => only(other, JSON, Self::Options),
        }
    }

    /// Whether a PATCH with this content type is server-side apply.
    #[must_use]
    pub fn is_apply(content_type: &str) -> bool {
        media_type(content_type) == "application/apply-patch+yaml"
    }

    /// Of a PATCH with this content type that is not server-side apply.
    ///
    /// # Errors
    /// When it cannot be read here.
    pub fn patch(content_type: &str) -> Result<Self, String> {
        match media_type(content_type).as_str() {
            "application/json-patch+json" => Ok(Self::Operations),
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                Ok(Self::Part)
            }
            other => Err(format!("a patch of type {other:?} does not pass")),
        }
    }

    /// Whether `body` is about one of `identities`, and leaves out what a write of that one must.
    ///
    /// # Errors
    /// Why not: a clause about the first of them, or about what it may not set.
    pub fn check(self, body: &[u8], identities: &[Identity<'_>]) -> Result<(), String> {
        if self == Self::Options && body.is_empty() {
            return Ok(());
        }
        let value =
            json::parse(body).map_err(|error| format!("its body is no plain JSON: {error}"))?;
        let (mut fits, mut first) = (false, None);
        for identity in identities {
            match self.check_value(&value, identity) {
                Ok(()) => {
                    self.check_absent(&value, identity.absent)?;
                    fits = true;
                }
                Err(why) => first = first.or(Some(why)),
            }
        }
        if fits {
            return Ok(());
        }
        Err(first.unwrap_or_else(|| "no object is listed".to_owned()))
    }

    fn check_absent(self, value: &Value, absent: &[String]) -> Result<(), String> {
        match (self, absent) {
            (_, []) | (Self::Options, _) => Ok(()),
            (Self::New | Self::Whole, _) => absent::in_object(absent, value),
            (Self::Operations, _) => absent::in_operations(absent, value),
            // What comes of it depends on what is there.
            (Self::Apply | Self::Part, [first, ..]) => Err(format!(
                "a merge or apply patch cannot be held to {first:?}, which the approved plan leaves out"
            )),
        }
    }

    fn check_value(self, value: &Value, identity: &Identity<'_>) -> Result<(), String> {
        match self {
            Self::Operations => check_operations(value),
            Self::Options => match object(value, "its body")?.get("kind") {
                None => Ok(()),
                Some(kind) if kind == "DeleteOptions" => Ok(()),
                Some(_) => Err("its body is no DeleteOptions".to_owned()),
            },
            Self::New | Self::Whole | Self::Apply | Self::Part => {
                self.check_object(value, identity)
            }
        }
    }

    fn check_object(self, value: &Value, identity: &Identity<'_>) -> Result<(), String> {
        let body = object(value, "its body")?;
        exact_keys(body, &["apiVersion", "kind", "metadata"])?;
        let none = Map::new();
        let metadata = match body.get("metadata") {
            Some(metadata) => object(metadata, "metadata")?,
            None => &none,
        };
        exact_keys(metadata, &["name", "namespace", "generateName"])?;
        let whole = self != Self::Part;
        let version = match identity.group {
            "" => identity.version.to_owned(),
            group => format!("{group}/{}", identity.version),
        };
        is("apiVersion", body.get("apiVersion"), &version, whole)?;
        is("kind", body.get("kind"), identity.kind, whole)?;
        is("metadata.name", metadata.get("name"), identity.name, whole)?;
        // Without one the API server takes the path's.
        is(
            "metadata.namespace",
            metadata.get("namespace"),
            identity.namespace,
            false,
        )?;
        is(
            "metadata.generateName",
            metadata.get("generateName"),
            "",
            false,
        )
    }
}

fn only(content_type: &str, wanted: &str, form: Form) -> Result<Form, String> {
    if media_type(content_type) == wanted {
        return Ok(form);
    }
    Err(format!(
        "a body of type {content_type:?} cannot be checked, only {wanted}"
    ))
}

fn media_type(content_type: &str) -> String {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{what} is no JSON object"))
}

/// Refuses a key that some reader could take for one of `keys`.
fn exact_keys(object: &Map<String, Value>, keys: &[&str]) -> Result<(), String> {
    let alike = |key: &&String| {
        let same = keys.iter().find(|known| key.eq_ignore_ascii_case(known));
        same.is_some_and(|known| key != known)
    };
    match object.keys().find(alike) {
        Some(key) => Err(format!("its body has a key {key:?}")),
        None => Ok(()),
    }
}

fn is(field: &str, value: Option<&Value>, wanted: &str, required: bool) -> Result<(), String> {
    match value {
        None if required => Err(format!("its body has no {field}")),
        None => Ok(()),
        Some(value) if value == wanted => Ok(()),
        Some(value) => Err(format!(
            "its {field} is {value}, and the approved plan has {wanted:?}"
        )),
    }
}

/// A JSON patch may change what an object says, not which object it is.
fn check_operations(value: &Value) -> Result<(), String> {
    let operations = value.as_array();
    let operations = operations.ok_or_else(|| "its body is no list of operations".to_owned())?;
    for operation in operations {
        let operation = object(operation, "an operation")?;
        exact_keys(operation, &["op", "path", "from", "value"])?;
        for (key, required) in [("path", true), ("from", false)] {
            match operation.get(key) {
                None if !required => {}
                Some(Value::String(pointer)) => check_pointer(pointer)?,
                _ => return Err(format!("an operation has no {key}")),
            }
        }
    }
    Ok(())
}

fn check_pointer(pointer: &str) -> Result<(), String> {
    // An escape stands for '~' or '/', so none of the words below can be spelt with one.
    let mut parts = pointer.split('/');
    let fits = match (parts.next(), parts.next(), parts.next()) {
        (Some(""), Some("" | "apiVersion" | "kind" | "status") | None, _) => false,
        (Some(""), Some("metadata"), below) => matches!(below, Some("labels" | "annotations")),
        (Some(""), Some(_), _) => true,
        _ => false,
    };
    if !fits {
        return Err(format!("its patch touches {pointer:?}"));
    }
    Ok(())
}
