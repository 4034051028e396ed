//! What a request of Terraform's provider may do, decided by method, path, query and headers; for a
//! write also what its body must say. What is not plainly allowed is refused.

use http::Method;
use sandbox_proto::runner::v1::Object;

use super::body::{Form, Identity};
use super::target::{Resource, Target, query};

/// Query parameters of a read. None of them leads elsewhere, and `watch` is not among them: a watch
/// outlives the token it was opened with.
const READ_QUERY: &[&str] = &[
    "continue",
    "export",
    "fieldSelector",
    "includeUninitialized",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "timeout",
    "timeoutSeconds",
];

/// Query parameters of a write.
const WRITE_QUERY: &[&str] = &[
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "timeout",
];

/// What passes: reads in some namespaces, and writes to some objects.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    namespaces: Vec<String>,
    /// `None` while planning.
    objects: Option<Vec<Object>>,
}

/// The head of a request.
pub struct Head<'a> {
    /// HTTP method.
    pub method: &'a Method,
    /// Without the query.
    pub path: &'a str,
    /// As it was sent.
    pub query: Option<&'a str>,
    /// `Content-Type`; empty without one.
    pub content_type: &'a str,
    /// Whether it asks to speak something other than HTTP afterwards.
    pub upgrade: bool,
}

/// A request that may pass, if its body is what it must be.
#[derive(Debug, PartialEq)]
pub enum Pass<'a> {
    /// Whatever it has for a body is not sent on.
    Read,
    /// The body must say this.
    Write(Form, Vec<Identity<'a>>),
}

impl Rules {
    /// Reads alone, in `namespaces`.
    #[must_use]
    pub fn reads(namespaces: Vec<String>) -> Self {
        Self {
            namespaces,
            objects: None,
        }
    }

    /// Reads in `namespaces`, and the writes that `objects` lists.
    #[must_use]
    pub fn writes(namespaces: Vec<String>, objects: Vec<Object>) -> Self {
        Self {
            namespaces,
            objects: Some(objects),
        }
    }

    /// Whether a request may pass, and with which body.
    ///
    /// # Errors
    /// Why not: a clause about the request.
    pub fn admit<'a>(&'a self, head: &Head<'a>) -> Result<Pass<'a>, String> {
        if head.upgrade {
            return Err("it asks for another protocol".to_owned());
        }
        let target = Target::parse(head.path)?;
        match (head.method.as_str(), target) {
            ("GET" | "HEAD", Target::Discovery) => check_query(head.query, READ_QUERY),
            ("GET" | "HEAD", Target::Resource(resource)) => {
                self.check_read(&resource)?;
                check_query(head.query, READ_QUERY)
            }
            (_, Target::Resource(resource)) => return self.admit_write(head, resource),
            (_, Target::Discovery) => Err("nothing can be written there".to_owned()),
        }
        .map(|()| Pass::Read)
    }

    fn check_read(&self, resource: &Resource<'_>) -> Result<(), String> {
        if let Some(sub) = resource.subresource
            && !matches!(sub, "status" | "scale")
        {
            return Err(format!("the subresource {sub} is not for Terraform"));
        }
        // What may be written may be read.
        if resource.name.is_some() && self.named(resource).next().is_some() {
            return Ok(());
        }
        let namespace = match resource.namespace {
            Some(namespace) => namespace,
            None if is_namespace(resource) => resource.name.unwrap_or_default(),
            None => {
                let what = resource.resource;
                return Err(format!("{what} is asked for outside the root's namespaces"));
            }
        };
        if self.namespaces.iter().any(|known| known == namespace) {
            return Ok(());
        }
        Err(format!("{namespace:?} is none of the root's namespaces"))
    }

    fn admit_write<'a>(
        &'a self,
        head: &Head<'a>,
        resource: Resource<'a>,
    ) -> Result<Pass<'a>, String> {
        if self.objects.is_none() {
            return Err("this is a plan: only GET passes".to_owned());
        }
        if let Some(sub) = resource.subresource {
            return Err(format!("the subresource {sub} is not in the approved plan"));
        }
        let (form, verb, listed): (_, _, fn(&Object) -> bool) =
            match (head.method.as_str(), resource.name) {
                ("POST", None) => (Form::new_object(head.content_type)?, "create", |o| o.create),
                ("PUT", Some(_)) => (Form::whole(head.content_type)?, "update", |o| o.update),
                // Server-side apply makes what is not there.
                ("PATCH", Some(_)) if Form::is_apply(head.content_type) => {
                    (Form::Apply, "create or update", |o| o.create || o.update)
                }
                ("PATCH", Some(_)) => (Form::patch(head.content_type)?, "update", |o| o.update),
                ("DELETE", Some(_)) => (Form::delete(head.content_type)?, "delete", |o| o.delete),
                (method, Some(_)) => return Err(format!("{method} of an object does not pass")),
                (method, None) => return Err(format!("{method} of a collection does not pass")),
            };
        check_query(head.query, WRITE_QUERY)?;
        let identities: Vec<_> = self
            .named(&resource)
            .filter(|object| listed(object))
            .map(|object| Identity {
                group: &object.group,
                version: resource.version,
                kind: &object.kind,
                namespace: &object.namespace,
                name: &object.name,
                absent: &object.absent,
            })
            .collect();
        if identities.is_empty() {
            let what = describe(&resource);
            return Err(format!("the approved plan does not {verb} {what}"));
        }
        Ok(Pass::Write(form, identities))
    }

    /// The listed objects that a path may be about; of a collection all that are in it.
    fn named<'a>(&'a self, resource: &Resource<'a>) -> impl Iterator<Item = &'a Object> {
        let resource = *resource;
        let objects = self.objects.as_deref().unwrap_or_default();
        objects.iter().filter(move |object| {
            object.group == resource.group
                && object.resource == resource.resource
                && object.namespace == resource.namespace.unwrap_or_default()
                && resource.name.is_none_or(|name| name == object.name)
        })
    }
}

fn is_namespace(resource: &Resource<'_>) -> bool {
    resource.group.is_empty() && resource.resource == "namespaces"
}

fn describe(resource: &Resource<'_>) -> String {
    let group = match resource.group {
        "" => String::new(),
        group => format!(".{group}"),
    };
    let name = resource
        .name
        .map_or(String::new(), |name| format!(" {name}"));
    let namespace = match resource.namespace {
        Some(namespace) => format!(" in {namespace}"),
        None => String::new(),
    };
    format!("{}{group}{name}{namespace}", resource.resource)
}

fn check_query(text: Option<&str>, known: &[&str]) -> Result<(), String> {
    for (key, _) in query(text.unwrap_or_default())? {
        if !known.contains(&key.as_ref()) {
            return Err(format!("the query parameter {key:?} does not pass"));
        }
    }
    Ok(())
}
