//! From a plan's JSON to its facts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::dangers::{self, Holders, Seen};
use super::document::{Actions, Document, RawChange, Reason, ResourceChange};
use super::object::{self, Subject};
use super::refusal::PlanRefusal;
use super::shown::{labelled, shown};
use super::source::Source;
use super::unknown::{self, Open};
use super::values;
use super::{
    Action, Attribute, Change, Danger, LiveObject, OutputChange, PlanFacts, PlanGuard, Write,
};
use super::{address, checks, json};

/// The most JSON read, in bytes.
pub const MAX_PLAN_JSON: usize = 64 * 1024 * 1024;

impl PlanFacts {
    /// Reads what `terraform show -json` prints of a plan file, and refuses what is not understood whole or
    /// not for this root.
    ///
    /// A plan that does nothing at all gives facts for which [`PlanFacts::is_empty`] holds.
    ///
    /// # Errors
    /// [`PlanRefusal`] with the first thing that is not taken.
    pub fn read(json: &[u8], guard: &PlanGuard) -> Result<Self, PlanRefusal> {
        if json.len() > MAX_PLAN_JSON {
            return Err(PlanRefusal::TooLarge {
                found: json.len(),
                limit: MAX_PLAN_JSON,
            });
        }
        let document = Document::read(json::read(json).map_err(PlanRefusal::Unreadable)?)?;
        let source = Source::read(&document.configuration)?;
        let mut reader = Reader {
            guard,
            source: &source,
            facts: Self {
                terraform_version: document.terraform_version.clone(),
                checks: checks::sentences(&document.checks)?,
                ..Self::default()
            },
            ranks: Vec::new(),
            holders: Holders::new(),
            writes: BTreeMap::new(),
        };
        let mut seen = std::collections::HashSet::new();
        for change in &document.changes {
            if !seen.insert((change.address.as_str(), change.deposed.as_deref())) {
                let problem = "resource_changes has two entries for one address".to_owned();
                return Err(PlanRefusal::Unreadable(problem));
            }
            reader.change(change)?;
        }
        for change in &document.drift {
            reader.drift(change)?;
        }
        reader.outputs(&document);
        let facts = reader.finish();
        if !document.applyable && !facts.is_empty() {
            return Err(PlanRefusal::NotWhole(
                "the plan has changes and cannot be applied",
            ));
        }
        if facts.changes.len() > guard.max_changes {
            return Err(PlanRefusal::TooManyChanges {
                found: facts.changes.len(),
                limit: guard.max_changes,
            });
        }
        facts.check_length(guard.max_bytes)?;
        Ok(facts)
    }

    /// Whether applying it would change nothing, not even an output or an address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.outputs.is_empty()
    }
}

struct Reader<'a> {
    guard: &'a PlanGuard,
    source: &'a Source<'a>,
    facts: PlanFacts,
    /// Beside `facts.changes`: where each one stands.
    ranks: Vec<(u8, usize)>,
    holders: Holders,
    writes: BTreeMap<LiveObject, Write>,
}

