//! The model on the screen. Nothing but visible ASCII gets there: every text comes through a row.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Drawn, Text};

use super::keys;
use super::model::{Connection, Model, Prompt, clock};
use crate::approvals::{left, state_word, waiting, what};
use crate::document::{Line, Row, Tone, lay_out};
use crate::escape::escape;
use crate::terminal;

/// The most approvals that are listed above the detail.
const LISTED: usize = 6;
/// The most lines a notice takes.
const NOTICE: usize = 6;
/// Less cannot show what is to be decided.
const LEAST: (u16, u16) = (40, 12);

/// Whether colours are used. The words say the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Colours {
    On,
    Off,
}

impl Colours {
    pub(super) fn wanted() -> Self {
        if terminal::colour_is_wanted() {
            Self::On
        } else {
            Self::Off
        }
    }

    fn style(self, tone: Tone) -> Style {
        let (colour, modifier) = match tone {
            Tone::Plain => (Color::Reset, Modifier::empty()),
            Tone::Heading => (Color::Reset, Modifier::BOLD),
            Tone::Danger => (Color::Red, Modifier::BOLD),
            Tone::Added => (Color::Green, Modifier::empty()),
            Tone::Removed => (Color::Red, Modifier::empty()),
            Tone::Changed => (Color::Yellow, Modifier::empty()),
            Tone::Quiet => (Color::Reset, Modifier::DIM),
        };
        let style = Style::new().add_modifier(modifier);
        match self {
            Self::On => style.fg(colour),
            Self::Off => style,
        }
    }
}

/// Draws all of it, and tells the model how much of the detail there is room for.
pub(super) fn draw(model: &mut Model, colours: Colours, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let told = format!("Too small: {}x{} at least.", LEAST.0, LEAST.1);
        frame.render_widget(Text::raw(told), area);
        return;
    }
    let width = usize::from(area.width);
    let list = list(model, colours, width);
    let asked = prompt(model, width);
    let notice = notice(model, width);
    let lines = |count: usize| Constraint::Length(u16::try_from(count).unwrap_or(u16::MAX));
    let [
        title_at,
        list_at,
        rule_at,
        detail_at,
        asked_at,
        notice_at,
        help_at,
    ] = Layout::vertical([
        lines(1),
        lines(list.len()),
        lines(1),
        Constraint::Min(3),
        lines(asked.len()),
        lines(notice.len()),
        lines(1),
    ])
    .areas(area);

    let detail = model.lines(width);
    model.length = detail.len();
    model.page = usize::from(detail_at.height);
    model.scroll_by(0);
    let shown: Vec<Line> = detail
        .into_iter()
        .skip(model.scroll)
        .take(model.page)
        .collect();

    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let title = format!("{:<width$}", cut(&title(model), width));
    frame.render_widget(Drawn::styled(title, reversed), title_at);
    frame.render_widget(Text::from(list), list_at);
    frame.render_widget(Drawn::raw(rule(model, width)), rule_at);
    frame.render_widget(text(&shown, colours), detail_at);
    frame.render_widget(text(&asked, colours), asked_at);
    frame.render_widget(text(&notice, colours), notice_at);
    let help = format!("{:<width$}", cut(keys::help(model), width));
    frame.render_widget(Drawn::styled(help, reversed), help_at);
    if let Some(last) = asked.last().filter(|_| is_typed(model)) {
        frame.set_cursor_position(after(last, asked_at));
    }
}

fn text(lines: &[Line], colours: Colours) -> Text<'static> {
    let drawn = |line: &Line| Drawn::styled(line.text.clone(), colours.style(line.tone));
    lines.iter().map(drawn).collect()
}

fn after(last: &Line, area: Rect) -> Position {
    let column = u16::try_from(last.text.len()).unwrap_or(u16::MAX);
    let x = area
        .x
        .saturating_add(column)
        .min(area.right().saturating_sub(1));
    Position::new(x, area.bottom().saturating_sub(1))
}

