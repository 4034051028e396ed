//! `approver grant` and `approver deny`: a person's yes or no to what was shown.

use std::io::{self, BufRead as _, Write};
use std::thread;

use sandbox_proto::approver::v1::approval::State;
use sandbox_proto::approver::v1::{Approval, GetApprovalResponse};
use tokio::sync::oneshot;

use super::describe::{self, hex};
use super::standing::{counted, state, state_word, told_state};
use super::wait;
use crate::access::{Access, Standing};
use crate::cli::{DenyArgs, GrantArgs};
use crate::clock::now_ms;
use crate::daemon::{Daemon, Verdict};
use crate::document::{Row, Tone, print};
use crate::escape::escape;
use crate::failure::Failure;
use crate::terminal::{self, Look};

/// How often a name may be mistyped.
const TRIES: usize = 3;
/// Objects named again where the question is asked.
const NAMED_AGAIN: usize = 6;

/// `approver grant`: shows the approval, asks, and records a yes to exactly what was shown.
pub(crate) async fn grant(
    args: &GrantArgs,
    access: &Access<'_>,
    mut daemon: Daemon,
    standing: &Standing,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if !standing.alarms.is_empty() {
        return Err(Failure::Refused(NOT_WITH_AN_ALARM.to_owned()));
    }
    let shown = daemon.approval(args.id.as_str()).await?;
    print(&describe::whole(&shown, now_ms()), Look::of_stdout(), out)?;
    out.flush()?;
    let question = Question::about(&shown, now_ms())?;
    let typed = question.ask(args.digest.as_deref()).await?;
    let approval = daemon
        .record_verdict(question.yes(typed, args.reason.clone().unwrap_or_default()))
        .await?;
    let told = recorded(&approval, true)?;
    writeln!(out, "{told}")?;
    out.flush()?;
    if args.wait {
        wait::for_the_apply(&approval, access, daemon, out).await?;
    }
    Ok(())
}

/// `approver deny`.
pub(crate) async fn deny(
    args: &DenyArgs,
    daemon: &mut Daemon,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let shown = daemon.approval(args.id.as_str()).await?;
    let Some(approval) = &shown.approval else {
        return Err(incomplete(args.id.as_str()));
    };
    print(
        &describe::heading(approval, now_ms()),
        Look::of_stdout(),
        out,
    )?;
    let verdict = Verdict {
        id: approval.id.clone(),
        digest: approval.digest.to_vec(),
        grant: false,
        reason: args.reason.clone(),
        typed: String::new(),
    };
    let approval = daemon.record_verdict(verdict).await?;
    writeln!(out, "{}", recorded(&approval, false)?)?;
    Ok(())
}

pub(crate) const NOT_WITH_AN_ALARM: &str = "Nothing was granted: the audit trail does not hold, so what sandboxd shows is not to be believed.";

/// What has to be answered before an approval is granted. It holds what was shown, so that the answer
/// goes with nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    id: String,
    digest: Vec<u8>,
    /// What may be typed, one of these; a plain yes will do when it destroys nothing.
    names: Vec<String>,
    /// What it does in one line.
    summary: String,
    dangers: usize,
}

