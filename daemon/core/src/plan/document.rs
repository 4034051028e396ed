//! The parts of `terraform show -json` that facts are made of, against the list of Terraform 1.11
//! (`internal/command/jsonplan` of its source). What is not on the list is refused.

use serde_json::{Map, Value};

use super::address::without_keys;
use super::path::{self, Step};
use super::refusal::PlanRefusal;

/// A plan whose every key is known.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) terraform_version: String,
    pub(super) changes: Vec<ResourceChange>,
    pub(super) drift: Vec<ResourceChange>,
    pub(super) outputs: Vec<(String, RawChange)>,
    pub(super) configuration: Value,
    pub(super) checks: Value,
    pub(super) applyable: bool,
}

/// One entry of `resource_changes` or `resource_drift`.
#[derive(Debug)]
pub(super) struct ResourceChange {
    pub(super) address: String,
    pub(super) previous_address: Option<String>,
    pub(super) module_address: String,
    pub(super) data: bool,
    pub(super) type_name: String,
    pub(super) name: String,
    pub(super) provider: String,
    /// Which leftover of an earlier replacement it is about, if it is about one.
    pub(super) deposed: Option<String>,
    pub(super) reason: Option<Reason>,
    pub(super) change: RawChange,
}

/// What Terraform would do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Actions {
    NoOp,
    Create,
    Read,
    Update,
    Replace { create_before_destroy: bool },
    Delete,
    Forget,
}

/// Values before and after, and what is said of them.
#[derive(Debug)]
pub(super) struct RawChange {
    pub(super) actions: Actions,
    pub(super) before: Value,
    pub(super) after: Value,
    pub(super) after_unknown: Value,
    pub(super) before_sensitive: Value,
    pub(super) after_sensitive: Value,
    pub(super) replace_paths: Vec<Vec<Step>>,
    /// By which id it is imported, if it is.
    pub(super) importing: Option<String>,
}

/// Why Terraform chose an action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reason {
    CannotUpdate,
    Tainted,
    ByRequest,
    ByTriggers,
    NoResourceConfig,
    WrongRepetition,
    CountIndex,
    EachKey,
    NoModule,
    NoMoveTarget,
    ConfigUnknown,
    DependencyPending,
    CheckNested,
}

impl Reason {
    fn find(word: &str) -> Option<Self> {
        Some(match word {
            "replace_because_cannot_update" => Self::CannotUpdate,
            "replace_because_tainted" => Self::Tainted,
            "replace_by_request" => Self::ByRequest,
            "replace_by_triggers" => Self::ByTriggers,
            "delete_because_no_resource_config" => Self::NoResourceConfig,
            "delete_because_wrong_repetition" => Self::WrongRepetition,
            "delete_because_count_index" => Self::CountIndex,
            "delete_because_each_key" => Self::EachKey,
            "delete_because_no_module" => Self::NoModule,
            "delete_because_no_move_target" => Self::NoMoveTarget,
            "read_because_config_unknown" => Self::ConfigUnknown,
            "read_because_dependency_pending" => Self::DependencyPending,
            "read_because_check_nested" => Self::CheckNested,
            _ => return None,
        })
    }

    /// In words that follow "because".
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::CannotUpdate => "an attribute changed that cannot be changed in place",
            Self::Tainted => "it is marked as damaged: its creation did not end well",
            Self::ByRequest => "its replacement was asked for",
            Self::ByTriggers => "something changed that its replace_triggered_by names",
            Self::NoResourceConfig => "it is not in the configuration any more",
            Self::WrongRepetition => "count or for_each was added to it, taken away or exchanged",
            Self::CountIndex => "its index is beyond the count",
            Self::EachKey => "its key is not in for_each any more",
            Self::NoModule => "its module is not in the configuration any more",
            Self::NoMoveTarget => "it was moved to an address that is not in the configuration",
            Self::ConfigUnknown => "its configuration has values that are not known yet",
            Self::DependencyPending => "what it depends on has yet to change",
            Self::CheckNested => "it belongs to a check block",
        }
    }

    /// Whether Terraform gives this reason for these actions.
    const fn fits(self, actions: Actions) -> bool {
        match self {
            Self::CannotUpdate | Self::Tainted | Self::ByRequest | Self::ByTriggers => {
                matches!(actions, Actions::Replace { .. })
            }
            Self::NoResourceConfig
            | Self::WrongRepetition
            | Self::CountIndex
            | Self::EachKey
            | Self::NoModule
            | Self::NoMoveTarget => matches!(actions, Actions::Delete | Actions::Forget),
            Self::ConfigUnknown | Self::DependencyPending | Self::CheckNested => {
                matches!(actions, Actions::Read)
            }
        }
    }
}

