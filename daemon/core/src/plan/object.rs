//! Which live object a resource stands for, and whether a plan may touch it.

use serde_json::Value;

use super::document::ResourceChange;
use super::kinds::{self, Kind, Type};
use super::refusal::PlanRefusal;
use super::{LiveObject, PlanGuard, address};
use crate::names::NamespaceName;

/// What a resource stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Subject {
    /// An object of a kind that is known.
    Kind(Kind),
    /// An object that says itself of which kind it is.
    Manifest,
    /// Nothing outside of the state.
    Lifeless,
}

/// Refuses the resource, naming what about it.
pub(super) fn refuse(
    of: &ResourceChange,
    field: impl Into<String>,
    problem: impl Into<String>,
    next: impl Into<String>,
) -> PlanRefusal {
    PlanRefusal::Resource {
        address: address::without_keys(&of.address),
        field: field.into(),
        problem: problem.into(),
        next: next.into(),
    }
}

/// What the type of a resource stands for.
pub(super) fn subject(of: &ResourceChange) -> Result<Subject, PlanRefusal> {
    let field = format!("its type {}", of.type_name.escape_debug());
    match kinds::of_type(&of.provider, &of.type_name) {
        Type::Kind(kind) => Ok(Subject::Kind(kind)),
        Type::Manifest => Ok(Subject::Manifest),
        Type::Lifeless => Ok(Subject::Lifeless),
        Type::Never(why) => Err(refuse(
            of,
            field,
            why,
            "take it out and let an operator do that",
        )),
        Type::Unmapped => Err(refuse(
            of,
            field,
            "is not known here, so nobody could say what it changes",
            "take it out, or use a type of the Kubernetes provider that is",
        )),
    }
}

/// The object that `values` describe; `None` for what has none.
pub(super) fn of_values(
    of: &ResourceChange,
    subject: Subject,
    values: &Value,
    sensitive: &Value,
) -> Result<Option<LiveObject>, PlanRefusal> {
    match subject {
        Subject::Lifeless => Ok(None),
        Subject::Kind(kind) => {
            let metadata = values.pointer("/metadata/0");
            for field in ["name", "namespace"] {
                if hidden(
                    sensitive,
                    &["/metadata", "/metadata/0", &format!("/metadata/0/{field}")],
                ) {
                    return Err(unseen(of, &format!("metadata.{field}")));
                }
            }
            let object = LiveObject {
                group: kind.group.to_owned(),
                kind: kind.name.to_owned(),
                resource: kind.resource.to_owned(),
                namespace: if kind.namespaced {
                    Some(namespace(of, metadata, "metadata.namespace")?)
                } else {
                    None
                },
                name: name(of, metadata, "metadata.name")?,
            };
            same_as_id(of, &object, values)?;
            Ok(Some(object))
        }
        Subject::Manifest => of_manifest(of, values, sensitive).map(Some),
    }
}

fn of_manifest(
    of: &ResourceChange,
    values: &Value,
    sensitive: &Value,
) -> Result<LiveObject, PlanRefusal> {
    let manifest = values.get("manifest");
    for field in ["apiVersion", "kind", "metadata/name", "metadata/namespace"] {
        if hidden(
            sensitive,
            &[
                "/manifest",
                "/manifest/metadata",
                &format!("/manifest/{field}"),
            ],
        ) {
            return Err(unseen(of, &format!("manifest.{}", field.replace('/', "."))));
        }
    }
    let text = |key: &str| {
        manifest
            .and_then(|m| m.get(key))
            .and_then(Value::as_str)
            .ok_or_else(|| {
                refuse(
                    of,
                    format!("manifest.{key}"),
                    "is missing, or known only after apply",
                    "write it out",
                )
            })
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let metadata = manifest.and_then(|m| m.get("metadata"));
    // The provider deletes what the API server answered, whatever the manifest says.
    if let Some(answer) = values.get("object").filter(|object| object.is_object()) {
        for at in [
            "/apiVersion",
            "/kind",
            "/metadata/namespace",
            "/metadata/name",
        ] {
            let said = answer.pointer(at).filter(|said| !said.is_null());
            if said.is_some() && said != manifest.and_then(|m| m.pointer(at)) {
                return Err(refuse(
                    of,
                    "its object in the state",
                    "is another one than its manifest's",
                    "have an operator mend the state",
                ));
            }
        }
    }
    let known = kinds::of_manifest(group, kind);
    let namespaced = known.is_none_or(|kind| kind.namespaced);
    Ok(LiveObject {
        group: group.to_owned(),
        kind: kind.to_owned(),
        resource: known.map_or_else(|| kinds::plural(kind), |kind| kind.resource.to_owned()),
        namespace: if namespaced {
            Some(namespace(of, metadata, "manifest.metadata.namespace")?)
        } else {
            None
        },
        name: name(of, metadata, "manifest.metadata.name")?,
    })
}

/// The provider writes to what its id names, whatever the metadata says.
fn same_as_id(of: &ResourceChange, object: &LiveObject, values: &Value) -> Result<(), PlanRefusal> {
    let Some(id) = values.get("id").and_then(Value::as_str) else {
        return Ok(()); // it does not exist yet
    };
    if id == id_of(object) {
        return Ok(());
    }
    Err(refuse(
        of,
        "its id in the state",
        "names another object than its metadata",
        "have an operator mend the state",
    ))
}

/// How the provider names an object: `namespace/name`, or the name alone.
pub(super) fn id_of(object: &LiveObject) -> String {
    match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    }
}

