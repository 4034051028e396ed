//! What a request line of the Kubernetes API names. Read strictly: a path the API server could read in
//! another way than we do is refused, whether or not it would.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// What a path names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target<'a> {
    /// Versions, groups and schemas: of no namespace, and the same for everyone.
    Discovery,
    /// An object, or a collection of them.
    Resource(Resource<'a>),
}

/// An object, or a collection of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resource<'a> {
    /// Empty is the core group.
    pub group: &'a str,
    /// e.g. `v1`.
    pub version: &'a str,
    /// `None` for what has no namespace, and for a collection across all of them.
    pub namespace: Option<&'a str>,
    /// Plural, lower case.
    pub resource: &'a str,
    /// `None` for a collection.
    pub name: Option<&'a str>,
    /// e.g. `status`.
    pub subresource: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Reads a path, without its query.
    ///
    /// # Errors
    /// Why it is refused: a clause.
    pub fn parse(path: &'a str) -> Result<Self, &'static str> {
        let segments: Vec<_> = path.strip_prefix('/').unwrap_or("/").split('/').collect();
        if !segments.iter().all(|segment| is_plain(segment)) {
            return Err("its path has a part that is empty, escaped, or no name");
        }
        let target = match segments.as_slice() {
            ["version" | "api" | "apis"]
            | ["api" | "apis", _]
            | ["apis", _, _]
            | ["openapi", _, ..] => return Ok(Self::Discovery),
            ["api", version, rest @ ..] => resource("", version, rest)?,
            ["apis", group, version, rest @ ..] => resource(group, version, rest)?,
            _ => return Err("its path is not one of the Kubernetes API's objects or of discovery"),
        };
        match target.resource {
            "watch" | "proxy" => Err("its path is a legacy form of watch or proxy"),
            _ => Ok(Self::Resource(target)),
        }
    }
}

const TOO_DEEP: &str = "its path goes deeper than a subresource";

fn resource<'a>(
    group: &'a str,
    version: &'a str,
    rest: &[&'a str],
) -> Result<Resource<'a>, &'static str> {
    let found = |namespace, resource, name, subresource| {
        Ok(Resource {
            group,
            version,
            namespace,
            resource,
            name,
            subresource,
        })
    };
    match *rest {
        // As the API server reads them: these two belong to the namespace itself.
        ["namespaces", name] => found(None, "namespaces", Some(name), None),
        ["namespaces", name, sub @ ("status" | "finalize")] => {
            found(None, "namespaces", Some(name), Some(sub))
        }
        ["namespaces", namespace, resource] => found(Some(namespace), resource, None, None),
        ["namespaces", namespace, resource, name] => {
            found(Some(namespace), resource, Some(name), None)
        }
        ["namespaces", namespace, resource, name, sub] => {
            found(Some(namespace), resource, Some(name), Some(sub))
        }
        [resource] => found(None, resource, None, None),
        [resource, name] => found(None, resource, Some(name), None),
        ["namespaces", ..] => Err(TOO_DEEP),
        [resource, name, sub] => found(None, resource, Some(name), Some(sub)),
        _ => Err(TOO_DEEP),
    }
}

/// A part of a path that no reader takes for anything but itself.
fn is_plain(segment: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':');
    !segment.is_empty() && segment.bytes().all(plain) && segment.bytes().any(|b| b != b'.')
}

/// A key of a query and its value, decoded.
pub type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The keys of a query and their values.
///
/// # Errors
/// Why it is refused: a clause.
pub fn query(query: &str) -> Result<Vec<Pair<'_>>, &'static str> {
    let decode = |text| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map_err(|_| "its query is not UTF-8")
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            // Go reads neither of them as we would.
            if key.contains(['+', ';']) || value.contains(';') {
                return Err("its query has a ';', or a '+' in a key");
            }
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

/// Path and query as they are told: without the place where a page goes on.
#[must_use]
pub fn shown(path: &str, query: Option<&str>) -> String {
    let Some(query) = query else {
        return path.to_owned();
    };
    let kept: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.starts_with("continue="))
        .collect();
    if kept.is_empty() {
        return path.to_owned();
    }
    format!("{path}?{}", kept.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_the_api_server_reads_them() {
        let resource = |group, version, namespace, resource, name, subresource| {
            Ok(Target::Resource(Resource {
                group,
                version,
                namespace,
                resource,
                name,
                subresource,
            }))
        };
        for (path, target) in [
            ("/version", Ok(Target::Discovery)),
            ("/api", Ok(Target::Discovery)),
            ("/api/v1", Ok(Target::Discovery)),
            ("/apis", Ok(Target::Discovery)),
            ("/apis/apps", Ok(Target::Discovery)),
            ("/apis/apps/v1", Ok(Target::Discovery)),
            ("/openapi/v2", Ok(Target::Discovery)),
            ("/openapi/v3/apis/apps/v1", Ok(Target::Discovery)),
            ("/api/v1/pods", resource("", "v1", None, "pods", None, None)),
            (
                "/api/v1/namespaces",
                resource("", "v1", None, "namespaces", None, None),
            ),
            (
                "/api/v1/namespaces/a",
                resource("", "v1", None, "namespaces", Some("a"), None),
            ),
            (
                "/api/v1/namespaces/a/status",
                resource("", "v1", None, "namespaces", Some("a"), Some("status")),
            ),
            (
                "/api/v1/namespaces/a/finalize",
                resource("", "v1", None, "namespaces", Some("a"), Some("finalize")),
            ),
            (
                "/api/v1/namespaces/a/pods",
                resource("", "v1", Some("a"), "pods", None, None),
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/web/scale",
                resource(
                    "apps",
                    "v1",
                    Some("a"),
                    "deployments",
                    Some("web"),
                    Some("scale"),
                ),
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                resource(
                    "rbac.authorization.k8s.io",
                    "v1",
                    None,
                    "clusterroles",
                    Some("system:node"),
                    None,
                ),
            ),
        ] {
            assert_eq!(Target::parse(path), target, "{path}");
        }
        for path in [
            "",
            "/",
            "//version",
            "/version/",
            "/healthz",
            "/metrics",
            "/logs/x",
            "/openapi",
            "version",
            "/api/v1/namespaces/a/pods/",
            "/api/v1/namespaces//pods",
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces/./pods",
            "/api/v1/namespaces/a%2fb/pods",
            "/api/v1/namespaces/%61/pods",
            "/api/v1/namespaces/a/pods/x;y",
            "/api/v1/namespaces/a/pods/\u{fc}",
            "/api/v1/watch/pods",
            "/api/v1/watch/namespaces/a/pods",
            "/api/v1/proxy/namespaces/a/pods/x",
            "/api/v1/namespaces/a/pods/x/proxy/y",
            "/api/v1/nodes/x/proxy/metrics",
            "/api/v1/namespaces/a/watch/x",
        ] {
            assert!(Target::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn queries_are_read_decoded_and_told_without_where_a_page_goes_on() {
        assert_eq!(
            query("a=b&%77atch=1&c").unwrap(),
            [("a", "b"), ("watch", "1"), ("c", "")].map(|(key, value)| (key.into(), value.into()))
        );
        for bad in ["a=%ff", "a+b=c", "a=b;watch=true"] {
            assert!(query(bad).is_err(), "{bad}");
        }
        assert_eq!(shown("/p", Some("limit=5&continue=x")), "/p?limit=5");
        assert_eq!(shown("/p", Some("continue=x")), "/p");
        assert_eq!(shown("/p", None), "/p");
    }
}
