//! A daemon with another configuration and its own state, in the place of the installed one: two at a time
//! would delete each other's Jobs.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use nix::unistd::{Group, User};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use toml::{Table, Value};

use crate::bridge::Bridge;
use crate::daemon::Stopped;
use crate::held_clock::HeldClock;
use crate::places::{AGENT, APPROVER, DAEMON, installed, run_as};
use crate::trail::Trail;
use crate::wait::until;

pub(crate) struct OwnDaemon {
    folder: TempDir,
    program: PathBuf,
    /// The system's, when there is none.
    clock: Option<HeldClock>,
    child: Option<Child>,
    _installed: Stopped,
}

impl OwnDaemon {
    /// With the installed configuration, as `edit` changes it. Not started yet.
    pub(crate) fn new(edit: impl FnOnce(&mut Table)) -> Self {
        let installed_daemon = Stopped::now();
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let own = Self {
            folder,
            program: installed("sandboxd"),
            clock: None,
            child: None,
            _installed: installed_daemon,
        };
        own.make_folder("state", 0o700, (DAEMON, DAEMON));
        own.make_folder("agent", 0o2750, (DAEMON, AGENT));
        own.make_folder("approver", 0o2750, (DAEMON, APPROVER));
        own.make_folder("home", 0o700, (APPROVER, APPROVER));
        own.configure(edit);
        own
    }

    /// Writes the configuration anew, from the installed one.
    pub(crate) fn configure(&self, edit: impl FnOnce(&mut Table)) {
        let text = fs::read_to_string("/etc/sandboxd/sandboxd.toml").unwrap();
        let mut config: Table = text.parse().unwrap();
        set(
            &mut config,
            "listen",
            "agent_socket",
            self.path("agent/agent.sock"),
        );
        set(
            &mut config,
            "listen",
            "approver_socket",
            self.path("approver/approver.sock"),
        );
        set(&mut config, "state", "directory", self.path("state"));
        edit(&mut config);
        self.write("sandboxd.toml", &config.to_string());
    }

    /// A file that the daemon alone can read; gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        drop(File::create(&path).unwrap());
        own(Path::new(&path), 0o600, (DAEMON, DAEMON));
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn make_folder(&self, name: &str, mode: u32, owner: (&str, &str)) {
        let path = self.folder.path().join(name);
        fs::create_dir(&path).unwrap();
        own(&path, mode, owner);
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Has it run another build, from a copy that its user can get at.
    pub(crate) fn run_build(&mut self, program: &Path) {
        self.program = self.path("sandboxd").into();
        fs::copy(program, &self.program).unwrap();
        fs::set_permissions(&self.program, Permissions::from_mode(0o755)).unwrap();
    }

    /// Has it go by a clock that stands still from its next start on.
    pub(crate) fn hold_clock(&mut self) {
        self.clock = Some(HeldClock::new(self.folder.path()));
    }

    pub(crate) fn clock(&mut self) -> &mut HeldClock {
        self.clock.as_mut().unwrap()
    }

    /// Starts it, and waits until it serves.
    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    pub(crate) fn start_with(&mut self, args: &[&str]) {
        let log = File::create(self.path("log")).unwrap();
        let mut command = match &self.clock {
            None => run_as(DAEMON, DAEMON, &self.program),
            Some(clock) => clock.run(&self.program),
        };
        command
            .args(["run", "--config", &self.path("sandboxd.toml")])
            .args(args);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.child = Some(child.spawn().unwrap());
        until("a daemon that serves", Duration::from_mins(1), || {
            let log = self.log();
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                panic!("sandboxd ended with {status}: {log}");
            }
            log.contains("INFO serving").then_some(())
        });
    }

    /// `sandboxd state COMMAND demo FILE`, while it does not run.
    pub(crate) fn state(&self, command: &str, file: &str) {
        let done = self.try_state(command, file);
        assert!(done.is_ok(), "state {command}: {done:?}");
    }

    pub(crate) fn try_state(&self, command: &str, file: &str) -> Result<(), String> {
        let mut sandboxd = run_as(DAEMON, DAEMON, &self.program);
        sandboxd.args(["state", command, "demo", file, "--config"]);
        let out = sandboxd.arg(self.path("sandboxd.toml")).output().unwrap();
        if out.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&out.stderr).into_owned())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub(crate) fn bridge(&self) -> Bridge {
        Bridge::start_as(
            AGENT,
            AGENT,
            Some(Path::new(&self.path("agent/agent.sock"))),
        )
    }

    pub(crate) fn trail(&self) -> Trail {
        Trail {
            file: self.path("state/audit.jsonl").into(),
            socket: self.path("approver/approver.sock").into(),
            approver: APPROVER.to_owned(),
            approver_home: self.path("home").into(),
        }
    }

    /// The same, as one more approver with that uid. Who that is, the configuration has to say.
    pub(crate) fn trail_of(&self, uid: u32) -> Trail {
        let home = self.path(&format!("home-{uid}"));
        if !Path::new(&home).exists() {
            fs::create_dir(&home).unwrap();
            chown(&home, Some(uid), Some(uid)).unwrap();
        }
        Trail {
            approver: uid.to_string(),
            approver_home: home.into(),
            ..self.trail()
        }
    }

    /// Has it begin anew, with what was configured since.
    pub(crate) fn restart(&mut self) {
        assert!(self.terminate().success());
        self.start();
    }

    /// Waits until it ended by itself.
    pub(crate) fn wait_for_its_end(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        until("the daemon's own end", Duration::from_mins(1), || {
            child.try_wait().unwrap()
        })
    }

    /// Has it read its policy again.
    pub(crate) fn reload(&self) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), Signal::HUP).unwrap();
    }

    /// Ends it at once: in order it would go on trying what it cannot finish.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it in order.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM).unwrap();
        until("the daemon's end", Duration::from_mins(1), || {
            child.try_wait().unwrap()
        })
    }
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        if self.child.is_some() {
            let status = self.terminate();
            assert!(std::thread::panicking() || status.success(), "{status}");
        }
        if std::thread::panicking() {
            println!("the daemon's log:\n{}", self.log());
        }
    }
}

/// Has every call start a sandbox of its own.
pub(crate) fn without_spares(config: &mut Table) {
    set(config, "sandbox", "pool_read", 0);
    set(config, "sandbox", "pool_terraform", 0);
}

/// Sets `[section] key`.
pub(crate) fn set(config: &mut Table, section: &str, key: &str, value: impl Into<Value>) {
    let section = config.entry(section).or_insert_with(|| Table::new().into());
    section
        .as_table_mut()
        .unwrap()
        .insert(key.to_owned(), value.into());
}

/// Gives a file or folder to a user and a group.
pub(crate) fn own(path: &Path, mode: u32, (user, group): (&str, &str)) {
    let user = User::from_name(user)
        .unwrap()
        .expect("users: run scripts/up");
    let group = Group::from_name(group)
        .unwrap()
        .expect("groups: run scripts/up");
    chown(path, Some(user.uid.as_raw()), Some(group.gid.as_raw())).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