impl Reader<'_> {
    fn change(&mut self, of: &ResourceChange) -> Result<(), PlanRefusal> {
        of.check_values()?;
        let Some(action) = action(of)? else {
            self.facts.unchanged += 1;
            self.keeps(of);
            return Ok(());
        };
        if of.data {
            return self.read(of);
        }
        let subject = object::subject(of)?;
        let raw = &of.change;
        let prior = self.object(of, subject, &raw.before, &raw.before_sensitive)?;
        let planned = match action {
            Action::Create
            | Action::Update
            | Action::Replace { .. }
            | Action::Import
            | Action::Move => self.object(of, subject, &raw.after, &raw.after_sensitive)?,
            Action::Delete | Action::Forget | Action::Read => None,
        };
        if action == Action::Update && prior != planned {
            return Err(object::refuse(
                of,
                "metadata",
                "would become another object in an update",
                "plan again; if it stays, have an operator look at the state",
            ));
        }
        if let (Some(id), Some(object)) = (&raw.importing, prior.as_ref().or(planned.as_ref()))
            && matches!(subject, Subject::Kind(_))
            && *id != object::id_of(object)
        {
            return Err(object::refuse(
                of,
                "the id of its import",
                "names another object than the one that was read",
                "use namespace/name of the object itself",
            ));
        }
        let open = match action {
            Action::Create | Action::Update | Action::Replace { .. } => {
                unknown::check(of, subject, self.source)?
            }
            Action::Delete | Action::Forget | Action::Import | Action::Move | Action::Read => {
                Open::default()
            }
        };
        let change = shown(
            of,
            subject,
            action,
            prior.as_ref().or(planned.as_ref()),
            self.source,
        );
        let becomes = planned
            .as_ref()
            .filter(|planned| prior.as_ref().is_some_and(|p| p != *planned));
        let dangers = dangers::of_change(&Seen {
            of,
            subject,
            change: &change,
            becomes,
            late: &open.late,
        });
        self.hold(of, &change, action, planned.as_ref());
        self.write(of, action, prior, planned, &open);
        let rank = dangers
            .iter()
            .map(dangers::place)
            .min()
            .unwrap_or((u8::MAX, 0));
        self.push(change, rank, dangers);
        Ok(())
    }

    fn push(&mut self, change: Change, rank: (u8, usize), dangers: Vec<Danger>) {
        self.facts.dangers.extend(dangers);
        self.facts.changes.push(change);
        self.ranks.push(rank);
    }

    /// A data source that is read while applying: what it says then could not be reviewed. Those of `check`
    /// blocks can be used nowhere else.
    fn read(&mut self, of: &ResourceChange) -> Result<(), PlanRefusal> {
        let provider = of.provider.split_once('/').map_or("", |(_, source)| source);
        if of.reason != Some(Reason::CheckNested) || provider != "hashicorp/kubernetes" {
            return Err(object::refuse(
                of,
                "the data source",
                "would be read only while applying, so what it says could change after the approval",
                "take out its depends_on and whatever is not known yet, or apply that first",
            ));
        }
        let change = shown(of, Subject::Lifeless, Action::Read, None, self.source);
        self.push(change, (u8::MAX, 0), Vec::new());
        Ok(())
    }

    fn object(
        &self,
        of: &ResourceChange,
        subject: Subject,
        values: &Value,
        sensitive: &Value,
    ) -> Result<Option<LiveObject>, PlanRefusal> {
        if values.is_null() {
            return Ok(None);
        }
        let object = object::of_values(of, subject, values, sensitive)?;
        if let Some(object) = &object {
            object::check(of, object, self.guard)?;
            if object.kind == "Secret" && object.group.is_empty() {
                object::check_secret(of, values)?;
            }
        }
        Ok(object)
    }

    /// Notes who stands for which object.
    fn hold(
        &mut self,
        of: &ResourceChange,
        change: &Change,
        action: Action,
        planned: Option<&LiveObject>,
    ) {
        let what = match action {
            Action::Create => "creates",
            Action::Update => "updates",
            Action::Replace { .. } => "replaces",
            Action::Delete => "deletes",
            Action::Forget => "forgets",
            Action::Import => "imports",
            Action::Move | Action::Read => "keeps",
        };
        for object in [change.object.as_ref(), planned].into_iter().flatten() {
            let holders = self.holders.entry(object.clone()).or_default();
            let holder = (labelled(of), what);
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
    }

    /// A resource that does not change stands for its object all the same. One that is not understood is
    /// left alone by the plan, and so by us.
    fn keeps(&mut self, of: &ResourceChange) {
        if of.data {
            return;
        }
        let Ok(subject) = object::subject(of) else {
            return;
        };
        let raw = &of.change;
        if let Ok(Some(object)) = object::of_values(of, subject, &raw.after, &raw.after_sensitive) {
            self.holders
                .entry(object)
                .or_default()
                .push((labelled(of), "keeps"));
        }
    }

    fn write(
        &mut self,
        of: &ResourceChange,
        action: Action,
        prior: Option<LiveObject>,
        planned: Option<LiveObject>,
        open: &Open,
    ) {
        // The default ServiceAccount is there before Terraform; the provider patches it.
        let patched = of
            .type_name
            .starts_with("kubernetes_default_service_account");
        // A ReplicationController is scaled down before it is deleted.
        let scaled = of
            .type_name
            .starts_with("kubernetes_replication_controller");
        let (deletes, creates, updates) = match action {
            Action::Create => (None, planned, None),
            Action::Update => (None, None, planned),
            Action::Replace { .. } => (prior, planned, None),
            Action::Delete => (prior, None, None),
            Action::Forget | Action::Import | Action::Move | Action::Read => (None, None, None),
        };
        if let Some(object) = deletes {
            let write = self.writes_of(object);
            write.delete = true;
            write.update |= scaled;
        }
        for (object, create) in [(creates, true), (updates, false)] {
            let Some(object) = object else { continue };
            let write = self.writes_of(object);
            write.create |= create && !patched;
            write.update |= !create || patched;
            write.absent.extend(open.absent.iter().cloned());
            write.absent.sort_unstable();
            write.absent.dedup();
        }
    }

    fn writes_of(&mut self, object: LiveObject) -> &mut Write {
        self.writes.entry(object.clone()).or_insert_with(|| Write {
            object,
            create: false,
            update: false,
            delete: false,
            absent: Vec::new(),
        })
    }

    /// What happened outside of Terraform. It is shown, and writes nothing.
    fn drift(&mut self, of: &ResourceChange) -> Result<(), PlanRefusal> {
        let action = match of.change.actions {
            Actions::Update => Action::Update,
            Actions::Delete => Action::Delete,
            Actions::NoOp if of.previous_address.is_some() => Action::Move,
            Actions::NoOp
            | Actions::Create
            | Actions::Read
            | Actions::Replace { .. }
            | Actions::Forget => {
                let place = address::without_keys(&of.address);
                return Err(PlanRefusal::unknown(place, "has drifted in a way"));
            }
        };
        let subject = object::subject(of).unwrap_or(Subject::Lifeless);
        let raw = &of.change;
        let object = object::of_values(of, subject, &raw.before, &raw.before_sensitive);
        let change = shown(
            of,
            subject,
            action,
            object.ok().flatten().as_ref(),
            self.source,
        );
        // The provider reads "nothing" back as "empty"; that is no change. Nor is a version alone: it counts
        // what controllers write into an object's status, too.
        let is_change = |a: &Attribute| a.path != "metadata[0].resource_version";
        if action != Action::Update || change.attributes.iter().any(is_change) {
            self.facts.drift.push(change);
        }
        Ok(())
    }

    fn outputs(&mut self, document: &Document) {
        for (name, raw) in &document.outputs {
            let action = match raw.actions {
                Actions::NoOp => continue,
                Actions::Create => "create",
                Actions::Delete => "delete",
                Actions::Update | Actions::Replace { .. } | Actions::Read | Actions::Forget => {
                    "update"
                }
            };
            let sensitive =
                values::any_mark(&raw.before_sensitive) || values::any_mark(&raw.after_sensitive);
            let text = |value: &Value| {
                if value.is_null() {
                    values::NONE.to_owned()
                } else if sensitive {
                    values::SENSITIVE.to_owned()
                } else {
                    value.to_string()
                }
            };
            self.facts.outputs.push(OutputChange {
                name: name.clone(),
                action: action.to_owned(),
                before: text(&raw.before),
                after: if values::any_mark(&raw.after_unknown) {
                    values::UNKNOWN.to_owned()
                } else {
                    text(&raw.after)
                },
                sensitive,
            });
        }
    }

    fn finish(mut self) -> PlanFacts {
        let together = dangers::of_holders(&self.holders);
        let mut ranked: Vec<((u8, usize), Change)> =
            self.ranks.into_iter().zip(self.facts.changes).collect();
        for danger in &together {
            for (rank, change) in &mut ranked {
                if change.object.is_some() && change.object == danger.object {
                    *rank = (*rank).min(dangers::place(danger));
                }
            }
        }
        ranked.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.address.cmp(&y.address)));
        self.facts.changes = ranked.into_iter().map(|(_, change)| change).collect();
        self.facts.dangers.extend(together);
        self.facts
            .dangers
            .sort_by(|a, b| (dangers::place(a), &a.address).cmp(&(dangers::place(b), &b.address)));
        self.facts.writes = self.writes.into_values().collect();
        self.facts
    }
}

