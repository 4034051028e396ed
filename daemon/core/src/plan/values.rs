//! What changes in a resource, attribute by attribute, with what is secret masked.

use serde_json::Value;

use super::Attribute;
use super::document::RawChange;
use super::path::{self, Step};

/// A value that nobody may see.
pub(super) const SENSITIVE: &str = "(sensitive)";
/// A value that Terraform learns while it applies.
pub(super) const UNKNOWN: &str = "(known after apply)";
/// No value.
pub(super) const NONE: &str = "(none)";

/// What is masked whatever Terraform says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Masks {
    /// What a Secret holds: its keys are shown, its values are not.
    pub(super) secret_data: bool,
    /// To the provider an empty text is no value, as in everything made with the first SDK.
    pub(super) legacy: bool,
    /// An attribute that repeats another one and loses its mark on the way.
    pub(super) copy: Option<&'static str>,
}

/// The attributes that differ, in the order of their paths.
pub(super) fn differences(change: &RawChange, masks: Masks) -> Vec<Attribute> {
    let mut walk = Walk {
        masks,
        replace: &change.replace_paths,
        path: Vec::new(),
        found: Vec::new(),
    };
    walk.visit(&Pair {
        before: Some(&change.before),
        after: Some(&change.after),
        unknown: Some(&change.after_unknown),
        before_mask: Some(&change.before_sensitive),
        after_mask: Some(&change.after_sensitive),
    });
    walk.found
}

/// Whether a mark stands anywhere in it.
pub(super) fn any_mark(mask: &Value) -> bool {
    match mask {
        Value::Bool(here) => *here,
        Value::Array(items) => items.iter().any(any_mark),
        Value::Object(map) => map.values().any(any_mark),
        Value::Null | Value::Number(_) | Value::String(_) => false,
    }
}

/// One place, before and after. `None` is "not there".
struct Pair<'a> {
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    unknown: Option<&'a Value>,
    before_mask: Option<&'a Value>,
    after_mask: Option<&'a Value>,
}

struct Walk<'a> {
    masks: Masks,
    replace: &'a [Vec<Step>],
    path: Vec<Step>,
    found: Vec<Attribute>,
}

