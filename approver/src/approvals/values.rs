//! One value before and after.

use super::standing::grouped;
use crate::document::{Row, Tone};
use crate::escape::escape;

/// Whether long values are shown whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Lengths {
    /// Nothing is cut.
    Whole,
    /// Values beyond [`LONGEST`] are folded around where they differ, with their length said.
    Folded,
}

/// The longest value that is shown whole where long ones are folded, and how much of a longer one is.
pub(super) const LONGEST: usize = 400;
const WINDOW: usize = 240;
/// How much of what is alike stands before the first difference.
const BEFORE: usize = 40;
/// Values that together are longer get a line each.
const SHORT: usize = 60;
/// Beginnings and ends shorter than this are seen to be alike without being told.
const WORTH_TELLING: usize = 40;

/// What the daemon sends in the place of a value that is not there.
pub(super) const NONE: &str = "(none)";
/// And of one that Terraform learns while it applies.
pub(super) const UNKNOWN: &str = "(known after apply)";

/// A value that changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) name: &'a str,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
    /// What else there is to say.
    pub(super) note: &'a str,
    /// It stands out.
    pub(super) alarming: bool,
}

impl Pair<'_> {
    pub(super) fn rows(&self, indent: usize, lengths: Lengths, rows: &mut Vec<Row>) {
        let &Self {
            name,
            before,
            after,
            note,
            alarming,
        } = self;
        let (sign, tone) = match (before, after) {
            (NONE, _) => ('+', Tone::Added),
            (_, NONE) => ('-', Tone::Removed),
            _ => ('~', Tone::Changed),
        };
        let tone = if alarming { Tone::Danger } else { tone };
        let lead = format!("{}{sign} ", " ".repeat(indent));
        let length: usize = [before, after].iter().map(|s| escape(s).len()).sum();
        // Behind a long name a value may stand on a line of its own, but none is cut between its words.
        let one_word = |value| [NONE, UNKNOWN].contains(&value) || !value.contains(' ');
        let whole = escape(name).len() + length <= SHORT || (one_word(before) && one_word(after));
        if length <= SHORT && whole {
            let values = match sign {
                '+' => after.to_owned(),
                '-' => before.to_owned(),
                _ => format!("{before} -> {after}"),
            };
            rows.push(Row::hanging(
                tone,
                &lead,
                &format!("{name}: {values}{note}"),
            ));
            return;
        }
        rows.push(Row::hanging(tone, &lead, &format!("{name}:{note}")));
        let alike = Alike::of(before, after);
        let indent = " ".repeat(indent + 4);
        for (sign, value, tone) in [('-', before, Tone::Removed), ('+', after, Tone::Added)] {
            if value == NONE {
                continue;
            }
            let lead = format!("{indent}{sign} ");
            match alike.folded(value).filter(|_| lengths == Lengths::Folded) {
                None => rows.push(Row::exact(tone, &lead, value)),
                Some(part) => {
                    rows.push(Row::exact(tone, &lead, &part));
                    let length = grouped(value.chars().count());
                    let told =
                        format!("folded: {length} characters in all, whole in approver show");
                    rows.push(Row::hanging(Tone::Quiet, &format!("{indent}  "), &told));
                }
            }
        }
        if ![before, after].contains(&NONE) {
            rows.extend(
                alike
                    .told()
                    .map(|told| Row::hanging(Tone::Quiet, &indent, &told)),
            );
        }
    }
}

/// How much two values have in common, in characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Alike {
    at_start: usize,
    at_end: usize,
}

impl Alike {
    fn of(before: &str, after: &str) -> Self {
        let same = |(a, b): &(char, char)| a == b;
        let at_start = before.chars().zip(after.chars()).take_while(same).count();
        let shorter = before.chars().count().min(after.chars().count());
        let ends = before.chars().rev().zip(after.chars().rev());
        let at_end = ends.take(shorter - at_start).take_while(same).count();
        Self { at_start, at_end }
    }

