//! Where an approval stands.

use crate::audit::UtcMillis;
use crate::ids::RequestId;

/// Where an approval stands. The last four are ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// Waits for verdicts.
    Pending,
    /// Has all of them, and waits for its one use.
    Granted,
    /// Used.
    Consumed {
        /// When.
        at: UtcMillis,
        /// By which request.
        by: RequestId,
    },
    /// An approver said no.
    Denied {
        /// When.
        at: UtcMillis,
    },
    /// It was not used in time.
    Expired {
        /// When that was seen.
        at: UtcMillis,
        /// How it came.
        cause: ExpiryCause,
    },
    /// Its owner took it back.
    Cancelled {
        /// When.
        at: UtcMillis,
    },
}

/// Why an approval ended by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExpiryCause {
    /// Its time was up.
    TimeUp,
    /// The clock was set back, so how long it has waited is not known.
    ClockSetBack,
}

impl State {
    /// The word in journal, audit and command line.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Granted => "granted",
            Self::Consumed { .. } => "consumed",
            Self::Denied { .. } => "denied",
            Self::Expired { .. } => "expired",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether nothing can follow.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.ended().is_some()
    }

    /// When it ended.
    #[must_use]
    pub const fn ended(&self) -> Option<UtcMillis> {
        match self {
            Self::Pending | Self::Granted => None,
            Self::Consumed { at, .. }
            | Self::Denied { at }
            | Self::Expired { at, .. }
            | Self::Cancelled { at } => Some(*at),
        }
    }

    /// The request that used it.
    #[must_use]
    pub const fn used_by(&self) -> Option<RequestId> {
        match self {
            Self::Consumed { by, .. } => Some(*by),
            Self::Pending
            | Self::Granted
            | Self::Denied { .. }
            | Self::Expired { .. }
            | Self::Cancelled { .. } => None,
        }
    }
}

impl ExpiryCause {
    /// The word in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimeUp => "time-up",
            Self::ClockSetBack => "clock-set-back",
        }
    }

    /// The cause of that word.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        [Self::TimeUp, Self::ClockSetBack]
            .into_iter()
            .find(|cause| cause.as_str() == word)
    }

    /// A clause for people.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::TimeUp => "it was not used in time",
            Self::ClockSetBack => {
                "the clock was set back, so how long it has waited is not known any more"
            }
        }
    }
}
