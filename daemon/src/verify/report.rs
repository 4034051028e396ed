//! What was tried and what came back, a line a try; and the sum, which is the exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

/// The longest of what came back that is worth a line.
const MAX_CHARS: usize = 500;

/// Characters that make a terminal show others in another order.
const CONFUSING: &[char] = &[
    '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}',
    '\u{2067}', '\u{2068}', '\u{2069}',
];

/// One try.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    check: String,
    ok: bool,
    tried: String,
    came_back: String,
    elapsed_ms: u64,
}

/// The tries of one check, in order.
pub(super) struct Tries {
    check: String,
    lines: Vec<Line>,
    since: Instant,
}

impl Tries {
    pub(super) fn of(check: &str) -> Self {
        Self {
            check: check.to_owned(),
            lines: Vec::new(),
            since: Instant::now(),
        }
    }

    /// Adds a try: what came back where it is as it should be, or where it is not. It took the time
    /// since the one before.
    pub(super) fn record(
        &mut self,
        tried: impl Into<String>,
        came_back: Result<impl Into<String>, impl Into<String>>,
    ) {
        let (ok, came_back) = match came_back {
            Ok(text) => (true, text.into()),
            Err(text) => (false, text.into()),
        };
        let elapsed = self.since.elapsed().as_millis();
        self.since = Instant::now();
        self.lines.push(Line {
            check: self.check.clone(),
            ok,
            tried: tried.into(),
            came_back: clip(&came_back),
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
        });
    }

    /// The lines so far, as they are.
    pub(super) fn lines(self) -> Vec<Line> {
        self.lines
    }

    /// The lines. A check that was broken off, or that tried nothing, has failed.
    pub(super) fn end(mut self, outcome: anyhow::Result<()>) -> Vec<Line> {
        match outcome {
            Err(e) => self.record(
                "carry the check out",
                Err::<String, _>(format!("it could not be: {e:#}")),
            ),
            Ok(()) if self.lines.is_empty() => {
                self.record("carry the check out", Err::<String, _>("nothing was tried"));
            }
            Ok(()) => {}
        }
        self.lines
    }
}

/// Prints lines as they come, or all of them as JSON at the end.
pub(super) struct Report {
    json: bool,
    lines: Vec<Line>,
    since: Instant,
}

#[derive(Serialize)]
struct Sum<'a> {
    ok: bool,
    passed: usize,
    failed: usize,
    elapsed_ms: u64,
    lines: &'a [Line],
}

impl Report {
    pub(super) fn begin(json: bool) -> Self {
        Self {
            json,
            lines: Vec::new(),
            since: Instant::now(),
        }
    }

    pub(super) fn add(&mut self, lines: Vec<Line>) -> io::Result<()> {
        if !self.json {
            let mut out = io::stdout().lock();
            for line in &lines {
                writeln!(out, "{}", shown(line))?;
            }
            out.flush()?;
        }
        self.lines.extend(lines);
        Ok(())
    }

    /// Prints the sum. Success only when every try passed, and there was one.
    pub(super) fn end(self) -> anyhow::Result<ExitCode> {
        let sum = self.sum();
        let mut out = io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&sum)?)?;
        } else {
            writeln!(out, "in {}", duration(sum.elapsed_ms))?;
            writeln!(out, "{} passed, {} failed", sum.passed, sum.failed)?;
        }
        Ok(if sum.ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn sum(&self) -> Sum<'_> {
        let failed = self.lines.iter().filter(|line| !line.ok).count();
        Sum {
            ok: failed == 0 && !self.lines.is_empty(),
            passed: self.lines.len() - failed,
            failed,
            elapsed_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            lines: &self.lines,
        }
    }
}

fn shown(line: &Line) -> String {
    let mark = if line.ok { "ok" } else { "FAILED" };
    format!(
        "{mark:<6}  {:<15}  {}: {} ({})",
        line.check,
        line.tried,
        line.came_back,
        duration(line.elapsed_ms)
    )
}

fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// What several tries of one kind came to: the first that failed, with its name, or what the first one
/// got and that all of them did.
pub(super) fn of_all(
    outcomes: Vec<(impl std::fmt::Display, Result<String, String>)>,
) -> Result<String, String> {
    let count = outcomes.len();
    let mut first = None;
    for (name, outcome) in outcomes {
        match outcome {
            Ok(got) => {
                first.get_or_insert(got);
            }
            Err(e) => return Err(format!("{name}: {e}")),
        }
    }
    match (first, count) {
        (None, _) => Err("nothing was tried".to_owned()),
        (Some(got), 1) => Ok(got),
        (Some(got), _) => Ok(format!("{count} times: {got}")),
    }
}

/// One line, whatever was said, and not an endless one.
fn clip(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::with_capacity(text.len());
    for c in text.chars().take(MAX_CHARS) {
        if c.is_control() || CONFUSING.contains(&c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    match text.chars().count() {
        all if all > MAX_CHARS => format!("{shown}… ({all} characters in all)"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(outcomes: &[Result<&str, &str>], end: anyhow::Result<()>) -> Report {
        let mut tries = Tries::of("egress");
        for outcome in outcomes {
            tries.record("dial", *outcome);
        }
        let mut report = Report::begin(true);
        report.add(tries.end(end)).unwrap();
        report
    }

    #[test]
    fn only_a_report_whose_every_try_passed_is_a_success() {
        let sum = |report: Report| (report.sum().ok, report.sum().failed);
        assert_eq!(sum(tries(&[Ok("blocked")], Ok(()))), (true, 0));
        assert_eq!(
            sum(tries(&[Ok("blocked"), Err("PONG")], Ok(()))),
            (false, 1)
        );
        assert_eq!(sum(Report::begin(true)), (false, 0));
    }

    #[test]
    fn a_check_that_was_broken_off_or_tried_nothing_has_failed() {
        let broken = tries(&[Ok("blocked")], Err(anyhow::anyhow!("no cluster answers")));
        assert_eq!((broken.sum().passed, broken.sum().failed), (1, 1));
        assert_eq!(
            broken.lines[1].came_back,
            "it could not be: no cluster answers"
        );
        let empty = tries(&[], Ok(()));
        assert_eq!(empty.lines[0].came_back, "nothing was tried");
        assert!(!empty.sum().ok);
    }

    #[test]
    fn whatever_came_back_stays_on_its_line() {
        let mut all = Tries::of("egress");
        let hostile = format!("a\n\tb\u{2028}c\u{1b}[2J\u{202e}{}", "x".repeat(600));
        all.record("dial", Err::<&str, _>(hostile));
        let shown = shown(&all.end(Ok(()))[0]);
        let expected = "FAILED  egress           dial: a b c\\u{1b}[2J\\u{202e}xxx";
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.contains("characters in all)"), "{shown}");
    }

    #[test]
    fn one_of_several_that_failed_is_the_one_that_is_told() {
        let ok = || Ok("403".to_owned());
        assert_eq!(
            of_all(vec![("a", ok()), ("b", ok())]).unwrap(),
            "2 times: 403"
        );
        let failed = of_all(vec![("a", ok()), ("b", Err("200".to_owned())), ("c", ok())]);
        assert_eq!(failed.unwrap_err(), "b: 200");
        assert!(of_all(Vec::<(&str, _)>::new()).is_err());
    }
}
