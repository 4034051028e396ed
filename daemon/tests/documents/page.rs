//! A Markdown page: its tables, its numbered items, and the tests it names.

use crate::sources;

/// One page, its code blocks left out.
pub(crate) struct Page {
    pub(crate) path: String,
    lines: Vec<String>,
}

/// A row of a table whose first cell begins with a name in backticks.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        let path = path.to_owned();
        Self {
            lines: prose(&sources::read(&path)),
            path,
        }
    }

    /// `None` where there is no such file.
    pub(crate) fn find(path: &str) -> Option<Self> {
        sources::exists(path).then(|| Self::read(path))
    }

    /// A page that is in no file.
    pub(crate) fn of(text: &str) -> Self {
        Self {
            path: String::new(),
            lines: prose(text),
        }
    }

    pub(crate) fn test_references(&self) -> Vec<String> {
        self.lines
            .iter()
            .flat_map(|line| test_references(line))
            .collect()
    }

    /// Lines of tables, without heads and the rules under them.
    pub(crate) fn table_lines(&self) -> impl Iterator<Item = &str> {
        let is_rule = |line: &str| line.starts_with("|---");
        self.lines
            .iter()
            .enumerate()
            .map(move |(n, line)| (line.as_str(), self.lines.get(n + 1)))
            .filter(move |(line, next)| {
                line.starts_with('|') && !is_rule(line) && !next.is_some_and(|l| is_rule(l))
            })
            .map(|(line, _)| line)
    }

    /// The rows under a heading, up to the next heading of its level or above.
    pub(crate) fn rows_under(&self, heading: &str) -> Vec<Row> {
        let rows: Vec<Row> = self
            .section(|title| title == heading)
            .filter_map(row)
            .collect();
        assert!(
            !rows.is_empty(),
            "{} has no table under {heading}",
            self.path
        );
        rows
    }

    /// Items such as `1. …` under headings that contain `word`, each with the lines that go on.
    pub(crate) fn numbered_items_under(&self, word: &str) -> Vec<String> {
        let mut items: Vec<String> = Vec::new();
        let mut open = false;
        for line in self.section(|title| title.contains(word)) {
            let number = line.split_once(". ").map(|(number, _)| number);
            if number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
                items.push(line.to_owned());
                open = true;
            } else if line.trim().is_empty() || line.starts_with('#') {
                open = false;
            } else if let (true, Some(item)) = (open, items.last_mut()) {
                item.push_str(line);
            }
        }
        items
    }

    fn section(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        let mut inside = 0;
        self.lines.iter().map(String::as_str).filter(move |line| {
            let level = line.bytes().take_while(|b| *b == b'#').count();
            if level > 0 && (inside == 0 || level <= inside) {
                let title = line[level..].trim();
                inside = if wanted(title) { level } else { 0 };
            }
            inside > 0
        })
    }
}

/// The lines outside code blocks.
fn prose(text: &str) -> Vec<String> {
    let mut in_code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    });
    lines.map(str::to_owned).collect()
}

fn row(line: &str) -> Option<Row> {
    let cells = line.strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<String> = cells.split('|').map(|c| c.trim().to_owned()).collect();
    let name = cells[0].strip_prefix('`')?.split('`').next()?.to_owned();
    Some(Row { name, cells })
}

/// What stands in backticks.
pub(crate) fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// `file.rs::test`, `script/with/a/path::function` and `verify::check`.
pub(crate) fn test_references(line: &str) -> Vec<String> {
    let named = |span: &&str| {
        span.split_once("::").is_some_and(|(file, name)| {
            let place = sources::is_rust(file) || file.contains('/') || file == "verify";
            place
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        })
    };
    // The words that describe the notation are no reference.
    let placeholder = |span: &&str| ["file::test", "verify::NAME"].contains(span);
    spans(line)
        .filter(|span| named(span) && !placeholder(span))
        .map(str::to_owned)
        .collect()
}

/// Whether it could be the name of a test: a sentence has more than three words.
pub(crate) fn is_sentence(span: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    span.bytes().all(word) && span.matches('_').count() >= 3
}
