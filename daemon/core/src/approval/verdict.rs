//! What somebody said of an approval.

use std::fmt;

use crate::audit::UtcMillis;
use crate::names::PrincipalName;

/// Yes or no.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// Do it.
    Yes,
    /// Do not.
    No,
}

/// One approver's yes or no, as it was kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Who.
    pub approver: PrincipalName,
    /// From which uid.
    pub uid: u32,
    /// What.
    pub said: Said,
    /// Why; may be empty with a yes.
    pub reason: String,
    /// When, by the clock of that moment.
    pub time: UtcMillis,
    /// Why it counts for nothing; `None` when it counted as it came. A yes whose approver is none any more
    /// does not count either, see [`super::Approval::in_favour`].
    pub void: Option<Void>,
}

/// Why a verdict counts for nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Void {
    /// The approval had expired.
    AfterExpiry,
    /// It had been denied.
    AfterDenial,
    /// Its owner had taken it back.
    AfterCancel,
    /// It had been used.
    AfterUse,
    /// The same person had said yes before.
    CountsAlready,
}

impl Void {
    /// Every one there is.
    pub const ALL: [Self; 5] = [
        Self::AfterExpiry,
        Self::AfterDenial,
        Self::AfterCancel,
        Self::AfterUse,
        Self::CountsAlready,
    ];

    /// The word in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterExpiry => "after-expiry",
            Self::AfterDenial => "after-denial",
            Self::AfterCancel => "after-cancel",
            Self::AfterUse => "after-use",
            Self::CountsAlready => "counts-already",
        }
    }

    /// The one of that word.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|void| void.as_str() == word)
    }
}

impl fmt::Display for Void {
    /// A clause that follows "the verdict".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AfterExpiry => "came after the approval expired",
            Self::AfterDenial => "came after the approval was denied",
            Self::AfterCancel => "came after the approval was cancelled",
            Self::AfterUse => "came after the approval was used",
            Self::CountsAlready => "repeats a yes of the same approver, and one person counts once",
        })
    }
}
