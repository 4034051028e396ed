//! A wish on its way to the desk, and what makes two of them the same.

use sandbox_core::approval::{Approval, Binding, Part, Terms, must_type, summary};
use sandbox_core::audit::UtcMillis;
use sandbox_core::ids::ApprovalId;

use super::OpenApproval;
use crate::store::{NewApproval, StoredApproval};

/// An [`OpenApproval`] that can travel; all but its place in time.
pub(super) struct Wish {
    pub(super) new: NewApproval,
    expires_after_ms: i64,
}

impl Wish {
    pub(super) fn of(wish: OpenApproval<'_>) -> Self {
        let facts = wish.facts;
        let epoch = UtcMillis::from_unix_ms(0);
        let terms = Terms {
            id: ApprovalId::new([0; 12]),
            requester: wish.principal,
            requester_uid: wish.uid,
            digest: wish.binding.digest(),
            quorum: wish.quorum.max(1),
            opened: epoch,
            expires: epoch,
        };
        Self {
            new: NewApproval {
                approval: Approval::open(terms),
                root: wish.root,
                plan: wish.plan,
                request: wish.request,
                action: wish.action,
                reason: wish.reason,
                client: wish.client,
                binding: wish.binding,
                summary: summary(facts),
                dangers: u32::try_from(facts.dangers.len()).unwrap_or(u32::MAX),
                confirm: must_type(facts),
                shown: serde_json::to_string(&wish.shown).unwrap_or_default(),
            },
            // Under a second nobody could even read it.
            expires_after_ms: i64::try_from(wish.expires_after.as_millis())
                .unwrap_or(i64::MAX)
                .max(1_000),
        }
    }

    /// Whether an open approval is for the same wish: of the same principal, for the same source and
    /// state. Everything else is looked at when it is used.
    pub(super) fn is_of(&self, open: &StoredApproval) -> bool {
        const SAME: [Part; 6] = [
            Part::Principal,
            Part::Action,
            Part::Root,
            Part::Bundle,
            Part::StateLineage,
            Part::StateSerial,
        ];
        let (ours, theirs): (&Binding, &Binding) = (&self.new.binding, &open.binding);
        SAME.iter()
            .all(|part| ours.value(*part) == theirs.value(*part))
    }

    /// With its id and its times.
    pub(super) fn at(mut self, id: ApprovalId, opened: UtcMillis) -> NewApproval {
        let expires = opened.as_unix_ms().saturating_add(self.expires_after_ms);
        let terms = Terms {
            id,
            opened,
            expires: UtcMillis::from_unix_ms(expires),
            ..self.new.approval.terms().clone()
        };
        self.new.approval = Approval::open(terms);
        self.new
    }
}
