//! The sockets serve who is listed, each its own. A stranger is tried twice: as they are, whom the folder
//! keeps out, and with the folder's group, whom the daemon itself must refuse.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::ground::Ground;
use super::other_uid::{Deed, Question, Reply, Who};
use super::report::Tries;
use crate::config::Role;

/// `nobody`: never a principal, by the configuration's own rule.
const STRANGER: u32 = 65534;

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let listen = &ground.config.listen;
    let agents = uids(ground, Role::Agent);
    let approvers = uids(ground, Role::Approver);
    served(&listen.agent_socket, &agents, tries).await?;
    // An agent on the humans' socket, and a human on the agents': the kernel's word decides, not the group.
    for (socket, strangers, question) in [
        (&listen.agent_socket, &approvers, Question::Actions),
        (&listen.approver_socket, &agents, Question::Status),
    ] {
        for uid in std::iter::once(&STRANGER).chain(strangers) {
            kept_out(socket, *uid, &question, tries).await?;
            refused(socket, *uid, &question, tries).await?;
        }
    }
    Ok(())
}

fn uids(ground: &Ground, role: Role) -> Vec<u32> {
    ground.principals.of(role).map(|(uid, _)| uid).collect()
}

async fn served(socket: &Path, agents: &[u32], tries: &mut Tries) -> anyhow::Result<()> {
    for uid in agents {
        let who = Who::logged_in(*uid)?;
        for (what, question) in [
            ("health", Question::Health),
            ("what it may ask for", Question::Actions),
            ("which services there are", Question::Services),
        ] {
            let reply = ask(&who, socket, question).await?;
            tries.record(
                format!("as {}, ask {} for {what}", who.name(), socket.display()),
                reply.well(),
            );
        }
    }
    Ok(())
}

async fn kept_out(
    socket: &Path,
    uid: u32,
    question: &Question,
    tries: &mut Tries,
) -> anyhow::Result<()> {
    // Somebody who cannot log in has no groups of their own.
    let who = Who::logged_in(uid).unwrap_or_else(|_| Who::bare(uid, uid));
    let reply = ask(&who, socket, question.clone()).await?;
    tries.record(
        format!("as {}, connect to {}", who.name(), socket.display()),
        reply.kept_out(),
    );
    Ok(())
}

async fn refused(
    socket: &Path,
    uid: u32,
    question: &Question,
    tries: &mut Tries,
) -> anyhow::Result<()> {
    let folder = socket.parent().unwrap_or(Path::new("/"));
    let who = Who::bare(uid, std::fs::metadata(folder)?.gid());
    let reply = ask(&who, socket, question.clone()).await?;
    tries.record(
        format!(
            "as {} with the socket's group, ask {}",
            who.name(),
            socket.display()
        ),
        reply.refused("NOT_ADMITTED"),
    );
    Ok(())
}

async fn ask(who: &Who, socket: &Path, question: Question) -> anyhow::Result<Reply> {
    let socket = socket.to_owned();
    who.send(Deed::Ask { socket, question }).await
}
