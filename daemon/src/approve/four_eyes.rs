//! Whoever asks does not decide: not by name, not by uid, and not by the login their process descends from.

use sandbox_core::names::PrincipalName;

use crate::peer::{Login, LoginUid, Peer};
use crate::report::{Code, Failure};
use crate::store::StoredApproval;

/// A human on the approvers' socket, as the kernel knows them.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Who.
    pub principal: PrincipalName,
    uid: Option<u32>,
    pid: Option<i32>,
    login: Option<Login>,
}

impl Judge {
    /// The principal behind a connection.
    #[must_use]
    pub fn of(peer: &Peer, principal: &PrincipalName) -> Self {
        let credentials = peer.credentials();
        Self {
            principal: principal.clone(),
            uid: credentials.map(|c| c.uid),
            pid: credentials.and_then(|c| c.pid),
            login: peer.login(),
        }
    }

    /// The uid, `u32::MAX` (nobody's) where the kernel told none; that one is refused.
    pub(super) fn uid(&self) -> u32 {
        self.uid.unwrap_or(u32::MAX)
    }

    pub(super) fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// The login as it stands in the trail.
    pub(super) fn login(&self) -> String {
        match self.login {
            Some(login) => login.uid().to_string(),
            None => "not known".to_owned(),
        }
    }

    /// Lets through whom nothing ties to an agent. By name and by the uid that asked, the machine refuses
    /// once more.
    pub(super) fn admit(&self, stored: &StoredApproval, agents: &[u32]) -> Result<(), Failure> {
        let refused = |why: String| Err(Failure::new(Code::VerdictRefused, why));
        let Some(uid) = self.uid else {
            return refused("The kernel reports no uid for this connection.".to_owned());
        };
        if agents.contains(&uid) {
            return refused(format!("uid {uid} is an agent's."));
        }
        let Some(login) = self.login else {
            return refused(
                "The process that connected could not be looked at, so it is not known which login it \
                 descends from."
                    .to_owned(),
            );
        };
        if !login.still_holds() {
            return refused(
                "The process that connected is gone, or is another one by now. Run approver again."
                    .to_owned(),
            );
        }
        let asked = stored.approval.terms().requester_uid;
        match login.uid() {
            LoginUid::Of(from) if agents.contains(&from) || asked == Some(from) => {
                refused(format!(
                    "This process descends from a login of uid {from}, which is an agent's: it may be the agent \
                 that uses your sudo, and neither sudo nor su changes that. Log in anew as an approver's own \
                 account, by ssh or at a console, and decide there."
                ))
            }
            LoginUid::Of(_) | LoginUid::Unset | LoginUid::NotKept => Ok(()),
        }
    }
}

#[cfg(test)]
impl Judge {
    /// This process, under another name and uid.
    pub(super) fn this_process(principal: &str, uid: u32) -> Self {
        let pid = i32::try_from(std::process::id()).unwrap();
        Self {
            principal: principal.parse().unwrap(),
            uid: Some(uid),
            pid: Some(pid),
            login: Some(Login::of(pid).unwrap()),
        }
    }

    pub(super) fn with_login(self, login: Option<Login>) -> Self {
        Self { login, ..self }
    }
}
