//! What a write must leave out: places that the approved plan has as filled in by the provider, because
//! the source does not set them. A `dynamic` block that was not known yet looks the same in a plan, so
//! the request itself is held to it.

use serde_json::Value;

/// A JSON pointer in its parts, unescaped.
type Place = Vec<String>;

/// Whether `object` leaves out all of `absent`, which are JSON pointers: nothing, null, an empty text,
/// list or object is all there may be.
///
/// # Errors
/// The first place that it sets, as a clause; also for one that is no JSON pointer.
pub fn in_object(absent: &[String], object: &Value) -> Result<(), String> {
    for (at, place) in places(absent)? {
        if sets(object, &place) {
            return Err(format!(
                "its body sets {at:?}, which the approved plan leaves out"
            ));
        }
    }
    Ok(())
}

/// Whether a JSON patch can fill none of `absent`, whatever it is applied to.
///
/// # Errors
/// The first place that it could fill, as a clause; also for one that is no JSON pointer.
pub fn in_operations(absent: &[String], operations: &Value) -> Result<(), String> {
    let places = places(absent)?;
    for operation in operations.as_array().into_iter().flatten() {
        if let Some((at, _)) = places.iter().find(|(_, place)| fills(operation, place)) {
            return Err(format!(
                "its patch could set {at:?}, which the approved plan leaves out"
            ));
        }
    }
    Ok(())
}

fn places(absent: &[String]) -> Result<Vec<(&str, Place)>, String> {
    let read = |at| {
        let place = parts(at);
        let place =
            place.ok_or_else(|| format!("{at:?} is to be left out, and is no JSON pointer"));
        place.map(|place| (at, place))
    };
    absent.iter().map(String::as_str).map(read).collect()
}

fn parts(pointer: &str) -> Option<Place> {
    let Some(parts) = pointer.strip_prefix('/') else {
        return pointer.is_empty().then(Vec::new);
    };
    let plain = |part: &str| {
        let mut escapes = part.split('~').skip(1);
        let known = escapes.all(|after| after.starts_with(['0', '1']));
        known.then(|| part.replace("~1", "/").replace("~0", "~"))
    };
    parts.split('/').map(plain).collect()
}

