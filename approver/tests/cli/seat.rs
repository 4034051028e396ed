//! A person's seat: a terminal with the binary in it, what the screen shows, and a keyboard.

use std::num::NonZeroU16;
use std::time::Duration;

use pty_process::{Command, Pty, Size};
use rustix::process::{Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::{Instant, timeout};

use crate::scripted::Stage;

const BINARY: &str = env!("CARGO_BIN_EXE_approver");
const PATIENCE: Duration = Duration::from_mins(1);

/// A terminal, and what runs at it.
pub struct Seat {
    pty: Pty,
    screen: vt100::Parser,
    child: Child,
    raw: Vec<u8>,
}

/// Runs its arguments, then says how that ended and whether the terminal is as it was. Signals of the
/// terminal go to both of them, and only what runs below is to end.
const SHELL: &str = r#"
trap : INT TERM HUP QUIT TSTP
before=$(stty -g); "$@"; code=$?; after=$(stty -g)
[ "$before" = "$after" ] && terminal="as it was" || terminal="CHANGED"
echo "[ended $code, terminal $terminal]"
"#;

impl Seat {
    /// 24 rows of 80 columns.
    pub fn take(stage: &Stage, args: &[&str]) -> Self {
        Self::sized(stage, args, (24, 80))
    }

    pub fn sized(stage: &Stage, args: &[&str], (rows, columns): (u16, u16)) -> Self {
        Self::with(stage, args, (rows, columns), &[])
    }

    /// With these variables in the environment too.
    pub fn with(
        stage: &Stage,
        args: &[&str],
        (rows, columns): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let socket = stage.socket();
        let mut line = vec![BINARY, "--socket", socket.to_str().unwrap()];
        line.extend(args);
        Self::program(stage, &line, (rows, columns), variables)
    }

    /// Whatever the command line is.
    pub fn program(
        stage: &Stage,
        line: &[&str],
        (rows, columns): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let child = Command::new("/bin/sh")
            .args(["-c", SHELL, "sh"])
            .args(line)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .env("XDG_STATE_HOME", stage.state())
            .envs(variables.iter().copied())
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        Self {
            pty,
            screen: vt100::Parser::new(some(rows), some(columns), 0),
            child,
            raw: Vec::new(),
        }
    }

    /// The screen as text, without blanks at the ends of lines.
    pub fn shown(&self) -> String {
        let (_, columns) = self.screen.screen().size();
        let rows = self.screen.screen().rows(0, columns.get());
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n")
    }

    /// All that came, for what the screen does not keep.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    pub fn has_whole_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    pub fn is_coloured(&self) -> bool {
        let (rows, columns) = self.screen.screen().size();
        let cells = (0..rows.get()).flat_map(|y| (0..columns.get()).map(move |x| (y, x)));
        cells
            .filter_map(|(y, x)| self.screen.screen().cell(y, x))
            .any(|cell| cell.fgcolor() != vt100::Color::Default)
    }

    /// Waits until it is so.
    #[track_caller]
    pub fn until<'a>(
        &'a mut self,
        what: &'a str,
        so: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let asked = std::panic::Location::caller();
        async move {
            let end = Instant::now() + PATIENCE;
            while !so(self) {
                let left = end.saturating_duration_since(Instant::now());
                let mut bytes = [0; 4096];
                match timeout(left, self.pty.read(&mut bytes)).await {
                    Ok(Ok(count)) if count > 0 => {
                        self.raw.extend_from_slice(&bytes[..count]);
                        self.screen.process(&bytes[..count]);
                    }
                    ended => panic!(
                        "{asked}: {what:?} did not come ({ended:?}); the screen:\n{}",
                        self.shown()
                    ),
                }
            }
        }
    }

    /// Waits for these words, wherever they wrap.
    #[track_caller]
    pub fn shows<'a>(&'a mut self, text: &'a str) -> impl Future<Output = ()> + 'a {
        let wanted = words(text);
        self.until(text, move |seat| words(&seat.shown()).contains(&wanted))
    }

    #[track_caller]
    pub fn shows_no_more<'a>(&'a mut self, text: &'a str) -> impl Future<Output = ()> + 'a {
        let unwanted = words(text);
        self.until("the end of a text", move |seat| {
            !words(&seat.shown()).contains(&unwanted)
        })
    }

    /// Waits for the end of the run, which must leave the terminal as it was.
    pub async fn ends_with(&mut self, code: i32) {
        self.shows("[ended ").await;
        self.shows(&format!("[ended {code}, terminal as it was]"))
            .await;
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is back");
        assert!(!screen.bracketed_paste(), "text is pasted as before");
        timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
    }

    pub async fn types(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.unwrap();
    }

    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
        self.screen.screen_mut().set_size(some(rows), some(columns));
    }

    /// The terminal goes away, as when an SSH connection breaks. Ends when what ran there has ended.
    pub async fn hangs_up(mut self) {
        drop(self.pty);
        timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
    }

    /// Waits until what runs below the shell is stopped, as the kernel tells it.
    pub async fn is_stopped(&self) {
        let shell = self.child.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let child = children.unwrap().trim().to_owned();
        let end = Instant::now() + PATIENCE;
        let stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        while !stopped() {
            assert!(Instant::now() < end, "it did not stop");
            tokio::task::yield_now().await;
        }
    }

    /// As the terminal sends signals: to all that runs in its foreground.
    pub fn signal(&self, signal: Signal) {
        let group = rustix::termios::tcgetpgrp(&self.pty).unwrap();
        kill_process_group(group, signal).unwrap();
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn some(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).unwrap()
}

/// The time now, for approvals that the binary is to find open.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary looks at the clock too"
)]
pub fn now_ms() -> i64 {
    sandbox_core::audit::UtcMillis::from(std::time::SystemTime::now()).as_unix_ms()
}
