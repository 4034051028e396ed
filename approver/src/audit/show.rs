//! Events for a reader: time, event, what.

use std::io::{self, Write};

use sandbox_core::audit::{Record, Value};
use sandbox_core::ids::RequestId;

/// Prints events under a heading for each day; nothing is cut off.
pub(super) struct Table {
    one_request: bool,
    day: String,
    request: Option<RequestId>,
}

impl Table {
    pub(super) fn new(one_request: bool) -> Self {
        Self {
            one_request,
            day: String::new(),
            request: None,
        }
    }

    pub(super) fn show(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let time = record.time.to_string();
        let (day, time) = time.split_at(10);
        if self.one_request && self.request != record.request_id {
            self.request = record.request_id;
            let id = record
                .request_id
                .map_or_else(String::new, |id| id.to_string());
            let by = record
                .principal
                .as_ref()
                .map_or_else(String::new, |name| format!(", by {name}"));
            writeln!(out, "Request {id}{by}")?;
        }
        if self.day != day {
            day.clone_into(&mut self.day);
            writeln!(out, "{day} UTC")?;
        }
        let time = time.trim_matches(['T', 'Z']);
        writeln!(
            out,
            "{}",
            format!(
                "{time}  {:<24} {}",
                record.event.as_str(),
                self.what(record)
            )
            .trim_end()
        )
    }

    fn what(&self, record: &Record) -> String {
        let mut what = Vec::new();
        if !self.one_request {
            what.extend(record.request_id.map(|id| format!("request={id}")));
            what.extend(
                record
                    .principal
                    .as_ref()
                    .map(|name| format!("principal={name}")),
            );
        }
        what.extend(
            record
                .fields
                .iter()
                .map(|(key, value)| format!("{}={}", word(key), worded(value))),
        );
        what.join(" ")
    }
}

fn worded(value: &Value) -> String {
    match value {
        Value::Text(text) => word(text),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::List(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// Text that can stand alone does; all other text stands in quotes with its controls and everything
/// outside ASCII escaped.
fn word(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\"\\=".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_one_word_of_one_line() {
        assert_eq!(word("demo-app"), "demo-app");
        assert_eq!(word("two words"), "\"two words\"");
        assert_eq!(word(""), "\"\"");
        assert_eq!(word("a=b"), "\"a=b\"");
        assert_eq!(word("x\n09:30  tool.result"), "\"x\\n09:30  tool.result\"");
        assert_eq!(
            word("\u{1b}[2J\u{202e}dеmo"),
            "\"\\u001b[2J\\u202ed\\u0435mo\""
        );
    }
}
