//! What the person is told at the bottom of the screen, and for how long that is true.

use crate::document::{Row, Tone};

/// It goes at the next key at the latest.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) row: Row,
    until: Until,
}

/// When a notice is not true any more, if no key comes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Until {
    Key,
    /// The daemon is back.
    Connected,
    /// The approval of this id is in another state.
    Moves(String),
}

impl Notice {
    pub(super) fn new(tone: Tone, text: &str, until: Until) -> Self {
        let row = Row::words(tone, 0, text);
        Self { row, until }
    }

    /// Takes it away if it was until then.
    pub(super) fn end(notice: &mut Option<Self>, then: &Until) {
        notice.take_if(|notice| notice.until == *then);
    }
}
