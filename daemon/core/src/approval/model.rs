//! The machine against a model of a few lines, driven by random steps: verdicts of everybody, clocks that
//! go both ways, approvers that come and go, restarts.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const TTL: i64 = 60_000;
const REQUESTER_UID: u32 = 4_000;

#[derive(Clone, Debug)]
enum Step {
    /// By person 0 to 3; by the requester (4); by an approver with the requester's uid (5).
    Verdict {
        who: u8,
        yes: bool,
        right: bool,
    },
    Clock(i64),
    Consume {
        owner: bool,
        right: bool,
    },
    Cancel {
        owner: bool,
    },
    /// Takes a person from the approvers, or puts them back.
    Toggle(u8),
    Restart,
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..6_u8, prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(who, yes, right)| Step::Verdict { who, yes, right }),
        4 => (0..15_000_i64).prop_map(Step::Clock),
        1 => (-6_000..0_i64).prop_map(Step::Clock),
        3 => (prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(owner, right)| Step::Consume { owner, right }),
        1 => prop::bool::ANY.prop_map(|owner| Step::Cancel { owner }),
        2 => (0..4_u8).prop_map(Step::Toggle),
        2 => Just(Step::Restart),
        2 => Just(Step::Look),
    ];
    prop::collection::vec(step, 1..40)
}

fn name(who: u8) -> PrincipalName {
    match who {
        4 => "agent".parse().unwrap(),
        who => format!("person-{who}").parse().unwrap(),
    }
}

fn digest(right: bool) -> BindingDigest {
    BindingDigest::from_bytes([u8::from(right); 32])
}

fn request(n: u8) -> RequestId {
    RequestId::new(1_700_000_000_000, [n; 10])
}

/// What the approval should be.
#[derive(Debug)]
struct Model {
    quorum: usize,
    yes: BTreeSet<u8>,
    approvers: BTreeSet<u8>,
    state: &'static str,
    now: i64,
    latest: i64,
}

impl Model {
    fn open(&self) -> bool {
        ["pending", "granted"].contains(&self.state)
    }

    fn enough(&self) -> bool {
        self.yes.intersection(&self.approvers).count() >= self.quorum
    }

    fn look(&mut self) {
        if !self.open() {
            return;
        }
        if self.now >= TTL || self.now < self.latest - CLOCK_SLACK_MS {
            self.state = "expired";
        } else if !self.enough() {
            self.state = "pending";
        }
        self.latest = self.latest.max(self.now);
    }

    fn verdict(&mut self, who: u8, yes: bool, right: bool) {
        self.look();
        let taken = self.approvers.contains(&who) && right && self.open();
        if taken && yes {
            self.yes.insert(who);
            if self.enough() {
                self.state = "granted";
            }
        } else if taken {
            self.state = "denied";
        }
    }

    /// Whether it gives a grant.
    fn consume(&mut self, owner: bool, right: bool) -> bool {
        if owner {
            self.look();
        }
        let given = owner && right && self.state == "granted";
        if given {
            self.state = "consumed";
        }
        given
    }

    fn cancel(&mut self, owner: bool) {
        if owner {
            self.look();
            if self.open() {
                self.state = "cancelled";
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_approval_does_what_the_model_does(quorum in 1..=3_u32, steps in steps()) {
        let mut approvers: Approvers = (0..4).chain([5]).map(name).collect();
        let mut model = Model {
            quorum: quorum as usize,
            yes: BTreeSet::new(),
            // Person 5 is listed, but has the requester's uid: the model has no place for them.
            approvers: (0..4).collect(),
            state: "pending",
            now: 0,
            latest: 0,
        };
        let mut approval = Approval::open(Terms {
            id: ApprovalId::new([7; 12]),
            requester: name(4),
            requester_uid: Some(REQUESTER_UID),
            digest: digest(true),
            quorum,
            opened: UtcMillis::from_unix_ms(0),
            expires: UtcMillis::from_unix_ms(TTL),
        });
        let mut grants = 0;
        for (n, step) in steps.into_iter().enumerate() {
            let now = UtcMillis::from_unix_ms(model.now);
            let before = approval.state().clone();
            match step {
                Step::Verdict { who, yes, right } => {
                    model.verdict(who, yes, right);
                    let new = NewVerdict {
                        approver: name(who),
                        uid: if who == 5 { REQUESTER_UID } else { 5_000 + u32::from(who) },
                        said: if yes { Said::Yes } else { Said::No },
                        reason: "because".to_owned(),
                        seen: digest(right),
                    };
                    let kept = approval.verdicts().len();
                    let taken = approval.record_verdict(new, now, &approvers);
                    let listed = who < 4 && model.approvers.contains(&who);
                    prop_assert_eq!(taken.is_ok(), listed && right);
                    // Late or not, what was taken is kept.
                    prop_assert_eq!(approval.verdicts().len(), kept + usize::from(taken.is_ok()));
                }
                // The epoch is as far back as a clock goes.
                Step::Clock(by) => model.now = (model.now + by).max(0),
                Step::Consume { owner, right } => {
                    let by = request(u8::try_from(n).unwrap());
                    let expected = model.consume(owner, right);
                    let asker = name(if owner { 4 } else { 0 });
                    let got = approval.consume(&asker, by, digest(right), (now, &approvers));
                    prop_assert_eq!(got.is_ok(), expected, "{:?}", got);
                    if let Ok(grant) = got {
                        grants += 1;
                        prop_assert_eq!(grant.request(), by);
                        prop_assert!(now < grant.expires());
                    }
                }
                Step::Cancel { owner } => {
                    model.cancel(owner);
                    let asker = name(if owner { 4 } else { 0 });
                    approval.cancel(&asker, now, &approvers).ok();
                }
                Step::Toggle(who) => {
                    if model.approvers.remove(&who) {
                        approvers.remove(&name(who));
                    } else {
                        model.approvers.insert(who);
                        approvers.insert(name(who));
                    }
                }
                Step::Restart => {
                    approval = Approval::restore(
                        approval.terms().clone(),
                        approval.state().clone(),
                        approval.verdicts().to_vec(),
                        approval.seen(),
                    );
                }
                Step::Look => {
                    model.look();
                    approval.look(now, &approvers);
                }
            }
            prop_assert_eq!(approval.state().as_str(), model.state);
            prop_assert!(grants <= 1, "used twice");
            prop_assert_eq!(grants == 1, model.state == "consumed");
            if before.is_end() {
                prop_assert_eq!(approval.state(), &before, "an end did not stay");
            }
            let favour = approval.in_favour(&approvers);
            prop_assert!(!favour.contains(&name(4)) && !favour.contains(&name(5)));
        }
    }
}
