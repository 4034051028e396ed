//! `approver watch`: approvals on the whole screen, as they come, with the keys to decide them.
//!
//! One loop draws what the model holds and hands it what happens: keys, what the daemon says, signals and
//! the passing of time. The connection is kept by a future of its own in the same loop, so nothing here
//! runs beside it and nothing is left when it ends.

mod screen;
mod signals;
mod link;
mod notice;
mod model;
mod keys;
mod draw;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::access::{Access, Standing};
use crate::clock::now_ms;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::terminal;

use keys::Effect;
use link::Ask;
use model::Model;
use screen::Screen;
use signals::{Signals, Told};

/// How often times on the screen move on.
const TICK: Duration = Duration::from_secs(1);
/// What may wait between the screen and the connection.
const QUEUE: usize = 64;

/// Refuses to begin where nobody could see or answer.
pub(crate) fn check_terminal() -> Result<(), Failure> {
    if terminal::has_reader_and_writer() && !terminal::is_dumb() {
        return Ok(());
    }
    Err(Failure::Error(
        "approver watch needs a terminal that can place its cursor, without a pipe (over SSH with -t). Without one: approver list, approver show ID"
            .to_owned(),
    ))
}

/// Runs until it is told to end, and leaves the terminal as it was.
pub(crate) async fn run(
    access: &Access<'_>,
    daemon: Daemon,
    standing: &Standing,
) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|e| no_screen(&e))?;
    let mut screen = Screen::enter().map_err(|e| no_screen(&e))?;
    let mut model = Model::new(now_ms());
    if !standing.alarms.is_empty() {
        model.alarm();
    }
    let (ask, asks) = mpsc::channel(QUEUE);
    let (tell, mut news) = mpsc::channel(QUEUE);
    let link = link::keep(access, daemon, &standing.status, asks, tell);
    tokio::pin!(link);
    let mut events = EventStream::new();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if let Some(id) = model.wanted() {
            // When the queue is full the daemon is slow, and the next turn asks again.
            if ask.try_send(Ask::Show(id)).is_ok() {
                model.asked();
            }
        }
        screen.draw(&mut model).map_err(|e| no_screen(&e))?;
        let effect = tokio::select! {
            never = &mut link => match never {},
            heard = news.recv() => {
                // The sender lives in `link`, which never ends.
                if let Some(alarm) = heard.and_then(|heard| model.heard(heard)) {
                    return Err(alarm);
                }
                Effect::None
            }
            event = events.next() => match event {
                Some(Ok(Event::Key(key))) => keys::pressed(&mut model, key),
                Some(Ok(Event::Paste(text))) => keys::pasted(&mut model, &text),
                Some(Ok(_)) => Effect::None,
                Some(Err(e)) => return Err(no_screen(&e)),
                None => return Err(no_screen(&io::ErrorKind::UnexpectedEof.into())),
            },
            signal = signals.next() => match signal {
                Told::Suspend => Effect::Suspend,
                Told::End(signal) => return Err(Failure::Ended { signal, told: model.left_open() }),
            },
            _ = tick.tick() => Effect::None,
        };
        model.now_ms = now_ms();
        match effect {
            Effect::None => {}
            Effect::Quit => return Ok(()),
            Effect::Suspend => screen.suspend().map_err(|e| no_screen(&e))?,
            Effect::Interrupt => {
                return Err(Failure::Ended {
                    signal: 2,
                    told: model.left_open(),
                });
            }
            Effect::Send(verdict) => {
                if ask.try_send(Ask::Record(verdict)).is_err() {
                    model.not_sent();
                }
            }
        }
    }
}

fn no_screen(e: &io::Error) -> Failure {
    Failure::Error(format!("The terminal could not be used: {e}."))
}