fn namespace(
    of: &ResourceChange,
    metadata: Option<&Value>,
    field: &str,
) -> Result<NamespaceName, PlanRefusal> {
    let text = metadata
        .and_then(|m| m.get("namespace"))
        .and_then(Value::as_str);
    let Some(text) = text else {
        return Err(refuse(
            of,
            field,
            "is missing, or known only after apply",
            "write the namespace out",
        ));
    };
    text.parse().map_err(|_| {
        refuse(
            of,
            field,
            "is no name of a namespace",
            "write the namespace out",
        )
    })
}

fn name(of: &ResourceChange, metadata: Option<&Value>, field: &str) -> Result<String, PlanRefusal> {
    let text = metadata.and_then(|m| m.get("name")).and_then(Value::as_str);
    let Some(text) = text else {
        return Err(refuse(
            of,
            field,
            "is missing, or known only after apply",
            "give it a fixed name; generate_name cannot be reviewed",
        ));
    };
    let fits = (1..=253).contains(&text.len())
        && text.split('.').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        });
    if fits {
        return Ok(text.to_owned());
    }
    Err(refuse(
        of,
        field,
        "is no name that Kubernetes takes: a-z, 0-9, '-' and '.'",
        "give it another name",
    ))
}

fn hidden(sensitive: &Value, places: &[&str]) -> bool {
    sensitive == &Value::Bool(true)
        || places
            .iter()
            .any(|place| sensitive.pointer(place) == Some(&Value::Bool(true)))
}

fn unseen(of: &ResourceChange, field: &str) -> PlanRefusal {
    refuse(
        of,
        field,
        "is sensitive, so nobody could be shown which object it is",
        "name the object by something that is no secret",
    )
}

/// Refuses what the root may not touch.
pub(super) fn check(
    of: &ResourceChange,
    object: &LiveObject,
    guard: &PlanGuard,
) -> Result<(), PlanRefusal> {
    let kind = kind_words(object);
    if let Some(why) = kinds::forbidden(&object.group, &object.resource) {
        let field = format!("its kind {kind}");
        return Err(refuse(
            of,
            field,
            why,
            "take it out and let an operator do that",
        ));
    }
    let listed = guard
        .kinds
        .iter()
        .any(|kind| kind.group() == object.group && kind.resource() == object.resource);
    if !listed {
        return Err(refuse(
            of,
            format!("its kind {kind}"),
            "is not among the kinds of this root",
            "take it out, or ask an operator to add the kind to the root",
        ));
    }
    // A Namespace is its own.
    let namespace = match &object.namespace {
        None if object.group.is_empty() && object.resource == "namespaces" => {
            Some(object.name.as_str())
        }
        None => None,
        Some(namespace) => Some(namespace.as_str()),
    };
    let outside = namespace.filter(|name| {
        name.starts_with("kube-") || !guard.namespaces.iter().any(|n| n.as_str() == *name)
    });
    if outside.is_some() {
        let allowed: Vec<&str> = guard.namespaces.iter().map(NamespaceName::as_str).collect();
        return Err(refuse(
            of,
            "its namespace",
            format!("is not one of this root ({})", allowed.join(", ")),
            "move it there, or ask an operator to add the namespace to the root",
        ));
    }
    Ok(())
}

/// The kind in words. A manifest's kind is a value like any other, so it is told only when it is a word that
/// this project knows.
fn kind_words(object: &LiveObject) -> String {
    match kinds::of_manifest(&object.group, &object.kind) {
        Some(kind) => kind.name.to_owned(),
        None if kinds::forbidden(&object.group, &object.resource).is_some() => {
            if object.group.is_empty() {
                object.resource.clone()
            } else {
                format!("of {}", object.group)
            }
        }
        None => "(not a built-in one)".to_owned(),
    }
}

/// Refuses Secrets that are credentials of the cluster itself.
pub(super) fn check_secret(of: &ResourceChange, values: &Value) -> Result<(), PlanRefusal> {
    let kind = values
        .get("type")
        .or_else(|| values.pointer("/manifest/type"))
        .and_then(Value::as_str);
    let token = matches!(
        kind,
        Some("kubernetes.io/service-account-token" | "bootstrap.kubernetes.io/token")
    );
    if token {
        return Err(refuse(
            of,
            "type",
            "makes the cluster put a token into the Secret",
            "use a Secret of another type",
        ));
    }
    Ok(())
}