impl Question {
    /// About what was shown, at the time `now_ms`.
    pub(crate) fn about(shown: &GetApprovalResponse, now_ms: i64) -> Result<Self, Failure> {
        let (Some(approval), Some(plan)) = (&shown.approval, &shown.plan) else {
            let id = shown.approval.as_ref().map_or("", |approval| &approval.id);
            return Err(incomplete(id));
        };
        let id = &approval.id;
        if state(approval) != Some(State::Pending) || approval.expires_ms <= now_ms {
            let stands = told_state(approval, now_ms);
            return Err(Failure::Refused(format!(
                "There is nothing to grant: approval {} is {}. If it is still wanted, the agent has to ask again.",
                escape(id),
                escape(&stands)
            )));
        }
        if approval.digest.is_empty() {
            return Err(incomplete(id));
        }
        let spares = |action: &str| {
            ["create", "update", "import", "move", "read", "forget"].contains(&action)
        };
        let mut names = shown.confirm.clone();
        if names.is_empty() && plan.changes.iter().any(|change| !spares(&change.action)) {
            // It destroys something that is no object of the cluster, and has no name to type.
            names.push(id.clone());
        }
        Ok(Self {
            id: id.clone(),
            digest: approval.digest.to_vec(),
            names,
            summary: format!("root {}: {}", approval.root, approval.summary),
            dangers: plan.dangers.len(),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether something would be destroyed or replaced.
    pub(crate) fn destroys(&self) -> bool {
        !self.names.is_empty()
    }

    /// What the person is asked, a row each.
    pub(crate) fn rows(&self) -> Vec<Row> {
        match &self.names[..] {
            [] => {
                let dangers = match self.dangers {
                    0 => String::new(),
                    some => format!(" ({}, told above)", counted(some, "danger")),
                };
                let tone = if self.dangers > 0 {
                    Tone::Danger
                } else {
                    Tone::Plain
                };
                vec![
                    Row::words(tone, 0, &format!("For {}{dangers}.", self.summary)),
                    Row::words(Tone::Plain, 0, "Type yes to grant it:"),
                ]
            }
            [id] if *id == self.id => vec![Row::words(
                Tone::Danger,
                0,
                &format!(
                    "This destroys or replaces something. To grant it, type the approval's id, {id}:"
                ),
            )],
            names => {
                let objects = counted(names.len(), "object");
                let again = names.iter().take(NAMED_AGAIN);
                let more = names.len().saturating_sub(NAMED_AGAIN);
                let title = format!("This destroys or replaces {objects}:");
                let mut rows = vec![Row::words(Tone::Danger, 0, &title)];
                rows.extend(again.map(|name| Row::words(Tone::Danger, 2, name)));
                if more > 0 {
                    let told = format!("and {more} more, all named above");
                    rows.push(Row::words(Tone::Danger, 2, &told));
                }
                let one = if names.len() == 1 {
                    "it"
                } else {
                    "one of them"
                };
                rows.push(Row::words(
                    Tone::Plain,
                    0,
                    &format!("To grant it, type {one}, as kind/namespace/name:"),
                ));
                rows
            }
        }
    }

    /// Whether this is the answer that grants. Names are compared to the letter.
    pub(crate) fn is_answered_by(&self, typed: &str) -> bool {
        let typed = typed.trim();
        if self.destroys() {
            self.names.iter().any(|name| name == typed)
        } else {
            typed == "yes"
        }
    }

    /// The verdict that goes with the answer.
    pub(crate) fn yes(&self, typed: String, reason: String) -> Verdict {
        Verdict {
            id: self.id.clone(),
            digest: self.digest.clone(),
            grant: true,
            reason,
            typed: if self.destroys() {
                typed
            } else {
                String::new()
            },
        }
    }

    /// What a person answers at the terminal. Without one nobody sees the question, and who grants has to
    /// have seen the plan before: its digest says which one. What has dangers takes a person all the same.
    async fn ask(&self, seen: Option<&str>) -> Result<String, Failure> {
        let id = &self.id;
        if let Some(seen) = seen.filter(|seen| !hex(&self.digest).starts_with(seen)) {
            return Err(Failure::Refused(format!(
                "Nothing was granted: approval {id} is for another plan than the one with the digest {seen}. \
                 Look at it again: approver show {id}"
            )));
        }
        if !(terminal::has_reader_and_writer() && terminal::can_answer()) {
            let why = match (self.destroys(), self.dangers) {
                (true, _) => {
                    "destroys or replaces something, so a person has to see it and type a name at a terminal"
                }
                (false, 1..) => "has dangers, so a person has to see it at a terminal",
                (false, 0) if seen.is_some() => return Ok(String::new()),
                (false, 0) => {
                    return Err(Failure::Refused(format!(
                        "Nothing was granted: without a terminal nobody was asked. Name the plan you saw by \
                         its digest, which approver show prints: approver grant {id} --digest HEX"
                    )));
                }
            };
            return Err(Failure::Refused(format!(
                "Nothing was granted: approval {id} {why}. Run it at one, without a pipe (over SSH with -t): \
                 approver grant {id}"
            )));
        }
        let look = Look::of_stderr();
        let mut err = io::stderr();
        writeln!(err)?;
        print(&self.rows(), look, &mut err)?;
        for _ in 0..TRIES {
            write!(err, "> ")?;
            err.flush()?;
            let typed = typed_line().await?;
            match typed.as_deref().map(str::trim) {
                Some(typed) if self.is_answered_by(typed) => return Ok(typed.to_owned()),
                // Nothing, or the end of the input, is a person's way out.
                None | Some("" | "no" | "n") => break,
                Some(typed) => {
                    let not = format!(
                        "\"{typed}\" is not it. Nothing was granted so far. Type it as it stands above, capitals \
                         too; an empty line leaves it."
                    );
                    print(&[Row::words(Tone::Plain, 0, &not)], look, &mut err)?;
                }
            }
        }
        Err(Failure::Refused(format!(
            "Nothing was granted. Approval {id} still waits; to end it: approver deny {id} --reason TEXT"
        )))
    }
}

/// The next line of standard input; `None` at its end. It is read beside the runtime, so that the
/// connection to the daemon goes on answering pings meanwhile.
async fn typed_line() -> Result<Option<String>, Failure> {
    let (sender, line) = oneshot::channel();
    thread::spawn(move || {
        let mut typed = String::new();
        let read = io::stdin().lock().read_line(&mut typed);
        // Whoever asked is still there: nothing but its end ends the program meanwhile.
        drop(sender.send(read.map(|bytes| (bytes > 0).then_some(typed))));
    });
    match line.await {
        Ok(Ok(line)) => Ok(line),
        Ok(Err(e)) => Err(Failure::Error(format!(
            "Could not read what was typed: {e}. Nothing was granted."
        ))),
        Err(_) => Ok(None),
    }
}

/// What came of a verdict that was recorded.
pub(crate) fn recorded(approval: &Approval, granted: bool) -> Result<String, Failure> {
    let id = escape(&approval.id);
    let own = approval.verdicts.last();
    if let Some(void) = own.map(|own| &own.void).filter(|void| !void.is_empty()) {
        return Err(Failure::Refused(format!(
            "Your verdict on approval {id} was recorded, but does not count: {}.",
            escape(void)
        )));
    }
    let yes = approval
        .verdicts
        .iter()
        .filter(|v| v.grant && v.void.is_empty());
    match (granted, state(approval)) {
        (true, Some(State::Granted | State::Consumed)) => Ok(format!(
            "Granted. {} may use approval {id} once, for exactly this plan.",
            escape(&approval.principal)
        )),
        (true, Some(State::Pending)) => Ok(format!(
            "Your yes is recorded. Approval {id} has {} of {}, and waits for others.",
            yes.count(),
            approval.quorum
        )),
        (false, Some(State::Denied)) => Ok(format!(
            "Denied. Approval {id} has ended; nothing was applied."
        )),
        (
            _,
            Some(
                State::Unspecified
                | State::Pending
                | State::Granted
                | State::Consumed
                | State::Denied
                | State::Expired
                | State::Cancelled,
            )
            | None,
        ) => Err(Failure::Refused(format!(
            "Your verdict was recorded, and approval {id} is {} all the same.",
            state_word(approval)
        ))),
    }
}

fn incomplete(id: &str) -> Failure {
    Failure::Refused(format!(
        "No verdict was recorded: sandboxd did not show approval {} in full. Look at its log.",
        escape(id)
    ))
}