impl Document {
    pub(super) fn read(json: Value) -> Result<Self, PlanRefusal> {
        let mut top = Fields::of(json, "the plan")?;
        let format = top.text("format_version")?;
        if format != "1.2" {
            let problem = format!("has the format version {}", clipped(&format));
            return Err(PlanRefusal::unknown("the plan", problem));
        }
        let terraform_version = top.text("terraform_version")?;
        if !terraform_version.starts_with("1.11.") {
            let problem = format!("was made by Terraform {}", clipped(&terraform_version));
            return Err(PlanRefusal::unknown("the plan", problem));
        }
        // Planning failed, and the changes found until then are a harmless-looking part of the truth.
        if top.truth("errored")? {
            return Err(PlanRefusal::NotWhole("planning ended with errors"));
        }
        if !top.truth("complete")? {
            return Err(PlanRefusal::NotWhole(
                "the plan is incomplete: a part of it was put off or left out",
            ));
        }
        if let Some(deferred) = top.list("deferred_changes")?.into_iter().next() {
            return Err(deferral(&deferred));
        }
        let resources = |list: Vec<Value>| -> Result<Vec<_>, PlanRefusal> {
            list.into_iter().map(ResourceChange::read).collect()
        };
        let mut outputs = Vec::new();
        if let Some(changes) = top.take("output_changes") {
            for (name, change) in object(changes, "output_changes")? {
                let place = format!("output.{}", clipped(&name));
                outputs.push((name, RawChange::read(change, &place)?));
            }
        }
        let document = Self {
            terraform_version,
            changes: resources(top.list("resource_changes")?)?,
            drift: resources(top.list("resource_drift")?)?,
            outputs,
            configuration: top.take("configuration").unwrap_or_default(),
            checks: top.take("checks").unwrap_or_default(),
            applyable: top.truth("applyable")?,
        };
        // Said once more elsewhere, or only for those who look on.
        for key in [
            "variables",
            "planned_values",
            "prior_state",
            "relevant_attributes",
            "timestamp",
        ] {
            top.take(key);
        }
        top.finish()?;
        Ok(document)
    }
}

fn deferral(deferred: &Value) -> PlanRefusal {
    let address = deferred
        .pointer("/resource_change/address")
        .and_then(Value::as_str)
        .unwrap_or("a resource");
    PlanRefusal::Resource {
        address: without_keys(address),
        field: "its change".to_owned(),
        problem: "was put off to a later plan".to_owned(),
        next: "plan what it depends on first".to_owned(),
    }
}

impl ResourceChange {
    fn read(json: Value) -> Result<Self, PlanRefusal> {
        let mut fields = Fields::of(json, "an entry of resource_changes")?;
        let address = fields.text("address")?;
        fields.place = without_keys(&address);
        let mode = fields.text("mode")?;
        if mode != "managed" && mode != "data" {
            let problem = format!("has the mode {}", clipped(&mode));
            return Err(PlanRefusal::unknown(fields.place, problem));
        }
        let reason = match fields.optional_text("action_reason")? {
            None => None,
            Some(word) => Some(Reason::find(&word).ok_or_else(|| {
                let problem = format!("has the action reason {}", clipped(&word));
                PlanRefusal::unknown(fields.place.as_str(), problem)
            })?),
        };
        let change = fields.take("change").unwrap_or_default();
        let read = Self {
            previous_address: fields.optional_text("previous_address")?,
            module_address: fields.optional_text("module_address")?.unwrap_or_default(),
            data: mode == "data",
            type_name: fields.text("type")?,
            name: fields.text("name")?,
            provider: fields.text("provider_name")?,
            deposed: fields.optional_text("deposed")?,
            reason,
            change: RawChange::read(change, &fields.place)?,
            address,
        };
        fields.take("index");
        if let Some(reason) = read.reason
            && !reason.fits(read.change.actions)
        {
            let problem = "has an action reason that does not belong to its actions";
            return Err(PlanRefusal::unknown(fields.place, problem));
        }
        fields.finish()?;
        Ok(read)
    }
}

