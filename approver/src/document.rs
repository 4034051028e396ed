//! What is shown to a person, as rows that know what they mean and how they wrap.
//!
//! Every row escapes what it is given, so that text of an agent or a cluster gets to a terminal through
//! here in visible ASCII only. A row that is too wide goes on under an indent of its own: nothing from
//! elsewhere can begin a line where our own words begin.

use std::io::{self, Write, stderr};

use crate::escape::escape;
use crate::terminal::Look;

/// Fewer characters are never put on a line, however narrow the terminal is.
const LEAST: usize = 8;

/// What a row means. The words say it too; colour follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tone {
    Plain,
    Heading,
    Danger,
    Added,
    Removed,
    Changed,
    Quiet,
}

impl Tone {
    /// The parameters of the escape sequence that switches it on; none for plain text.
    fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "1",
            Self::Danger => "1;31",
            Self::Added => "32",
            Self::Removed => "31",
            Self::Changed => "33",
            Self::Quiet => "2",
        }
    }
}

/// Where a row may be cut when it is too wide.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Between words.
    Words,
    /// Anywhere, and a `\` says so: every character of it counts.
    Anywhere,
}

/// One row, as wide as it is.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    tone: Tone,
    /// Before the text on its first line, and on every other.
    first: String,
    rest: String,
    text: String,
    cut: Cut,
}

impl Row {
    /// Words under an indent.
    pub(crate) fn words(tone: Tone, indent: usize, text: &str) -> Self {
        let indent = " ".repeat(indent);
        Self {
            tone,
            first: indent.clone(),
            rest: indent,
            text: escape(text),
            cut: Cut::Words,
        }
    }

    /// Words behind `lead`, and under their own beginning when they wrap.
    pub(crate) fn hanging(tone: Tone, lead: &str, text: &str) -> Self {
        let first = escape(lead);
        Self {
            tone,
            rest: " ".repeat(first.len()),
            first,
            text: escape(text),
            cut: Cut::Words,
        }
    }

    /// Text that must be told from text that only looks like it: `lead` stands before each of its lines.
    pub(crate) fn exact(tone: Tone, lead: &str, text: &str) -> Self {
        let lead = escape(lead);
        Self {
            tone,
            rest: lead.clone(),
            first: lead,
            text: escape(text),
            cut: Cut::Anywhere,
        }
    }

    pub(crate) fn heading(text: &str) -> Self {
        Self::words(Tone::Heading, 0, text)
    }

    pub(crate) fn blank() -> Self {
        Self::words(Tone::Plain, 0, "")
    }

    fn lay_out(&self, width: Option<usize>, lines: &mut Vec<Line>) {
        let crowded = |width| self.first.len() + LEAST > width;
        if matches!(self.cut, Cut::Words) && width.is_some_and(crowded) && !self.first.is_empty() {
            // What stands before the text leaves no room for it, so it wraps with the text.
            let row = Self {
                first: String::new(),
                rest: " ".repeat(4),
                text: format!("{}{}", self.first, self.text),
                ..self.clone()
            };
            row.lay_out(width, lines);
            return;
        }
        let (mut lead, mut left) = (&self.first, self.text.as_str());
        loop {
            let room = width.map(|width| width.saturating_sub(lead.len()).max(LEAST));
            let (now, mark, later) = match room {
                Some(room) if left.len() > room => self.cut.split(left, room),
                Some(_) | None => (left, "", None),
            };
            let text = format!("{lead}{now}{mark}");
            lines.push(Line {
                tone: self.tone,
                text,
            });
            match later {
                Some(later) => (lead, left) = (&self.rest, later),
                None => return,
            }
        }
    }
}

impl Cut {
    /// The part of `text`, which is longer than `room`, that goes on this line; a mark; and the rest.
    fn split(self, text: &str, room: usize) -> (&str, &'static str, Option<&str>) {
        // The text is ASCII, so every index is between characters.
        match self {
            Self::Words => match text[..=room].rfind(' ') {
                Some(at) if at > 0 => (&text[..at], "", Some(&text[at + 1..])),
                Some(_) | None => (&text[..room], "", Some(&text[room..])),
            },
            Self::Anywhere => (&text[..room - 1], "\\", Some(&text[room - 1..])),
        }
    }
}

