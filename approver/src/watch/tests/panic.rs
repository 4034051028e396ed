//! A panic leaves the terminal as it was, and is told there.

use std::env;
use std::io::Read as _;
use std::num::NonZeroU16;

use pty_process::Size;
use pty_process::blocking::{Command, open};

use crate::watch::screen::Screen;

/// Set where this test runs a second time, at the terminal that the first run gives it.
const INSIDE: &str = "APPROVER_TEST_PANICS";
const TOLD: &str = "told where it can be read";

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_is_told_there() {
    if env::var_os(INSIDE).is_some() {
        let _screen = Screen::enter().unwrap();
        panic!("{TOLD}");
    }
    let (mut pty, pts) = open().unwrap();
    pty.resize(Size::new(24, 80)).unwrap();
    let itself = env::current_exe().unwrap();
    let script =
        "before=$(stty -g); \"$@\"; [ \"$before\" = \"$(stty -g)\" ] && echo '[as it was]'";
    let mut child = Command::new("/bin/sh")
        .args(["-c", script, "sh"])
        .arg(itself)
        .args(["--exact", "--nocapture"])
        .arg(concat!(
            "watch::tests::panic::",
            "a_panic_leaves_the_terminal_as_it_was_and_is_told_there"
        ))
        .env(INSIDE, "yes")
        .env("RUST_BACKTRACE", "0")
        .spawn(pts)
        .unwrap();
    let mut said = Vec::new();
    let mut bytes = [0; 4096];
    // A terminal whose other side is closed ends with an error.
    while let Ok(count @ 1..) = pty.read(&mut bytes) {
        said.extend_from_slice(&bytes[..count]);
    }
    child.wait().unwrap();
    let size = |n| NonZeroU16::new(n).unwrap();
    let mut terminal = vt100::Parser::new(size(24), size(80), 0);
    terminal.process(&said);
    let screen = terminal.screen();
    let text = String::from_utf8_lossy(&said);
    assert!(
        text.contains("\x1b[?1049h"),
        "it had the whole screen: {text:?}"
    );
    assert!(!screen.alternate_screen(), "{text:?}");
    assert!(!screen.hide_cursor(), "{text:?}");
    assert!(screen.contents().contains(TOLD), "{}", screen.contents());
    assert!(
        screen.contents().contains("[as it was]"),
        "{}",
        screen.contents()
    );
}