impl Walk<'_> {
    fn visit(&mut self, pair: &Pair<'_>) {
        let before_marked = marked(pair.before_mask);
        let after_marked = marked(pair.after_mask);
        let unknown = pair.unknown == Some(&Value::Bool(true));
        let keyed = self.masks.secret_data && self.in_secret_data();
        if keyed && !unknown && self.path.len() == 1 && is_map(pair.before) && is_map(pair.after) {
            return self.descend(pair); // a Secret's keys are names
        }
        let always = keyed || self.masks.copy.is_some_and(|copy| self.at(copy));
        if always || before_marked || after_marked {
            return self.masked(pair, unknown, (before_marked, after_marked));
        }
        if unknown {
            let before = pair.before.map_or_else(|| NONE.to_owned(), shown);
            return self.found(before, UNKNOWN.to_owned(), false);
        }
        if is_leaf(pair.before) && is_leaf(pair.after) && !has_parts(pair.unknown) {
            if !self.same(pair.before, pair.after) {
                let text = |v: Option<&Value>| v.map_or_else(|| NONE.to_owned(), shown);
                self.found(text(pair.before), text(pair.after), false);
            }
            return;
        }
        if parts(pair.before) == Some("value") && has_parts(pair.unknown) {
            let before = pair.before.map_or_else(|| NONE.to_owned(), shown);
            return self.found(before, UNKNOWN.to_owned(), false);
        }
        if let (Some(one), Some(other)) = (parts(pair.before), parts(pair.after))
            && one != other
        {
            // A list where a map was, or a text where a list was: shown whole, unless a part is masked.
            let hidden = pair.before_mask.is_some_and(any_mark)
                || pair.after_mask.is_some_and(any_mark)
                || has_parts(pair.unknown);
            if hidden {
                return self.masked(pair, false, (true, true));
            }
            let text = |v: Option<&Value>| v.map_or_else(|| NONE.to_owned(), shown);
            return self.found(text(pair.before), text(pair.after), false);
        }
        self.descend(pair);
    }

    /// Goes into each key or index that either side has.
    fn descend(&mut self, pair: &Pair<'_>) {
        let mut keys: Vec<&String> = Vec::new();
        let mut length = 0;
        for side in [pair.before, pair.after, pair.unknown]
            .into_iter()
            .flatten()
        {
            if let Value::Object(map) = side {
                keys.extend(map.keys());
            }
            if let Value::Array(items) = side {
                length = length.max(items.len());
            }
        }
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let inner = pair.each(|side| side.and_then(|v| v.get(key.as_str())));
            self.enter(Step::Key(key.clone()), &inner);
        }
        for index in 0..length {
            let inner = pair.each(|side| side.and_then(|v| v.get(index)));
            self.enter(Step::Index(index), &inner);
        }
    }

    fn enter(&mut self, step: Step, inner: &Pair<'_>) {
        // Blocks that are not set are empty lists to the provider. But an element that comes or goes counts
        // even when it holds nothing, since an empty rule can mean "everyone"; so does an empty part of
        // what the configuration wrote freely.
        let counts = matches!(step, Step::Index(_)) || path::free_from(&self.path).is_some();
        let found = self.found.len();
        self.path.push(step);
        self.visit(inner);
        let came_or_went = inner.before.is_some() != inner.after.is_some();
        if counts && came_or_went && self.found.len() == found {
            self.found(empty(inner.before), empty(inner.after), false);
        }
        self.path.pop();
    }

    /// A masked value says whether it changes, and nothing else.
    fn masked(&mut self, pair: &Pair<'_>, unknown: bool, marks: (bool, bool)) {
        let there = |v: Option<&Value>| v.is_some_and(|v| !v.is_null());
        let (before, after) = (there(pair.before), there(pair.after));
        let unknown = unknown || has_parts(pair.unknown);
        let same = pair.before.unwrap_or(&Value::Null) == pair.after.unwrap_or(&Value::Null);
        let text = |there: bool| if there { SENSITIVE } else { NONE }.to_owned();
        if unknown {
            self.found(text(before), UNKNOWN.to_owned(), true);
        } else if !same {
            self.found(text(before), text(after), true);
        } else if before && marks.0 != marks.1 {
            let now = if marks.1 {
                "(same, now sensitive)"
            } else {
                "(same, not sensitive any more)"
            };
            self.found(SENSITIVE.to_owned(), now.to_owned(), true);
        }
    }

    fn same(&self, before: Option<&Value>, after: Option<&Value>) -> bool {
        let legacy = self.masks.legacy && path::free_from(&self.path).is_none();
        let plain = |side: Option<&Value>| match side {
            None => Value::Null,
            Some(Value::String(text)) if legacy && text.is_empty() => Value::Null,
            Some(value) => value.clone(),
        };
        plain(before) == plain(after)
    }

    fn found(&mut self, before: String, after: String, sensitive: bool) {
        let forces = self
            .replace
            .iter()
            .any(|replace| path::on_one_line(replace, &self.path));
        self.found.push(Attribute {
            path: path::written(&self.path),
            before,
            after,
            sensitive,
            forces_replacement: forces,
            filled_in: false,
        });
    }

    fn at(&self, name: &str) -> bool {
        matches!(self.path.first(), Some(Step::Key(key)) if key == name)
    }

    /// Inside what a Secret holds, be it the provider's Secret or a manifest's.
    fn in_secret_data(&self) -> bool {
        let data = |step: Option<&Step>| {
            matches!(step, Some(Step::Key(key)) if matches!(
                key.as_str(),
                "data" | "binary_data" | "binary_data_wo" | "data_wo" | "stringData"
            ))
        };
        data(self.path.first())
            || ((self.at("manifest") || self.at("object")) && data(self.path.get(1)))
    }
}

impl<'a> Pair<'a> {
    fn each(&self, of: impl Fn(Option<&'a Value>) -> Option<&'a Value>) -> Self {
        Pair {
            before: of(self.before),
            after: of(self.after),
            unknown: of(self.unknown),
            before_mask: of(self.before_mask),
            after_mask: of(self.after_mask),
        }
    }
}

fn marked(mask: Option<&Value>) -> bool {
    mask == Some(&Value::Bool(true))
}

fn is_map(side: Option<&Value>) -> bool {
    side.is_none_or(|v| v.is_null() || v.is_object())
}

/// Nothing to go into. Blocks that are not there are empty lists to the provider.
fn is_leaf(side: Option<&Value>) -> bool {
    parts(side).is_none_or(|kind| kind == "value")
}

/// Of which kind something that is there is.
fn parts(side: Option<&Value>) -> Option<&'static str> {
    match side? {
        Value::Null => None,
        Value::Object(_) => Some("map"),
        Value::Array(_) => Some("list"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some("value"),
    }
}

fn has_parts(unknown: Option<&Value>) -> bool {
    unknown.is_some_and(any_mark)
}

/// Something that is there and has nothing to show; the last resort, so it tells no more than its form.
fn empty(side: Option<&Value>) -> String {
    match parts(side) {
        None => NONE,
        Some("list") => "[]",
        Some(_) => "{}",
    }
    .to_owned()
}

fn shown(value: &Value) -> String {
    if value.is_null() {
        return NONE.to_owned();
    }
    value.to_string()
}