/// Whether there is something at `place` in `value`.
fn sets(value: &Value, place: &[String]) -> bool {
    let Some((part, rest)) = place.split_first() else {
        return says_something(value);
    };
    match value {
        Value::Object(map) => map
            .iter()
            .any(|(key, inner)| alike(key, part) && sets(inner, rest)),
        Value::Array(items) => match part.parse::<usize>() {
            Ok(index) => items.get(index).is_some_and(|item| sets(item, rest)),
            // It does not say in which of them, so in none.
            Err(_) => items.iter().any(|item| sets(item, place)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Nothing, and what holds nothing, says nothing.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => map.values().any(says_something),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Whether one operation of a JSON patch could leave something at `place`.
fn fills(operation: &Value, place: &[String]) -> bool {
    let text = |key: &str| {
        let text = operation.get(key).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let (Some(path), Some(from)) = (parts(text("path")), parts(text("from"))) else {
        return true;
    };
    let appends = path.last().is_some_and(|part| part == "-");
    match text("op") {
        "test" => false,
        "remove" => shifts(&path, place),
        "add" if shifts(&path, place) && !appends => true,
        "add" | "replace" => writes(&path, operation.get("value"), place),
        "move" if shifts(&from, place) => true,
        // "move" and "copy": a value beside them is not what they write. And whatever else there is.
        _ => writes(&path, None, place),
    }
}

/// Whether `value`, written at `path`, leaves something at `place`. `None` is a value nobody knows.
fn writes(path: &[String], value: Option<&Value>, place: &[String]) -> bool {
    if !on_the_way(path, place) {
        return false;
    }
    match (place.get(path.len()..), value) {
        (Some(inner), Some(value)) => sets(value, inner),
        // Unknown, or inside of the place.
        (Some(_), None) | (None, _) => true,
    }
}

/// Whether an item comes to or goes from `path` in a list that `place` leads through: then another item
/// than before stands at the place's index.
fn shifts(path: &[String], place: &[String]) -> bool {
    let last = path.len().checked_sub(1).and_then(|last| place.get(last));
    last.is_some_and(|part| is_index(part)) && on_the_way(path, place)
}

/// Whether one leads through the other. Where the place has an index, every item of the list is meant: an
/// API server takes "-", "-1" and "+1" for one, too.
fn on_the_way(path: &[String], place: &[String]) -> bool {
    let mut both = path.iter().zip(place);
    both.all(|(path, place)| is_index(place) || alike(path, place))
}

fn is_index(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

/// Whether some reader could take one key for the other.
fn alike(key: &str, other: &str) -> bool {
    key.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MOUNTS: &str = "/spec/template/spec/containers/0/volumeMounts";

    fn absent() -> Vec<String> {
        ["/spec/strategy", "/spec/template/spec/volumes", MOUNTS]
            .map(str::to_owned)
            .to_vec()
    }

    /// As provider kubernetes 1.13.4 sends it.
    fn plain() -> Value {
        json!({ "spec": { "replicas": 0, "strategy": {}, "template": { "spec": {
            "containers": [
                { "name": "a", "resources": {} },
                { "name": "b", "volumeMounts": [{ "mountPath": "/" }] },
            ],
            "volumes": null,
        } } } })
    }

    #[test]
    fn an_object_may_leave_out_or_leave_empty_and_no_more() {
        for (at, value, sets) in [
            ("/spec/strategy", json!(null), false),
            ("/spec/strategy", json!(""), false),
            ("/spec/strategy", json!([]), false),
            ("/spec/strategy", json!({ "type": "", "a": [] }), false),
            ("/spec/strategy", json!({ "type": "Recreate" }), true),
            ("/spec/strategy", json!(false), true),
            ("/spec/strategy", json!(0), true),
            ("/spec/template/spec/volumes", json!([]), false),
            ("/spec/template/spec/volumes", json!([{}]), true),
            ("/spec/template/spec/volumes", json!([null]), true),
            (MOUNTS, json!([]), false),
            (MOUNTS, json!([{ "mountPath": "/" }]), true),
        ] {
            let mut object = plain();
            assert_eq!(in_object(&absent(), &object), Ok(()));
            let (parent, key) = at.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[key] = value;
            let says = format!("its body sets {at:?}, which the approved plan leaves out");
            let said = in_object(&absent(), &object);
            assert_eq!(said, if sets { Err(says) } else { Ok(()) }, "{object}");
        }
    }

    #[test]
    fn places_are_found_however_an_object_spells_them() {
        for (at, object, sets) in [
            (
                "/spec/nodeName",
                json!({ "Spec": { "nodename": "n" } }),
                true,
            ),
            (
                "/spec/nodeName",
                json!({ "spec": { "node_name": "n" } }),
                false,
            ),
            (
                "/spec/nodeName",
                json!({ "nodeName": "n", "spec": "nodeName" }),
                false,
            ),
            // A list where an object was thought of.
            (
                "/spec/a/b",
                json!({ "spec": { "a": [{}, { "b": 1 }] } }),
                true,
            ),
            (
                "/spec/a/b",
                json!({ "spec": { "a": [{}, { "c": 1 }] } }),
                false,
            ),
            ("/spec/a/0", json!({ "spec": { "a": { "0": 1 } } }), true),
            ("/spec/a~1b~01", json!({ "spec": { "a/b~1": 1 } }), true),
            ("/spec/a~1b~01", json!({ "spec": { "a/b/": 1 } }), false),
            ("/spec/", json!({ "spec": { "": 1 } }), true),
            ("", json!({ "kind": "Pod" }), true),
        ] {
            let said = in_object(&[at.to_owned()], &object);
            assert_eq!(said.is_err(), sets, "{at} {object}");
        }
    }

    #[test]
    fn a_place_that_is_no_pointer_lets_nothing_pass() {
        for bad in [
            "spec",
            "spec/volumes",
            "/spec/~",
            "/spec/~2",
            "/a~1~b",
            " /spec",
        ] {
            let absent = ["/never".to_owned(), bad.to_owned()];
            for said in [
                in_object(&absent, &json!({})),
                in_operations(&absent, &json!([])),
            ] {
                let why = said.unwrap_err();
                assert!(why.contains(&format!("{bad:?}")), "{why}");
            }
        }
    }

    #[test]
    fn a_patch_may_not_bring_in_what_an_object_may_not_have() {
        let spec = "/spec/template/spec";
        let volumes = json!({ "volumes": [{ "name": "v" }] });
        let mounted = json!({ "volumeMounts": [{}] });
        for (refused, op, path, value) in [
            (false, "replace", "/spec", plain()["spec"].clone()),
            (false, "replace", "/spec/replicas", json!(0)),
            (false, "add", "/metadata/labels/a", json!("b")),
            (false, "add", "/metadata/labels/volumes", json!("b")),
            (false, "add", "/spec/volumes", json!([{}])),
            (false, "add", "{spec}/volumes", json!([])),
            (false, "add", "{spec}/containers/-", json!({ "name": "c" })),
            (
                false,
                "replace",
                "{spec}/containers/0",
                json!({ "name": "c" }),
            ),
            (false, "replace", "{spec}/containers/0/image", json!("i")),
            (false, "replace", "{spec}/containers", json!([{}, mounted])),
            (false, "remove", "{spec}/volumes", json!(null)),
            (false, "remove", "{spec}/volumes/0", json!(null)),
            (false, "remove", "{spec}/containers/0/image", json!(null)),
            (false, "remove", "/spec", json!(null)),
            (false, "test", "{spec}/volumes", json!([{}])),
            (
                true,
                "replace",
                "/spec",
                json!({ "template": { "spec": volumes } }),
            ),
            (
                true,
                "replace",
                "",
                json!({ "spec": { "template": { "spec": volumes } } }),
            ),
            (true, "add", "{spec}", volumes.clone()),
            (true, "add", "{spec}/volumes", json!([{ "name": "v" }])),
            (true, "add", "{spec}/Volumes", json!([{ "name": "v" }])),
            (true, "add", "{spec}/volumes/-", json!({ "name": "v" })),
            (true, "add", "{spec}/volumes/0/hostPath", json!({})),
            (true, "add", "{spec}/volumes/~", json!({})),
            (true, "Add", "{spec}/volumes", json!([{}])),
            (true, "replace", "/spec/strategy/type", json!("Recreate")),
            // One container is as good as another, however it is counted.
            (true, "add", "{spec}/containers/-", mounted.clone()),
            (true, "replace", "{spec}/containers/7", mounted.clone()),
            (true, "replace", "{spec}/containers/-1", mounted.clone()),
            (
                true,
                "replace",
                "{spec}/containers/+0/volumeMounts",
                json!([{}]),
            ),
            (true, "replace", "{spec}/containers", json!([mounted])),
            // The next one takes its index.
            (true, "remove", "{spec}/containers/0", json!(null)),
            (true, "add", "{spec}/containers/0", json!({ "name": "c" })),
        ] {
            let path = path.replace("{spec}", spec);
            let operations = json!([
                { "op": "test", "path": "/kind", "value": "Deployment" },
                { "op": op, "path": path, "value": value },
            ]);
            let said = in_operations(&absent(), &operations);
            assert_eq!(said.is_err(), refused, "{operations}");
        }
        let none = json!([{ "op": "add", "path": "/spec/strategy" }]);
        assert!(in_operations(&absent(), &none).is_err(), "no value");
    }

    #[test]
    fn nothing_is_copied_or_moved_where_it_could_fill_a_place() {
        let spec = "/spec/template/spec";
        for (refused, from, path) in [
            (false, "/metadata/labels/a", "/metadata/labels/b"),
            (false, "{spec}/volumes", "/metadata/annotations"),
            (false, "{spec}/initContainers/0", "{spec}/initContainers/1"),
            (true, "/metadata/labels", "/spec"),
            (true, "/metadata/labels", "{spec}"),
            (true, "/metadata/labels/a", "{spec}/volumes"),
            (true, "/metadata/labels/a", "{spec}/volumes/-"),
            (true, "{spec}/containers/1/volumeMounts", MOUNTS),
            (true, "{spec}/initContainers/0", "{spec}/containers/-"),
        ] {
            for op in ["copy", "move"] {
                let [from, path] = [from, path].map(|at| at.replace("{spec}", spec));
                // What stands beside as a value is not what is written.
                let operations = json!([{ "op": op, "from": from, "path": path, "value": null }]);
                let said = in_operations(&absent(), &operations);
                assert_eq!(said.is_err(), refused, "{operations}");
            }
        }
        let away = json!([{
            "op": "move", "from": "/spec/template/spec/containers/0", "path": "/spec/x",
        }]);
        let said = in_operations(&absent(), &away).unwrap_err();
        assert!(said.contains(MOUNTS), "{said}");
    }
}
