//! The daemon as its approvers see it: what it depends on, and whether its trail is whole.

use anyhow::Context as _;

use super::ground::Ground;
use super::other_uid::{Deed, Question, Reply, Who};
use super::report::Tries;
use crate::config::Role;

/// What the kernel gives as login uid where none was ever set.
const UNSET: &str = "4294967295";

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let approver = ground.principals.of(Role::Approver).next();
    let (uid, _) = approver.context("[approvers] names nobody to ask the daemon as")?;
    let approver = Who::logged_in(uid)?;
    for (what, question) in [
        ("how it is", Question::Status),
        ("to verify its audit trail", Question::VerifyAudit),
    ] {
        let deed = Deed::Ask {
            socket: ground.config.listen.approver_socket.clone(),
            question,
        };
        let reply: Reply = approver.send(deed).await?;
        tries.record(
            format!("as {}, ask the daemon {what}", approver.name()),
            reply.well(),
        );
    }
    tries.record(
        "read this session's login uid",
        Ok::<_, String>(login_uid()),
    );
    Ok(())
}

/// Told, not judged: containers and some systems set none, and then it protects nobody.
fn login_uid() -> String {
    match std::fs::read_to_string("/proc/self/loginuid") {
        Ok(uid) if uid.trim() == UNSET => {
            "unset: here an agent that uses its human's cached sudo looks like the human".to_owned()
        }
        Ok(uid) => format!("{}, so the kernel tells who logged in", uid.trim()),
        Err(e) => format!("this kernel keeps none ({e})"),
    }
}
