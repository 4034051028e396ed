//! A Kubernetes API that keeps objects by path, as far as Terraform's provider uses it: what is posted
//! can be read, patched whole and deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::api_server::{Answer, Request};

/// The objects, by path.
#[derive(Clone, Default)]
pub struct Objects(Arc<Mutex<BTreeMap<String, Value>>>);

impl Objects {
    /// Their paths.
    pub fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    /// Puts one there that nobody posted.
    pub fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().insert(path.to_owned(), object);
    }

    /// Answers one request.
    pub fn answer(&self, request: &Request) -> Answer {
        let mut objects = self.0.lock().unwrap();
        let path = request.path.split('?').next().unwrap().to_owned();
        match request.method.as_str() {
            "GET" if path == "/version" => Answer::json(
                200,
                &json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.0" }),
            ),
            "GET" => match objects.get(&path) {
                Some(object) => Answer::json(200, object),
                None => not_found(&path),
            },
            "POST" => {
                let mut object = request.json();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                object["metadata"]["uid"] = format!("uid-of-{name}").into();
                object["metadata"]["resourceVersion"] = "1".into();
                object["metadata"]["generation"] = 1.into();
                objects.insert(format!("{path}/{name}"), object.clone());
                Answer::json(201, &object)
            }
            "DELETE" => match objects.remove(&path) {
                Some(object) => Answer::json(200, &object),
                None => not_found(&path),
            },
            method => Answer::refusal(405, &format!("no {method} here")),
        }
    }
}

fn not_found(path: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "NotFound", "code": 404, "message": format!("{path} not found"), "details": {},
    });
    Answer::json(404, &status)
}
