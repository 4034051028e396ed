//! What the agent's own user gets at, as it is when it logs in, with all its groups. Where it can become an
//! approver or root without a password, everything else here is a demonstration only.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::unistd::{Uid, User};

use super::ground::Ground;
use super::other_uid::{Deed, Sudo, Touched, Who};
use super::report::Tries;
use crate::config::Role;

/// More than the files of an installation; those nearest to the folders' tops are tried first.
const MAX_PATHS: usize = 3000;
/// Sockets by which whoever reaches them becomes root.
const CONTAINER_SOCKETS: &[&str] = &[
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/crio/crio.sock",
];
const DEMONSTRATION: &str = "this installation is for demonstration only";

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let files = belongings(ground);
    let socket = &ground.config.listen.agent_socket;
    let process = daemon_process(socket).await;
    for (uid, _) in ground.principals.of(Role::Agent) {
        let agent = Who::logged_in(uid)?;
        let name = agent.name();
        let paths = files.clone();
        let touched: Touched = agent.send(Deed::Touch { paths }).await?;
        tries.record(
            format!(
                "as {name}, get at the daemon's configuration, secrets and state, and what stands beside them"
            ),
            closed(&touched),
        );
        let folders = folders_of_sockets(ground);
        let touched: Touched = agent.send(Deed::Write { folders }).await?;
        tries.record(
            format!("as {name}, put a socket of its own beside the daemon's"),
            closed(&touched),
        );
        match &process {
            Ok(pid) => {
                let paths = ["environ", "mem", "maps", "fd"]
                    .map(|f| PathBuf::from(format!("/proc/{pid}/{f}")));
                let paths = paths.to_vec();
                let touched: Touched = agent.send(Deed::Touch { paths }).await?;
                tries.record(
                    format!("as {name}, look into the daemon's process {pid}"),
                    closed(&touched),
                );
            }
            Err(e) => tries.record(
                format!("as {name}, look into the daemon's process"),
                Err::<String, _>(format!("there is none: {e:#}")),
            ),
        }
        become_another(ground, &agent, tries).await?;
        let paths: Vec<PathBuf> = CONTAINER_SOCKETS.iter().map(PathBuf::from).collect();
        let touched: Touched = agent.send(Deed::Touch { paths }).await?;
        tries.record(
            format!("as {name}, use Docker, Podman or containerd"),
            if touched.missing == touched.tried {
                Ok("none of their sockets is on this machine".to_owned())
            } else {
                closed(&touched).map_err(|open| format!("{open}: {DEMONSTRATION}"))
            },
        );
    }
    Ok(())
}

async fn become_another(ground: &Ground, agent: &Who, tries: &mut Tries) -> anyhow::Result<()> {
    let approvers = ground.principals.of(Role::Approver).map(|(uid, _)| uid);
    for uid in approvers.chain([ground.daemon_uid, 0]) {
        let user = User::from_uid(Uid::from_raw(uid))?;
        let user = user
            .with_context(|| format!("uid {uid} is nobody on this machine"))?
            .name;
        let sudo = agent.send(Deed::Sudo { user: user.clone() }).await?;
        tries.record(
            format!("as {}, become {user} by sudo without a password", agent.name()),
            match sudo {
                Sudo::Absent => Ok("there is no sudo on this machine".to_owned()),
                Sudo::Refused(why) => Ok(format!("refused: {why}")),
                Sudo::Ran => Err(format!("it worked: {DEMONSTRATION}")),
                Sudo::NotTried => Err(
                    "this process may gain no privileges (no_new_privs), so nothing was learnt: run verify \
                     outside of that"
                        .to_owned(),
                ),
            },
        );
    }
    Ok(())
}

/// Everything that must be closed, as root finds it.
fn belongings(ground: &Ground) -> Vec<PathBuf> {
    let config = &ground.config;
    let mut tops = vec![
        ground.config_file.clone(),
        config.policy.file.clone(),
        config.kubernetes.kubeconfig.clone(),
        config.vault.role_id_file.clone(),
        config.vault.secret_id_file.clone(),
        config.state.directory.clone(),
    ];
    tops.extend(ground.admin_kubeconfig().map(Path::to_owned));
    tops.extend(ground.closed.iter().cloned());
    with_all_below(tops)
}

/// Breadth first, so that a limit cuts off what lies deepest. Links are not followed.
fn with_all_below(tops: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = VecDeque::from(tops);
    while let Some(path) = next.pop_front() {
        if found.len() == MAX_PATHS {
            break;
        }
        let is_folder = std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        if is_folder && let Ok(entries) = std::fs::read_dir(&path) {
            next.extend(entries.flatten().map(|entry| entry.path()));
        }
        found.push(path);
    }
    found
}

fn folders_of_sockets(ground: &Ground) -> Vec<PathBuf> {
    let listen = &ground.config.listen;
    [&listen.agent_socket, &listen.approver_socket]
        .into_iter()
        .filter_map(|socket| socket.parent().map(Path::to_owned))
        .collect()
}

/// The daemon's pid, by the kernel's word for who listens.
async fn daemon_process(socket: &Path) -> anyhow::Result<i32> {
    let stream = tokio::net::UnixStream::connect(socket).await?;
    stream.peer_cred()?.pid().context("the kernel tells no pid")
}

fn closed(touched: &Touched) -> Result<String, String> {
    let Touched {
        tried,
        missing,
        open,
    } = touched;
    if tried == missing {
        return Err(format!(
            "none of the {tried} is there, so nothing was tried"
        ));
    }
    if open.is_empty() {
        return Ok(format!("all {} are closed to it", tried - missing));
    }
    let first: Vec<_> = open
        .iter()
        .take(3)
        .map(|(path, way)| format!("{} {way}", path.display()))
        .collect();
    let more = match open.len() - first.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Err(format!("{}{more}", first.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::other_uid::Way;
    use super::*;

    #[test]
    fn one_path_that_gives_way_is_a_failure_and_named() {
        let touched = |missing, open: &[&str]| Touched {
            tried: 5,
            missing,
            open: open.iter().map(|p| (PathBuf::from(p), Way::Read)).collect(),
        };
        assert_eq!(closed(&touched(1, &[])).unwrap(), "all 4 are closed to it");
        assert_eq!(closed(&touched(0, &["/a"])).unwrap_err(), "/a can be read");
        let many = closed(&touched(0, &["/a", "/b", "/c", "/d", "/e"])).unwrap_err();
        assert!(many.ends_with("/c can be read, and 2 more"), "{many}");
        // Nothing there, nothing tried: a wrong path must not pass.
        assert!(closed(&touched(5, &[])).is_err());
    }

    #[test]
    fn everything_below_a_folder_is_found_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("secret"), "").unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        let mut found = with_all_below(vec![folder.path().to_owned()]);
        found.sort();
        let below = ["a", "a/b", "a/b/secret", "link"].map(|p| folder.path().join(p));
        assert_eq!(found[0], folder.path());
        assert_eq!(found[1..], below);
    }
}