impl RawChange {
    fn read(json: Value, place: &str) -> Result<Self, PlanRefusal> {
        let mut fields = Fields::of(json, place)?;
        let actions = actions(&fields.list("actions")?, place)?;
        let mut replace_paths = Vec::new();
        for steps in fields.list("replace_paths")? {
            replace_paths.push(
                path::steps(&steps)
                    .ok_or_else(|| fields.wrong("replace_paths", "is no list of paths"))?,
            );
        }
        let importing = match fields.take("importing") {
            None | Some(Value::Null) => None,
            Some(importing) => {
                let mut importing = Fields::of(importing, place)?;
                let id = importing.text("id")?;
                importing.finish()?;
                Some(id)
            }
        };
        let change = Self {
            actions,
            before: fields.take("before").unwrap_or_default(),
            after: fields.take("after").unwrap_or_default(),
            after_unknown: fields.take("after_unknown").unwrap_or_default(),
            before_sensitive: fields.take("before_sensitive").unwrap_or_default(),
            after_sensitive: fields.take("after_sensitive").unwrap_or_default(),
            replace_paths,
            importing,
        };
        if fields.optional_text("generated_config")?.is_some() {
            return Err(PlanRefusal::Resource {
                address: place.to_owned(),
                field: "its configuration".to_owned(),
                problem: "was written while planning, so it is not in the source".to_owned(),
                next: "write it into the root and plan again".to_owned(),
            });
        }
        fields.finish()?;
        Ok(change)
    }
}

fn actions(words: &[Value], place: &str) -> Result<Actions, PlanRefusal> {
    let words: Vec<&str> = words.iter().map(|w| w.as_str().unwrap_or("?")).collect();
    Ok(match words.as_slice() {
        ["no-op"] => Actions::NoOp,
        ["create"] => Actions::Create,
        ["read"] => Actions::Read,
        ["update"] => Actions::Update,
        ["delete", "create"] => Actions::Replace {
            create_before_destroy: false,
        },
        ["create", "delete"] => Actions::Replace {
            create_before_destroy: true,
        },
        ["delete"] => Actions::Delete,
        ["forget"] => Actions::Forget,
        ["create", "forget"] => {
            return Err(PlanRefusal::Resource {
                address: place.to_owned(),
                field: "its replacement".to_owned(),
                problem: "would leave the old object behind, with nobody to manage it".to_owned(),
                next: "let the replacement destroy it, or remove it in a plan of its own"
                    .to_owned(),
            });
        }
        _ => {
            let problem = format!("has the actions {}", clipped(&words.join(", ")));
            return Err(PlanRefusal::unknown(place, problem));
        }
    })
}

/// An object whose keys must all be taken.
struct Fields {
    map: Map<String, Value>,
    place: String,
}

impl Fields {
    fn of(json: Value, place: &str) -> Result<Self, PlanRefusal> {
        Ok(Self {
            map: object(json, place)?,
            place: place.to_owned(),
        })
    }

    fn wrong(&self, key: &str, problem: &str) -> PlanRefusal {
        PlanRefusal::Unreadable(format!("{key} of {} {problem}", self.place))
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key)
    }

    fn optional_text(&mut self, key: &str) -> Result<Option<String>, PlanRefusal> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "is no text")),
        }
    }

    fn text(&mut self, key: &str) -> Result<String, PlanRefusal> {
        self.optional_text(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))
    }

    fn truth(&mut self, key: &str) -> Result<bool, PlanRefusal> {
        match self.take(key) {
            Some(Value::Bool(truth)) => Ok(truth),
            Some(_) | None => Err(self.wrong(key, "is missing, or neither true nor false")),
        }
    }

    fn list(&mut self, key: &str) -> Result<Vec<Value>, PlanRefusal> {
        match self.take(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.wrong(key, "is no list")),
        }
    }

    fn finish(self) -> Result<(), PlanRefusal> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => Err(PlanRefusal::unknown(
                self.place,
                format!("has the key {}", clipped(key)),
            )),
        }
    }
}

fn object(json: Value, place: &str) -> Result<Map<String, Value>, PlanRefusal> {
    if let Value::Object(map) = json {
        return Ok(map);
    }
    Err(PlanRefusal::Unreadable(format!("{place} is no object")))
}

/// A word of the document's own, short and printable enough for an error.
fn clipped(word: &str) -> String {
    let clipped: String = word.chars().take(64).collect();
    format!("\"{}\"", clipped.escape_debug())
}