    /// In words, where it is long enough to be hard to see.
    fn told(self) -> Option<String> {
        let Self { at_start, at_end } = self;
        let part = |count: usize, which| {
            (count >= WORTH_TELLING).then(|| format!("the {which} {} characters", grouped(count)))
        };
        let parts: Vec<String> = [part(at_start, "first"), part(at_end, "last")]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| format!("{} are the same", parts.join(" and ")))
    }

    /// Of a long value, the part around where it differs.
    fn folded(self, value: &str) -> Option<String> {
        let length = value.chars().count();
        if length <= LONGEST {
            return None;
        }
        let start = self.at_start.saturating_sub(BEFORE).min(length - WINDOW);
        let window: String = value.chars().skip(start).take(WINDOW).collect();
        let left_out = |count: usize| match count {
            0 => String::new(),
            some => format!("[{} characters]", grouped(some)),
        };
        let (before, after) = (left_out(start), left_out(length - WINDOW - start));
        Some(format!("{before}{window}{after}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::lay_out;

    fn shown(before: &str, after: &str, lengths: Lengths) -> Vec<String> {
        let mut rows = Vec::new();
        let pair = Pair {
            name: "a.b",
            before,
            after,
            note: "",
            alarming: false,
        };
        pair.rows(2, lengths, &mut rows);
        lay_out(&rows, None).into_iter().map(|l| l.text).collect()
    }

    #[test]
    fn short_values_stand_on_one_line() {
        let whole = |before, after| shown(before, after, Lengths::Whole);
        assert_eq!(whole("2", "3"), ["  ~ a.b: 2 -> 3"]);
        assert_eq!(whole("(none)", "\"x\""), ["  + a.b: \"x\""]);
        assert_eq!(whole("\"x\"", "(none)"), ["  - a.b: \"x\""]);
        assert_eq!(
            whole("(sensitive)", "(sensitive)"),
            ["  ~ a.b: (sensitive) -> (sensitive)"]
        );
    }

    #[test]
    fn a_long_name_leaves_short_values_together_unless_a_line_could_end_in_them() {
        let shown = |before, after| {
            let mut rows = Vec::new();
            let name = "spec[0].template[0].spec[0].container[0].readiness_probe[0].x";
            let pair = Pair {
                name,
                before,
                after,
                note: "",
                alarming: false,
            };
            pair.rows(2, Lengths::Whole, &mut rows);
            lay_out(&rows, None).len()
        };
        assert_eq!(shown("0", NONE), 1);
        assert_eq!(shown("\"File\"", UNKNOWN), 1);
        assert_eq!(shown("\"a b\"", "\"a  b\""), 3);
        assert_eq!(shown("\"a\"", &format!("\"{}\"", "b".repeat(60))), 3);
    }

    #[test]
    fn long_values_stand_one_below_the_other_with_what_they_share() {
        let (a, z) = ("a".repeat(50), "z".repeat(45));
        assert_eq!(
            shown(&format!("{a}1{z}"), &format!("{a}2{z}"), Lengths::Whole),
            [
                "  ~ a.b:".to_owned(),
                format!("      - {a}1{z}"),
                format!("      + {a}2{z}"),
                "      the first 50 characters and the last 45 characters are the same".to_owned(),
            ]
        );
    }

    #[test]
    fn what_is_alike_is_not_counted_twice() {
        assert_eq!(
            Alike::of("aaaa", "aaaaaa"),
            Alike {
                at_start: 4,
                at_end: 0
            }
        );
        assert_eq!(
            Alike::of("xab", "xb"),
            Alike {
                at_start: 1,
                at_end: 1
            }
        );
    }

    #[test]
    fn a_value_of_two_megabytes_is_whole_or_folded_around_its_change() {
        let (before, after) = ("x".repeat(2_000_000), "x".repeat(1_999_999));
        let changed = format!("{}Y{}", &after[..1_500_000], &after[1_500_000..]);
        let whole = shown(&before, &changed, Lengths::Whole);
        assert!(whole[1].ends_with(&before) && whole[2].ends_with(&changed));
        let folded = shown(&before, &changed, Lengths::Folded);
        assert_eq!(
            folded[3],
            format!(
                "      + [1,499,960 characters]{}Y{}[499,800 characters]",
                "x".repeat(40),
                "x".repeat(199)
            )
        );
        assert_eq!(
            folded[4],
            "        folded: 2,000,000 characters in all, whole in approver show"
        );
    }

    #[test]
    fn a_name_in_other_letters_is_told_apart() {
        let mut rows = Vec::new();
        let pair = Pair {
            name: "w\u{435}b",
            before: "1",
            after: "2",
            note: "",
            alarming: false,
        };
        pair.rows(0, Lengths::Whole, &mut rows);
        assert_eq!(lay_out(&rows, None)[0].text, "~ w\\u{435}b: 1 -> 2");
    }
}
