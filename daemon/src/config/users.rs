//! Which uid is which principal, and in which role.

use std::collections::BTreeMap;

use nix::unistd::User;
use sandbox_core::names::PrincipalName;
use serde::Deserialize;

/// A uid, or a user's name that has one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Entry {
    Uid(u32),
    Name(String),
}

/// What a principal may be: the socket it may use.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// May ask, on `agent.sock`.
    Agent,
    /// May judge and look, on `approver.sock`.
    Approver,
}

/// The uids that are admitted, each with its one role and principal.
#[derive(Clone, Debug, Default)]
pub struct Principals(BTreeMap<u32, (Role, PrincipalName)>);

impl Principals {
    /// The principal of `uid` in `role`; a uid of the other role is none.
    #[must_use]
    pub fn find(&self, role: Role, uid: u32) -> Option<&PrincipalName> {
        self.0
            .get(&uid)
            .filter(|(r, _)| *r == role)
            .map(|(_, name)| name)
    }

    /// Every uid that is admitted in `role`, with its principal.
    pub fn of(&self, role: Role) -> impl Iterator<Item = (u32, &PrincipalName)> {
        self.0
            .iter()
            .filter(move |(_, (r, _))| *r == role)
            .map(|(uid, (_, name))| (*uid, name))
    }

    /// Whether an agent of that name is configured.
    #[must_use]
    pub fn has_agent(&self, name: &PrincipalName) -> bool {
        self.0
            .values()
            .any(|(role, n)| *role == Role::Agent && n == name)
    }

    pub(super) fn resolve(
        agents: &BTreeMap<PrincipalName, Vec<Entry>>,
        approvers: &BTreeMap<PrincipalName, Vec<Entry>>,
        own_uid: u32,
        problems: &mut Vec<String>,
    ) -> Self {
        let mut uids = BTreeMap::new();
        if agents.is_empty() {
            problems.push("[agents] names nobody, so nobody could ask for anything".to_owned());
        }
        for (role, section, entries) in [
            (Role::Agent, "agents", agents),
            (Role::Approver, "approvers", approvers),
        ] {
            for (name, list) in entries {
                for entry in list {
                    match uid_of(entry).and_then(|uid| admissible(uid, own_uid)) {
                        Ok(uid) => {
                            if let Some((_, other)) = uids.insert(uid, (role, name.clone())) {
                                problems.push(format!(
                                    "uid {uid} is listed for both {other} and {name}; one person, one role"
                                ));
                            }
                        }
                        Err(problem) => problems.push(format!("{section}.{name}: {problem}")),
                    }
                }
            }
        }
        for name in agents.keys().filter(|name| approvers.contains_key(*name)) {
            problems.push(format!("{name} is both an agent and an approver"));
        }
        Self(uids)
    }
}

fn uid_of(entry: &Entry) -> Result<u32, String> {
    match entry {
        Entry::Uid(uid) => Ok(*uid),
        Entry::Name(name) => match User::from_name(name) {
            Ok(Some(user)) => Ok(user.uid.as_raw()),
            Ok(None) => Err(format!("there is no user {}", name.escape_debug())),
            Err(e) => Err(format!(
                "could not look up user {}: {e}",
                name.escape_debug()
            )),
        },
    }
}

fn admissible(uid: u32, own_uid: u32) -> Result<u32, String> {
    match uid {
        0 => Err(
            "uid 0 cannot be a principal: root needs no daemon, and who is root is anybody"
                .to_owned(),
        ),
        65534 => Err("uid 65534 cannot be a principal: it stands for any unmapped user".to_owned()),
        _ if uid == own_uid => Err(format!("uid {uid} is the daemon's own")),
        _ => Ok(uid),
    }
}
