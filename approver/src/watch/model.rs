//! What the watch knows and where the person is in it. It does no I/O.

use std::collections::BTreeSet;

use sandbox_core::audit::UtcMillis;
use sandbox_proto::approver::v1::{Approval, GetApprovalResponse};

use super::link::News;
use super::notice::{Notice, Until};
use crate::approvals::{self, Lengths, NOT_WITH_AN_ALARM, Question, is_open, recorded};
use crate::daemon::Verdict;
use crate::document::{Line, Row, Tone, lay_out};
use crate::failure::Failure;

const AWAY: &str = "sandboxd is away, so nothing can be recorded.";

/// The whole state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) now_ms: i64,
    /// All there are, the newest first.
    approvals: Vec<Approval>,
    /// Those that ended are listed too. One that ends while it is watched stays listed.
    pub(super) ended_too: bool,
    watched: BTreeSet<String>,
    selected: Option<String>,
    detail: Option<Detail>,
    /// The detail of this one has to be asked for, or was.
    wanted: Wanted,
    pub(super) connection: Connection,
    /// The one selected has the whole screen.
    pub(super) reading: bool,
    pub(super) scroll: usize,
    /// Lines of the detail that are on the screen, and that there are; as last drawn.
    pub(super) page: usize,
    pub(super) length: usize,
    pub(super) prompt: Option<Prompt>,
    pub(super) notice: Option<Notice>,
    pub(super) alarmed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wanted {
    Nothing,
    Now,
    Asked,
}

#[derive(Clone, Debug)]
pub(super) enum Connection {
    /// To which daemon.
    Up(String),
    /// Since when, and why.
    Away(i64, String),
}

/// What is being typed, and to what it is the answer.
#[derive(Clone, Debug)]
pub(super) enum Prompt {
    Grant {
        question: Question,
        typed: String,
    },
    Deny {
        verdict: Verdict,
        typed: String,
    },
    /// A verdict is on its way.
    Sent {
        id: String,
    },
}

/// One approval in full.
#[derive(Debug)]
struct Detail {
    id: String,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Shown {
        answer: Box<GetApprovalResponse>,
        rows: Vec<Row>,
        /// As last laid out, for which width.
        lines: (usize, Vec<Line>),
    },
    Failed(String),
}

