//! The wall clock of one daemon: it stands still until the test moves it, in both directions. What the daemon
//! measures by its monotonic clock goes on as ever. Debian's libfaketime does it, from outside the daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::places::{DAEMON, run_as};

const MISSING: &str = "Debian's package libfaketime: install it, or run scripts/test";

pub(crate) struct HeldClock {
    library: PathBuf,
    /// What it says; the library reads it again whenever the daemon asks for the time.
    file: PathBuf,
    /// Whole seconds since the Unix epoch.
    now: u64,
}

impl HeldClock {
    /// Held at the time it is, by files in `folder`, which the daemon's user can read.
    pub(crate) fn new(folder: &Path) -> Self {
        let listed = Command::new("dpkg").args(["-L", "libfaketime"]).output();
        let listed = String::from_utf8(listed.expect(MISSING).stdout).unwrap();
        // The one for programs of several threads.
        let library = listed.lines().find(|path| path.ends_with("MT.so.1"));
        let mut clock = Self {
            library: library.expect(MISSING).into(),
            file: folder.join("clock"),
            now: 0,
        };
        clock.set(real_seconds());
        clock
    }

    /// Moves it by so many seconds.
    pub(crate) fn shift(&mut self, seconds: i64) {
        self.set(self.now.checked_add_signed(seconds).unwrap());
    }

    /// Moves it on, to where nothing of what was said before is new any more: past an approval of a minute, and
    /// past the minute in which a root takes no new one.
    pub(crate) fn move_on(&mut self) {
        self.set(real_seconds().max(self.now + 70));
    }

    fn set(&mut self, now: u64) {
        // In one step: half a number is another time.
        let new = self.file.with_extension("new");
        fs::write(&new, now.to_string()).unwrap();
        fs::rename(&new, &self.file).unwrap();
        self.now = now;
    }

    /// `program` as the daemon's user, by this clock.
    pub(crate) fn run(&self, program: &Path) -> Command {
        let set = |name: &str, value: &Path| format!("{name}={}", value.display());
        // Not for the program that changes the user.
        let mut command = run_as(DAEMON, DAEMON, Path::new("/usr/bin/env"));
        command
            .arg(set("LD_PRELOAD", &self.library))
            .arg(set("FAKETIME_TIMESTAMP_FILE", &self.file))
            .args(["FAKETIME_FMT=%s", "FAKETIME_NO_CACHE=1"])
            .args(["FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"])
            .arg(program);
        command
    }
}

#[expect(clippy::disallowed_methods, reason = "where the held clock begins")]
fn real_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}
