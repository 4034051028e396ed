//! What the keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::{Model, Prompt};
use crate::cli;
use crate::daemon::Verdict;

/// More is not taken into a line that is typed.
const LONGEST: usize = 1000;

/// What a key asks for beyond the screen.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    None,
    Quit,
    /// Ctrl-C.
    Interrupt,
    Suspend,
    Send(Verdict),
}

/// The keys as the last line of the screen names them.
pub(super) fn help(model: &Model) -> &'static str {
    match (&model.prompt, model.reading) {
        (Some(Prompt::Sent { .. }), _) => "waiting for sandboxd",
        (Some(_), _) => "Enter send   Esc leave it   Ctrl-U begin again   PgUp/PgDn scroll",
        (None, true) => "Up/Down PgUp/PgDn Home/End scroll   Esc back   g grant   d deny   q quit",
        (None, false) => "Up/Down choose   Enter read   g grant   d deny   a ended too   q quit",
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a key that has no meaning here does nothing"
)]
pub(super) fn pressed(model: &mut Model, key: KeyEvent) -> Effect {
    if key.kind == KeyEventKind::Release {
        return Effect::None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => return Effect::Interrupt,
            KeyCode::Char('z') => return Effect::Suspend,
            KeyCode::Char('u') => {
                if let Some(typed) = typed(model) {
                    typed.clear();
                }
            }
            _ => {}
        }
        return Effect::None;
    }
    if model.prompt.is_some() {
        answer(model, key.code)
    } else {
        model.notice = None;
        move_about(model, key.code)
    }
}

/// Text that was pasted goes where something is typed, and is no command anywhere.
pub(super) fn pasted(model: &mut Model, text: &str) -> Effect {
    for character in text.lines().next().unwrap_or_default().chars() {
        add(model, character);
    }
    Effect::None
}

fn move_about(model: &mut Model, key: KeyCode) -> Effect {
    let page = page(model);
    match (key, model.reading) {
        (KeyCode::Char('q'), _) => return Effect::Quit,
        (KeyCode::Esc | KeyCode::Backspace | KeyCode::Left, true) => model.reading = false,
        (KeyCode::Enter | KeyCode::Right, false) => model.reading = model.selected().is_some(),
        (KeyCode::Up | KeyCode::Char('k'), true) => model.scroll_by(-1),
        (KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter, true) => model.scroll_by(1),
        (KeyCode::Up | KeyCode::Char('k'), false) => model.move_selection(-1),
        (KeyCode::Down | KeyCode::Char('j'), false) => model.move_selection(1),
        (KeyCode::PageUp | KeyCode::Char('b'), _) => model.scroll_by(-page),
        (KeyCode::PageDown | KeyCode::Char(' '), _) => model.scroll_by(page),
        (KeyCode::Home, _) => model.scroll_by(isize::MIN),
        (KeyCode::End, _) => model.scroll_by(isize::MAX),
        (KeyCode::Char('g'), _) => model.begin_grant(),
        (KeyCode::Char('d'), _) => model.begin_deny(),
        (KeyCode::Char('a'), false) => {
            model.ended_too = !model.ended_too;
            model.keep_selection();
        }
        _ => {}
    }
    Effect::None
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a key that has no meaning here does nothing"
)]
fn answer(model: &mut Model, key: KeyCode) -> Effect {
    match key {
        KeyCode::PageUp => model.scroll_by(-page(model)),
        KeyCode::PageDown => model.scroll_by(page(model)),
        KeyCode::Esc if typed(model).is_some() => {
            model.prompt = None;
            model.warn("No verdict was recorded.");
        }
        KeyCode::Backspace => {
            if let Some(typed) = typed(model) {
                typed.pop();
            }
        }
        KeyCode::Enter => return send(model),
        KeyCode::Char(character) => add(model, character),
        _ => {}
    }
    Effect::None
}

/// A screenful but one line.
fn page(model: &Model) -> isize {
    isize::try_from(model.page.max(2) - 1).unwrap_or(isize::MAX)
}

fn send(model: &mut Model) -> Effect {
    let verdict = match &model.prompt {
        Some(Prompt::Grant { question, typed }) => {
            let typed = typed.trim();
            if question.is_answered_by(typed) {
                Ok(question.yes(typed.to_owned(), String::new()))
            } else {
                Err(format!("\"{typed}\" is not it. Nothing was granted."))
            }
        }
        Some(Prompt::Deny { verdict, typed }) => match cli::reason(typed) {
            Ok(reason) => Ok(Verdict {
                reason,
                ..verdict.clone()
            }),
            Err(why) => Err(format!("Nothing was denied: {why}.")),
        },
        Some(Prompt::Sent { .. }) | None => return Effect::None,
    };
    match verdict {
        Ok(verdict) => {
            model.prompt = Some(Prompt::Sent {
                id: verdict.id.clone(),
            });
            model.notice = None;
            Effect::Send(verdict)
        }
        Err(why) => {
            model.warn(&why);
            Effect::None
        }
    }
}

fn add(model: &mut Model, character: char) {
    if let Some(typed) = typed(model)
        && typed.chars().count() < LONGEST
        && !character.is_control()
    {
        typed.push(character);
        model.notice = None;
    }
}

fn typed(model: &mut Model) -> Option<&mut String> {
    match &mut model.prompt {
        Some(Prompt::Grant { typed, .. } | Prompt::Deny { typed, .. }) => Some(typed),
        Some(Prompt::Sent { .. }) | None => None,
    }
}
