//! Where an approval stands, in words.

use sandbox_core::audit::UtcMillis;
use sandbox_proto::approver::v1::Approval;
use sandbox_proto::approver::v1::approval::State;

/// Its state; `None` for one that this program does not know.
pub(super) fn state(approval: &Approval) -> Option<State> {
    State::try_from(approval.state).ok()
}

/// Its state in one word.
pub(crate) fn state_word(approval: &Approval) -> &'static str {
    match state(approval) {
        Some(State::Pending) => "pending",
        Some(State::Granted) => "granted",
        Some(State::Consumed) => "consumed",
        Some(State::Denied) => "denied",
        Some(State::Expired) => "expired",
        Some(State::Cancelled) => "cancelled",
        Some(State::Unspecified) | None => "unknown",
    }
}

/// Whether it can still come to an apply that has not begun.
pub(crate) fn is_open(approval: &Approval) -> bool {
    matches!(state(approval), Some(State::Pending | State::Granted))
}

/// Where it stands, as the end of a sentence that begins with its id.
pub(crate) fn told_state(approval: &Approval, now_ms: i64) -> String {
    let until = time(approval.expires_ms);
    let ended = time(approval.ended_ms);
    let left = left(approval, now_ms);
    match state(approval) {
        Some(State::Pending) => format!("pending, {left} (until {until})"),
        Some(State::Granted) => format!("granted and not consumed yet, {left} (until {until})"),
        Some(State::Consumed) => match approval.outcome.as_str() {
            "" => format!("consumed at {ended}, and its apply runs"),
            outcome => format!(
                "consumed at {ended}, and its apply {}",
                told_outcome(outcome)
            ),
        },
        Some(State::Denied) => format!("denied at {ended}"),
        Some(State::Expired) => format!("expired at {ended}"),
        Some(State::Cancelled) => format!("cancelled at {ended}"),
        Some(State::Unspecified) | None => format!(
            "in state {}, which this approver does not know",
            approval.state
        ),
    }
}

/// How the apply ended, as the end of a sentence that begins with it.
pub(super) fn told_outcome(outcome: &str) -> String {
    match outcome {
        "succeeded" => "succeeded".to_owned(),
        "failed" => "FAILED".to_owned(),
        "unknown" => "has an UNKNOWN outcome".to_owned(),
        other => format!("ended as \"{other}\""),
    }
}

/// How long until it expires: whole minutes, at the end seconds.
pub(crate) fn left(approval: &Approval, now_ms: i64) -> String {
    match (approval.expires_ms - now_ms) / 1000 {
        ..=0 => "time is up".to_owned(),
        seconds @ 1..=119 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds / 60),
    }
}

/// Why a grant that is not open any more came to nothing good; `None` when its apply succeeded, or may still.
pub(crate) fn unsuccessful_end(approval: &Approval) -> Option<String> {
    let id = &approval.id;
    match state(approval) {
        Some(State::Consumed) => match approval.outcome.as_str() {
            "" | "succeeded" => None,
            outcome => Some(format!(
                "The apply {} (request {}). Look with: approver audit --request-id {}",
                told_outcome(outcome),
                approval.used_by,
                approval.used_by
            )),
        },
        Some(State::Denied) => Some(format!(
            "Approval {id} was denied by somebody else. Nothing was applied."
        )),
        Some(State::Expired) => Some(format!(
            "Approval {id} expired before it was used. Nothing was applied."
        )),
        Some(State::Cancelled) => Some(format!(
            "Approval {id} was cancelled before it was used. Nothing was applied."
        )),
        Some(State::Pending | State::Granted) => None,
        Some(State::Unspecified) | None => Some(format!(
            "Approval {id} is in a state this approver does not know. Install it from sandboxd's release."
        )),
    }
}

/// A time to the second, e.g. `2026-03-01T09:30:00Z`.
pub(super) fn time(ms: i64) -> String {
    let time = UtcMillis::from_unix_ms(ms).to_string();
    format!("{}Z", &time[..19])
}

/// "1 file", "2 files".
pub(super) fn counted(count: usize, one: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", grouped(count))
}

/// A number with commas, e.g. 2,000,000.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_told_in_minutes_and_at_the_end_in_seconds() {
        let approval = Approval {
            expires_ms: 1_800_000,
            ..Approval::default()
        };
        for (now_ms, told) in [
            (0, "30 min left"),
            (1, "29 min left"),
            (1_680_000, "2 min left"),
            (1_680_001, "119 s left"),
            (1_799_000, "1 s left"),
            (1_799_001, "time is up"),
            (9_000_000, "time is up"),
        ] {
            assert_eq!(left(&approval, now_ms), told, "at {now_ms}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, told) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (2_000_002, "2,000,002"),
        ] {
            assert_eq!(grouped(number), told);
        }
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(counted(0, "file"), "0 files");
    }
}