/// One line of a terminal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Line {
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

/// The rows as lines of at most `width` characters; each row on one line without a width.
pub(crate) fn lay_out(rows: &[Row], width: Option<usize>) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        row.lay_out(width, &mut lines);
    }
    lines
}

/// Prints the rows for whoever reads `out`.
pub(crate) fn print(rows: &[Row], look: Look, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    for row in rows {
        row.lay_out(look.width, &mut lines);
        for Line { tone, text } in lines.drain(..) {
            match tone.sgr() {
                sgr if look.colour && !sgr.is_empty() => {
                    writeln!(out, "\x1b[{sgr}m{text}\x1b[0m")?;
                }
                _ => writeln!(out, "{text}")?,
            }
        }
    }
    Ok(())
}

/// Tells something beside the output, on standard error, as wide as that is.
pub(crate) fn tell(tone: Tone, text: &str) -> io::Result<()> {
    let rows: Vec<Row> = text
        .split('\n')
        .map(|line| Row::words(tone, 0, line))
        .collect();
    print(&rows, Look::of_stderr(), &mut stderr().lock())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(row: &Row, width: usize) -> Vec<String> {
        let lines = lay_out(std::slice::from_ref(row), Some(width));
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn words_wrap_under_their_own_beginning() {
        let row = Row::hanging(Tone::Plain, "  why  ", "one two three four");
        assert_eq!(
            texts(&row, 16),
            ["  why  one two", "       three", "       four"]
        );
        assert_eq!(texts(&row, 80), ["  why  one two three four"]);
        let long = Row::words(Tone::Plain, 2, "abcdefghijklmnop");
        assert_eq!(texts(&long, 12), ["  abcdefghij", "  klmnop"]);
    }

    #[test]
    fn a_lead_that_leaves_no_room_wraps_with_its_words() {
        let row = Row::hanging(Tone::Plain, "a very long lead  ", "and words");
        assert_eq!(texts(&row, 16), ["a very long lead", "     and words"]);
    }

    #[test]
    fn a_line_that_counts_to_the_letter_carries_its_mark_to_each_of_its_lines() {
        let row = Row::exact(Tone::Added, "    +", "aaaaaaaaaa -bbbbbbbb");
        assert_eq!(texts(&row, 16), ["    +aaaaaaaaaa\\", "    + -bbbbbbbb"]);
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let value = "x".repeat(1000);
        for width in 1..200 {
            let row = Row::exact(Tone::Plain, "  ", &value);
            let marks: &[char] = &['\\', ' '];
            let shown: usize = texts(&row, width)
                .iter()
                .map(|line| line.trim_matches(marks).len())
                .sum();
            assert_eq!(shown, 1000, "at {width}");
        }
    }

    #[test]
    fn a_row_lets_nothing_through_that_a_terminal_acts_on() {
        let hostile = "a\nb\u{1b}[2J\u{202e}\u{2028}\u{430}\t";
        for row in [
            Row::words(Tone::Plain, 0, hostile),
            Row::hanging(Tone::Plain, hostile, hostile),
            Row::exact(Tone::Plain, hostile, hostile),
        ] {
            let mut out = Vec::new();
            let look = Look {
                width: None,
                colour: false,
            };
            print(&[row], look, &mut out).unwrap();
            let visible = |b: &u8| (b' '..=b'~').contains(b);
            assert_eq!(out.iter().filter(|b| !visible(b)).count(), 1, "{out:?}");
        }
    }

    #[test]
    fn colour_adds_nothing_to_the_words() {
        let row = [Row::words(Tone::Danger, 2, "destroys it")];
        let printed = |colour| {
            let mut out = Vec::new();
            let look = Look {
                width: Some(80),
                colour,
            };
            print(&row, look, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(false), "  destroys it\n");
        assert_eq!(printed(true), "\x1b[1;31m  destroys it\x1b[0m\n");
    }
}
