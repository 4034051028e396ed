//! The terminal while the watch has it, and as it was before.

use std::io::{self, Stdout, Write as _, stdout};
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};
use rustix::process::{Signal, getpid, kill_process};

use super::draw::{Colours, draw};
use super::model::Model;

/// Whether the terminal is ours, so that it is given back exactly once.
static OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal. It is given back when this is dropped, and before a panic is told.
pub(super) struct Screen {
    /// Never dropped: it would show the cursor, which [`give_back`] does, and panic where the terminal is gone.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    colours: Colours,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        HOOK.call_once(|| {
            let told = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                give_back();
                told(panic);
            }));
        });
        take()?;
        let mut screen = Self {
            terminal: ManuallyDrop::new(Terminal::new(CrosstermBackend::new(stdout()))?),
            colours: Colours::wanted(),
        };
        screen.begin_anew()?;
        Ok(screen)
    }

    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        let colours = self.colours;
        self.terminal
            .draw(|frame| draw(model, colours, frame))
            .map(drop)
    }

    /// Stops this process, as a shell's Ctrl-Z does, and takes the terminal again when it goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        kill_process(getpid(), Signal::STOP)?;
        take()?;
        self.begin_anew()
    }

    /// Has everything drawn next. Not by `Terminal::clear`, which asks the terminal where its cursor is and
    /// fails where the answer is slow.
    fn begin_anew(&mut self) -> io::Result<()> {
        let area = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, area)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    OURS.store(true, Ordering::SeqCst);
    let taken = execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste);
    if taken.is_err() {
        give_back();
    }
    taken
}

fn give_back() {
    if OURS.swap(false, Ordering::SeqCst) {
        // Each is tried whatever becomes of the others; a terminal that is gone needs none.
        drop(execute!(
            stdout(),
            DisableBracketedPaste,
            LeaveAlternateScreen,
            Show
        ));
        drop(disable_raw_mode());
        drop(stdout().flush());
    }
}
