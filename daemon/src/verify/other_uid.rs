//! Another user, for as long as one errand: a process of its own that gives root up for good before it
//! does anything. What it finds it prints, and its parent reads.

mod ask;
mod touch;

use std::ffi::CString;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use nix::unistd::{Gid, Uid, User};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

pub(super) use ask::{Question, Reply};
pub(super) use touch::Touched;
#[cfg(test)]
pub(super) use touch::Way;

/// How long one errand may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Whom a process becomes.
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "the unsafety is in the expansion of try_join!, and holds for any value"
)]
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Who {
    pub(super) uid: u32,
    gid: u32,
    /// Supplementary groups.
    groups: Vec<u32>,
}

/// What it does then.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Deed {
    /// Asks a socket; tells a [`Reply`].
    Ask { socket: PathBuf, question: Question },
    /// Tries to get at each path; tells what was [`Touched`].
    Touch { paths: Vec<PathBuf> },
    /// Tries to put something into each folder; tells what was [`Touched`].
    Write { folders: Vec<PathBuf> },
    /// Tries to run a command as another user without a password; tells a [`Sudo`].
    Sudo { user: String },
}

/// What sudo did.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Sudo {
    /// There is none on this machine.
    Absent,
    /// It asked for a password, or said no.
    Refused(String),
    /// It ran the command.
    Ran,
    /// This process may gain no privileges at all, so nothing was learnt of others.
    NotTried,
}

#[derive(Debug, Deserialize, Serialize)]
struct Errand {
    who: Who,
    deed: Deed,
}

impl Who {
    /// A user with one group and no others.
    pub(super) fn bare(uid: u32, gid: u32) -> Self {
        Self {
            uid,
            gid,
            groups: Vec::new(),
        }
    }

    /// A user as they are when they log in, with all their groups.
    pub(super) fn logged_in(uid: u32) -> anyhow::Result<Self> {
        let user = User::from_uid(Uid::from_raw(uid))?;
        let user = user.with_context(|| format!("uid {uid} is nobody on this machine"))?;
        Ok(Self {
            uid,
            gid: user.gid.as_raw(),
            groups: groups_of(&user)?,
        })
    }

    /// The user's name for people, with the uid.
    pub(super) fn name(&self) -> String {
        let user = User::from_uid(Uid::from_raw(self.uid)).ok().flatten();
        user.map_or_else(
            || format!("uid {}", self.uid),
            |user| format!("uid {} ({})", self.uid, user.name),
        )
    }

    /// Has a process of this user do `deed`, and reads what it tells.
    pub(super) async fn send<T: DeserializeOwned>(&self, deed: Deed) -> anyhow::Result<T> {
        let errand = serde_json::to_vec(&Errand {
            who: self.clone(),
            deed,
        })?;
        // By path: as root it can be read wherever it is, and it becomes the other user only after that.
        let mut child = Command::new(std::env::current_exe()?)
            .arg("verify-as")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut stdin = stdin.context("a child has the pipes it was given")?;
        let mut stdout = stdout.context("a child has the pipes it was given")?;
        let mut stderr = stderr.context("a child has the pipes it was given")?;
        let (mut told, mut words) = (Vec::new(), String::new());
        let done = tokio::time::timeout(LIMIT, async {
            stdin.write_all(&errand).await?;
            drop(stdin);
            tokio::try_join!(
                stdout.read_to_end(&mut told),
                stderr.read_to_string(&mut words)
            )?;
            child.wait().await
        });
        let status = done
            .await
            .with_context(|| format!("a process of {} did not end in time", self.name()))??;
        anyhow::ensure!(
            status.success(),
            "a process of {} failed: {}",
            self.name(),
            words.trim()
        );
        serde_json::from_slice(&told)
            .with_context(|| format!("a process of {} told something else", self.name()))
    }
}

/// What the hidden subcommand does: reads an errand, becomes who it is for, does it, prints what it found.
///
/// # Errors
/// When it is not root, or cannot stop being root for good.
pub(crate) fn run_as() -> anyhow::Result<()> {
    let mut errand = String::new();
    std::io::stdin().read_to_string(&mut errand)?;
    let Errand { who, deed } = serde_json::from_str(&errand)?;
    // Before there is a second thread, and for good: real, effective and saved.
    become_user(&who).context("could not become another user")?;
    let told = match deed {
        Deed::Ask { socket, question } => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            serde_json::to_vec(&runtime.block_on(ask::ask(&socket, question)))?
        }
        Deed::Touch { paths } => serde_json::to_vec(&touch::touch(&paths))?,
        Deed::Write { folders } => serde_json::to_vec(&touch::write(&folders))?,
        Deed::Sudo { user } => serde_json::to_vec(&sudo(&user)?)?,
    };
    std::io::stdout().write_all(&told)?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn become_user(who: &Who) -> anyhow::Result<()> {
    let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.gid));
    anyhow::ensure!(!uid.is_root(), "root learns nothing about others");
    let groups: Vec<Gid> = who.groups.iter().copied().map(Gid::from_raw).collect();
    nix::unistd::setgroups(&groups)?;
    nix::unistd::setresgid(gid, gid, gid)?;
    nix::unistd::setresuid(uid, uid, uid)?;
    anyhow::ensure!(
        nix::unistd::setuid(Uid::from_raw(0)).is_err(),
        "it could become root again"
    );
    Ok(())
}

#[cfg(target_os = "linux")]
fn groups_of(user: &User) -> anyhow::Result<Vec<u32>> {
    let name = CString::new(user.name.as_str())?;
    let groups = nix::unistd::getgrouplist(&name, user.gid)?;
    Ok(groups.into_iter().map(Gid::as_raw).collect())
}

#[cfg(not(target_os = "linux"))]
fn become_user(_: &Who) -> anyhow::Result<()> {
    anyhow::bail!("this is tried on Linux only so far")
}

#[cfg(not(target_os = "linux"))]
fn groups_of(_: &User) -> anyhow::Result<Vec<u32>> {
    anyhow::bail!("this is tried on Linux only so far")
}

fn sudo(user: &str) -> anyhow::Result<Sudo> {
    let places = [
        "/usr/bin/sudo",
        "/bin/sudo",
        "/usr/local/bin/sudo",
        "/sbin/sudo",
    ];
    let Some(sudo) = places.into_iter().find(|p| PathBuf::from(p).exists()) else {
        return Ok(Sudo::Absent);
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if status
        .lines()
        .any(|l| l.split_whitespace().eq(["NoNewPrivs:", "1"]))
    {
        return Ok(Sudo::NotTried);
    }
    let ran = std::process::Command::new(sudo)
        .args(["-n", "-u", user, "--", "/bin/true"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let first = said.lines().next().unwrap_or("it said nothing").to_owned();
    Ok(if ran.status.success() {
        Sudo::Ran
    } else {
        Sudo::Refused(first)
    })
}