impl Model {
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            now_ms,
            approvals: Vec::new(),
            ended_too: false,
            watched: BTreeSet::new(),
            selected: None,
            detail: None,
            wanted: Wanted::Nothing,
            connection: Connection::Away(now_ms, "Not connected yet.".to_owned()),
            reading: false,
            scroll: 0,
            page: 0,
            length: 0,
            prompt: None,
            notice: None,
            alarmed: false,
        }
    }

    /// From now on nothing is granted.
    pub(super) fn alarm(&mut self) {
        self.alarmed = true;
    }

    /// Takes what the daemon said. An alarm ends the watch.
    pub(super) fn heard(&mut self, news: News) -> Option<Failure> {
        match news {
            News::Connected { daemon, approvals } => {
                self.connection = Connection::Up(daemon);
                Notice::end(&mut self.notice, &Until::Connected);
                self.approvals = approvals;
                let open = self.approvals.iter().filter(|a| is_open(a));
                self.watched
                    .extend(open.map(|approval| approval.id.clone()));
                self.want();
                self.keep_selection();
            }
            News::Changed(approval) => self.changed(*approval),
            News::Shown { id, answer } => {
                if self.selected.as_ref() == Some(&id) {
                    self.shown(id, answer);
                }
            }
            News::Recorded { granted, answer } => {
                self.prompt = None;
                self.want();
                let told = answer.and_then(|approval| {
                    let told = recorded(&approval, granted);
                    let id = approval.id.clone();
                    self.changed(*approval);
                    told.map(|told| (told, id))
                });
                match told {
                    Ok((told, id)) => {
                        self.notice = Some(Notice::new(Tone::Added, &told, Until::Moves(id)));
                    }
                    Err(Failure::Alarm(alarm)) => return Some(Failure::Alarm(alarm)),
                    Err(failure) => self.warn(&in_words(failure)),
                }
            }
            News::Lost(Failure::Alarm(alarm)) => return Some(Failure::Alarm(alarm)),
            News::Lost(failure) => {
                let since = match self.connection {
                    Connection::Up(_) => self.now_ms,
                    Connection::Away(since, _) => since,
                };
                self.connection = Connection::Away(since, in_words(failure));
            }
        }
        None
    }

    fn changed(&mut self, approval: Approval) {
        if is_open(&approval) {
            self.watched.insert(approval.id.clone());
        }
        let known = self.approvals.iter_mut().find(|a| a.id == approval.id);
        if known.as_deref() == Some(&approval) {
            return;
        }
        if self.selected.as_ref() == Some(&approval.id) {
            self.wanted = Wanted::Now;
        }
        match known {
            Some(known) => {
                if known.state != approval.state {
                    Notice::end(&mut self.notice, &Until::Moves(approval.id.clone()));
                }
                *known = approval;
            }
            None => self.approvals.insert(0, approval),
        }
        self.keep_selection();
    }

    fn shown(&mut self, id: String, answer: Result<Box<GetApprovalResponse>, Failure>) {
        if self.wanted == Wanted::Asked {
            self.wanted = Wanted::Nothing;
        }
        let body = match answer {
            Ok(answer) => Body::Shown {
                rows: approvals::body(&answer, Lengths::Folded),
                lines: (0, Vec::new()),
                answer,
            },
            Err(failure) => Body::Failed(in_words(failure)),
        };
        match (&body, &self.detail) {
            // What a person reads is not taken away because it could not be had again.
            (
                Body::Failed(why),
                Some(Detail {
                    body: Body::Shown { .. },
                    ..
                }),
            ) => {
                let why = why.clone();
                self.warn(&why);
            }
            _ => self.detail = Some(Detail { id, body }),
        }
    }

    /// The approvals that are listed.
    pub(super) fn listed(&self) -> Vec<&Approval> {
        let listed = |a: &&Approval| self.ended_too || is_open(a) || self.watched.contains(&a.id);
        self.approvals.iter().filter(listed).collect()
    }

    pub(super) fn selected(&self) -> Option<&Approval> {
        let selected = self.selected.as_ref()?;
        self.approvals.iter().find(|a| a.id == *selected)
    }

    /// Where the selected one is in the list.
    pub(super) fn position(&self) -> usize {
        let is_it = |a: &&Approval| self.selected.as_ref() == Some(&a.id);
        self.listed().iter().position(is_it).unwrap_or(0)
    }

    /// Selects the one that stands `by` further down.
    pub(super) fn move_selection(&mut self, by: isize) {
        let listed = self.listed();
        let last = listed.len().saturating_sub(1);
        let at = self.position().saturating_add_signed(by).min(last);
        let id = listed.get(at).map(|approval| approval.id.clone());
        self.select(id);
    }

    /// What a person reads is never taken away: a selection ends only with what it was of.
    pub(super) fn keep_selection(&mut self) {
        let listed = self.listed();
        let there = |id: &String| listed.iter().any(|approval| approval.id == *id);
        if !self.selected.as_ref().is_some_and(there) {
            let first = listed.first().map(|approval| approval.id.clone());
            self.select(first);
        }
    }

    fn select(&mut self, id: Option<String>) {
        if self.selected != id {
            self.selected = id;
            self.detail = None;
            self.scroll = 0;
            self.reading &= self.selected.is_some();
            self.want();
        }
    }

    pub(super) fn want(&mut self) {
        self.wanted = Wanted::Now;
    }

    /// Of which approval the detail has to be asked for.
    pub(super) fn wanted(&self) -> Option<String> {
        let up = matches!(self.connection, Connection::Up(_));
        (up && self.wanted == Wanted::Now)
            .then(|| self.selected.clone())
            .flatten()
    }

    pub(super) fn asked(&mut self) {
        self.wanted = Wanted::Asked;
    }

    /// The lines of the selected approval for a screen so wide: its heading as of now, then the rest.
    pub(super) fn lines(&mut self, width: usize) -> Vec<Line> {
        let Some(approval) = self.selected() else {
            let none = "No approval waits. This screen shows the next one as it comes.";
            return lay_out(&[Row::words(Tone::Plain, 0, none)], Some(width));
        };
        let mut lines = lay_out(&approvals::heading(approval, self.now_ms), Some(width));
        let of_it = |detail: &&mut Detail| Some(&detail.id) == self.selected.as_ref();
        match self
            .detail
            .as_mut()
            .filter(of_it)
            .map(|detail| &mut detail.body)
        {
            Some(Body::Shown {
                rows,
                lines: laid_out,
                ..
            }) => {
                if laid_out.0 != width {
                    *laid_out = (width, lay_out(rows, Some(width)));
                }
                lines.extend_from_slice(&laid_out.1);
            }
            Some(Body::Failed(why)) => {
                lines.extend(lay_out(&[Row::words(Tone::Danger, 0, why)], Some(width)));
            }
            None => lines.extend(lay_out(
                &[Row::words(Tone::Quiet, 0, "loading")],
                Some(width),
            )),
        }
        lines
    }

    /// Scrolls the detail; it ends where its last line is on the screen.
    pub(super) fn scroll_by(&mut self, by: isize) {
        let last = self.length.saturating_sub(self.page);
        self.scroll = self.scroll.saturating_add_signed(by).min(last);
    }

    /// Asks the person what has to be answered to grant what is shown.
    pub(super) fn begin_grant(&mut self) {
        let begun = self.answerable().and_then(|answer| {
            if self.alarmed {
                return Err(NOT_WITH_AN_ALARM.to_owned());
            }
            Question::about(answer, self.now_ms).map_err(in_words)
        });
        match begun {
            Ok(question) => {
                // The question stands below the dangers, wherever the person had read to.
                self.scroll = 0;
                self.prompt = Some(Prompt::Grant {
                    question,
                    typed: String::new(),
                });
                self.notice = None;
            }
            Err(why) => self.warn(&why),
        }
    }

    /// Asks the person why.
    pub(super) fn begin_deny(&mut self) {
        let begun = self.answerable().and_then(|answer| {
            let approval = answer.approval.as_ref().filter(|a| is_open(a));
            let approval = approval.ok_or("This approval has ended already.")?;
            Ok(Verdict {
                id: approval.id.clone(),
                digest: approval.digest.to_vec(),
                ..Verdict::default()
            })
        });
        match begun {
            Ok(verdict) => {
                self.prompt = Some(Prompt::Deny {
                    verdict,
                    typed: String::new(),
                });
                self.notice = None;
            }
            Err(why) => self.warn(&why),
        }
    }

    /// What is shown, where a verdict on it can be recorded.
    fn answerable(&self) -> Result<&GetApprovalResponse, String> {
        if let Connection::Away(..) = self.connection {
            return Err(AWAY.to_owned());
        }
        match self.detail.as_ref().map(|detail| &detail.body) {
            Some(Body::Shown { answer, .. }) => Ok(answer),
            Some(Body::Failed(why)) => Err(why.clone()),
            None => Err("Nothing is shown to decide on.".to_owned()),
        }
    }

    pub(super) fn warn(&mut self, why: &str) {
        let until = match self.connection {
            Connection::Away(..) if why == AWAY => Until::Connected,
            Connection::Away(..) | Connection::Up(_) => Until::Key,
        };
        self.notice = Some(Notice::new(Tone::Danger, why, until));
    }

    pub(super) fn not_sent(&mut self) {
        self.prompt = None;
        self.warn("No verdict was recorded: sandboxd is slow. Try again.");
    }

    /// What has to be told when the watch ends now.
    pub(super) fn left_open(&self) -> String {
        match &self.prompt {
            Some(Prompt::Sent { id }) => format!(
                "Whether your verdict was recorded is not known. Look with: approver show {id}"
            ),
            Some(Prompt::Grant { .. } | Prompt::Deny { .. }) | None => String::new(),
        }
    }
}

fn in_words(failure: Failure) -> String {
    match failure {
        Failure::Error(text)
        | Failure::Alarm(text)
        | Failure::Refused(text)
        | Failure::Unsuccessful(text)
        | Failure::Ended { told: text, .. } => text.replace('\n', " "),
        Failure::OutputClosed => "The output was closed.".to_owned(),
    }
}

/// The time of day, in UTC.
pub(super) fn clock(ms: i64) -> String {
    UtcMillis::from_unix_ms(ms).to_string()[11..19].to_owned()
}