/// What happens, or `None` for nothing.
fn action(of: &ResourceChange) -> Result<Option<Action>, PlanRefusal> {
    Ok(Some(match of.change.actions {
        Actions::NoOp if of.change.importing.is_some() => Action::Import,
        Actions::NoOp if of.previous_address.is_some() => Action::Move,
        Actions::NoOp => return Ok(None),
        Actions::Read if of.data => Action::Read,
        _ if of.data => {
            let place = address::without_keys(&of.address);
            return Err(PlanRefusal::unknown(
                place,
                "is a data source that would be written",
            ));
        }
        Actions::Read => {
            let place = address::without_keys(&of.address);
            return Err(PlanRefusal::unknown(
                place,
                "is a resource that would be read",
            ));
        }
        Actions::Create => Action::Create,
        Actions::Update => Action::Update,
        Actions::Replace {
            create_before_destroy,
        } => Action::Replace {
            create_before_destroy,
        },
        Actions::Delete => Action::Delete,
        Actions::Forget => Action::Forget,
    }))
}

impl ResourceChange {
    /// Whether values are there where the action needs them.
    fn check_values(&self) -> Result<(), PlanRefusal> {
        let RawChange {
            actions,
            before,
            after,
            ..
        } = &self.change;
        let (needs_before, needs_after) = match actions {
            Actions::NoOp | Actions::Update | Actions::Replace { .. } => (true, true),
            Actions::Create => (false, true),
            Actions::Delete | Actions::Forget => (true, false),
            Actions::Read => return Ok(()),
        };
        if before.is_object() == needs_before && after.is_object() == needs_after {
            return Ok(());
        }
        let place = address::without_keys(&self.address);
        Err(PlanRefusal::Unreadable(format!(
            "before or after of {place} does not fit its actions"
        )))
    }
}