fn title(model: &Model) -> String {
    let listed: Vec<_> = model.listed().into_iter().cloned().collect();
    let wait = match waiting(&listed) {
        1 => "1 waits".to_owned(),
        some => format!("{some} wait"),
    };
    let now = clock(model.now_ms);
    let connection = match &model.connection {
        Connection::Up(daemon) => daemon.clone(),
        Connection::Away(since, _) => {
            format!("NOT CONNECTED since {}", clock(*since))
        }
    };
    let alarm = if model.alarmed {
        "ALARM, quit to read it | "
    } else {
        ""
    };
    format!("approver watch | {alarm}{wait} | {connection} | {now} UTC")
}

/// The approvals around the selected one, a line each.
fn list(model: &Model, colours: Colours, width: usize) -> Vec<Drawn<'static>> {
    let listed = model.listed();
    let position = model.position();
    let room = if model.reading { 1 } else { LISTED };
    let first = position
        .saturating_sub(room / 2)
        .min(listed.len().saturating_sub(room));
    let first = if model.reading { position } else { first };
    let shown = listed.iter().enumerate().skip(first).take(room);
    let lines = shown.map(|(at, approval)| {
        let mark = if at == position { '>' } else { ' ' };
        let line = format!(
            "{mark} {:<12}  {:<9}  {:<11}  {}: {}",
            escape(&approval.id),
            state_word(approval),
            if crate::approvals::is_open(approval) {
                left(approval, model.now_ms)
            } else {
                String::new()
            },
            escape(&approval.root),
            escape(&what(approval)),
        );
        let tone = match (crate::approvals::is_open(approval), approval.dangers) {
            (false, _) => Tone::Quiet,
            (true, 0) => Tone::Plain,
            (true, _) => Tone::Danger,
        };
        Drawn::styled(cut(&line, width), colours.style(tone))
    });
    lines.collect()
}

/// Between list and detail: which part of the detail is shown.
fn rule(model: &Model, width: usize) -> String {
    let of = listed_of(model);
    let part = if model.length > model.page {
        let last = (model.scroll + model.page).min(model.length);
        format!(" lines {} to {last} of {} ", model.scroll + 1, model.length)
    } else {
        String::new()
    };
    let dashes = "-".repeat(width.saturating_sub(of.len() + part.len() + 4));
    cut(&format!("--{of}{dashes}{part}--"), width)
}

fn listed_of(model: &Model) -> String {
    let listed = model.listed().len();
    if listed > LISTED || model.reading && listed > 1 {
        format!(" {} of {listed} ", model.position() + 1)
    } else {
        String::new()
    }
}

fn prompt(model: &Model, width: usize) -> Vec<Line> {
    let mut rows = Vec::new();
    match &model.prompt {
        None => {}
        Some(Prompt::Sent { id }) => {
            let told = format!("Recording your verdict on {id}");
            rows.push(Row::words(Tone::Plain, 0, &told));
        }
        Some(Prompt::Grant { question, typed }) => {
            rows.push(titled(&format!("GRANT {}", question.id()), width));
            rows.extend(question.rows());
            rows.push(Row::exact(Tone::Heading, "> ", typed));
        }
        Some(Prompt::Deny { verdict, typed }) => {
            let title = format!("DENY {}: why? The agent is told.", verdict.id);
            rows.push(titled(&title, width));
            rows.push(Row::exact(Tone::Heading, "> ", typed));
        }
    }
    lay_out(&rows, Some(width))
}

/// A title in a rule, so that the question is told from what it is about.
fn titled(title: &str, width: usize) -> Row {
    let dashes = "-".repeat(width.saturating_sub(title.len() + 4));
    Row::heading(&format!("-- {title} {dashes}"))
}

fn is_typed(model: &Model) -> bool {
    matches!(
        model.prompt,
        Some(Prompt::Grant { .. } | Prompt::Deny { .. })
    )
}

fn notice(model: &Model, width: usize) -> Vec<Line> {
    let away = match &model.connection {
        Connection::Away(_, why) => {
            let told = format!("{why} Trying again every second.");
            Some(Row::words(Tone::Danger, 0, &told))
        }
        Connection::Up(_) => None,
    };
    let rows: Vec<Row> = model
        .notice
        .iter()
        .map(|notice| notice.row.clone())
        .chain(away)
        .collect();
    let mut lines = lay_out(&rows, Some(width));
    lines.truncate(NOTICE);
    lines
}

/// As much as there is room for; the detail has all of it.
fn cut(line: &str, width: usize) -> String {
    if line.len() <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(3)).collect();
    format!("{kept}...")
}
