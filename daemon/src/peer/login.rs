//! The login a process descends from: the audit uid, which the kernel keeps through `su`, `sudo` and exec.
//!
//! An agent that uses its human's cached sudo connects with the approver's uid, and still descends from a
//! login of the agent's. The pid alone would not do: it may be another process by the time anyone looks, so
//! the time it started is kept beside it.

use std::fmt;
use std::io;

/// What `/proc/PID/loginuid` says while nobody has logged in: a service, a container.
#[cfg(target_os = "linux")]
const UNSET: u32 = u32::MAX;

/// The uid of the login a process descends from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LoginUid {
    /// It logged in as this uid.
    Of(u32),
    /// It descends from no login.
    Unset,
    /// This system does not keep it.
    NotKept,
}

/// A process at one moment, and the login it descends from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Login {
    pid: i32,
    /// In clock ticks after boot.
    started: u64,
    uid: LoginUid,
}

impl Login {
    /// Of the process that has this pid now.
    ///
    /// # Errors
    /// When it is gone, or this user may not look at it.
    #[cfg(target_os = "linux")]
    pub fn of(pid: i32) -> io::Result<Self> {
        let started = started(pid)?;
        let uid = match std::fs::read_to_string(format!("/proc/{pid}/loginuid")) {
            Ok(text) => match text.trim().parse() {
                Ok(UNSET) => LoginUid::Unset,
                Ok(uid) => LoginUid::Of(uid),
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            },
            // A kernel without audit has no such file for anybody.
            Err(e) if e.kind() == io::ErrorKind::NotFound => LoginUid::NotKept,
            Err(e) => return Err(e),
        };
        let login = Self { pid, started, uid };
        if started == self::started(pid)? {
            Ok(login)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Systems other than Linux have nothing like it.
    ///
    /// # Errors
    /// None.
    #[cfg(not(target_os = "linux"))]
    pub fn of(pid: i32) -> io::Result<Self> {
        let (started, uid) = (0, LoginUid::NotKept);
        Ok(Self { pid, started, uid })
    }

    /// Whether the process is still there and descends from the same login.
    #[must_use]
    pub fn still_holds(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }

    /// The login's uid.
    #[must_use]
    pub fn uid(&self) -> LoginUid {
        self.uid
    }
}

/// Field 22 of `/proc/PID/stat`. The command's name before it may hold anything, a `)` too.
#[cfg(target_os = "linux")]
fn started(pid: i32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest);
    fields
        .and_then(|rest| rest.split_whitespace().nth(19))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl fmt::Display for LoginUid {
    /// As it stands in the trail.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(uid) => uid.fmt(f),
            Self::Unset => f.write_str("unset"),
            Self::NotKept => f.write_str("not kept by this system"),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    fn pid(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    #[test]
    fn a_child_descends_from_its_parents_login_and_started_later() {
        let own = Login::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let mut child = sleeper();
        let its = Login::of(pid(&child)).unwrap();
        assert_eq!(its.uid(), own.uid());
        assert!(its.started >= own.started);
        assert!(its.still_holds());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!its.still_holds(), "it is gone");
        assert!(Login::of(pid(&child)).is_err());
    }

    #[test]
    fn another_process_of_that_pid_is_another() {
        let own = Login::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let before = Login {
            started: own.started - 1,
            ..own
        };
        assert!(own.still_holds() && !before.still_holds());
    }
}
