//! Approvals for tests: real trail, real journal, a clock that is set by hand.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::audit::Settings;
use crate::config::Config;
use crate::store::fixture::{self, AGENT, AGENT_UID, BEGIN, binding, facts, keep_plan, request};

pub(crate) const ANN: (&str, u32) = ("ann", 5_001);
pub(crate) const BEN: (&str, u32) = ("ben", 5_002);
pub(crate) const OBJECT: &str = "Deployment/demo-app/shop";

/// A daemon's approvals, on its own folder.
pub(crate) struct World {
    pub(super) folder: TempDir,
    /// Seconds after the beginning.
    seconds: Arc<AtomicI64>,
    pub(super) agent_uid: u32,
    pub(super) approvers: Vec<(&'static str, u32)>,
    pub(super) notify: Notify,
    pub(super) running: Option<Running>,
}

pub(super) struct Running {
    pub(super) approvals: Approvals,
    pub(super) store: Store,
    pub(super) audit: Audit,
    pub(super) lifetime: Lifetime,
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut world = Self {
            folder,
            seconds: Arc::default(),
            agent_uid: AGENT_UID,
            approvers: vec![ANN, BEN],
            notify: Notify::default(),
            running: None,
        };
        world.start();
        for n in 1..=60 {
            fixture::open_request(world.store(), n).await;
        }
        world
    }

    pub(super) fn start(&mut self) {
        let seconds = Arc::clone(&self.seconds);
        let clock = Clock::from_fn(move || {
            u64::try_from(BEGIN + seconds.load(Ordering::SeqCst) * 1_000).unwrap()
        });
        let settings = Settings::default();
        let (audit, _) = Audit::open(self.folder.path(), settings, clock.clone()).unwrap();
        let store = Store::open(self.folder.path()).unwrap();
        let lifetime = Lifetime::default();
        let approvals = Approvals::start(ApprovalParts {
            store: store.clone(),
            audit: audit.clone(),
            clock,
            principals: principals(self.agent_uid, &self.approvers),
            notify: self.notify.clone(),
            lifetime: lifetime.clone(),
        });
        self.running = Some(Running {
            approvals,
            store,
            audit,
            lifetime,
        });
    }

    /// Ends it, in order: what a killed one leaves the store's own tests look at.
    pub(crate) async fn stop(&mut self) {
        let running = self.running.take().unwrap();
        assert_eq!(running.lifetime.end(Duration::from_secs(5)).await, 0);
        running.audit.close().await.unwrap();
    }

    pub(super) async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    pub(crate) fn set_clock(&self, seconds: i64) {
        self.seconds.store(seconds, Ordering::SeqCst);
    }

    pub(super) fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub(crate) fn approvals(&self) -> &Approvals {
        &self.running().approvals
    }

    pub(super) fn store(&self) -> &Store {
        &self.running().store
    }

    /// A wish for root demo of 60 seconds.
    pub(super) async fn try_open(
        &self,
        by: u8,
        bundle: u8,
        quorum: u32,
    ) -> Result<Opened, Failure> {
        let plan = keep_plan(self.store(), "demo", by, bundle).await;
        let wish = OpenApproval {
            root: "demo".parse().unwrap(),
            plan,
            facts: &facts(),
            request: request(by),
            principal: AGENT.parse().unwrap(),
            uid: Some(AGENT_UID),
            action: ActionName::TerraformApply,
            reason: "a label changes".to_owned(),
            client: "claude 1".to_owned(),
            binding: binding("demo", bundle, quorum),
            quorum,
            expires_after: Duration::from_mins(1),
            shown: Shown {
                source: vec![SourceDiff {
                    path: "main.tf".to_owned(),
                    action: "changed".to_owned(),
                    diff: "-a\n+b\n".to_owned(),
                }],
                source_since_ms: Some(BEGIN),
                scope: vec!["It may change Deployments in demo-app.".to_owned()],
                last_apply: Some("The last apply of this root failed.".to_owned()),
            },
        };
        self.approvals().open(wish).await
    }

    pub(crate) async fn open(&self, quorum: u32) -> ApprovalId {
        match self.try_open(1, 2, quorum).await.unwrap() {
            Opened::New(stored) => stored.id(),
            Opened::Same(stored) => panic!("{} is open", stored.id()),
        }
    }

    pub(super) async fn say(
        &self,
        id: ApprovalId,
        who: (&str, u32),
        said: Said,
    ) -> Result<StoredApproval, Failure> {
        let stored = self.store().approval(id).await.unwrap().unwrap();
        let spoken = Spoken {
            approval: id.into(),
            seen: stored.approval.terms().digest,
            said,
            reason: "seen".to_owned(),
            typed: OBJECT.to_owned(),
        };
        let judge = Judge::this_process(who.0, who.1);
        self.approvals().record_verdict(judge, spoken).await
    }

    pub(crate) async fn yes(
        &self,
        id: ApprovalId,
        who: (&str, u32),
    ) -> Result<StoredApproval, Failure> {
        self.say(id, who, Said::Yes).await
    }

    pub(super) async fn consume(
        &self,
        id: ApprovalId,
        by: u8,
        quorum: u32,
    ) -> Result<Grant, Failure> {
        let wanted = Use {
            approval: id,
            principal: AGENT.parse().unwrap(),
            request: request(by),
            binding: binding("demo", 2, quorum),
        };
        self.approvals().consume(wanted).await
    }

    pub(super) async fn state(&self, id: ApprovalId) -> &'static str {
        let stored = self.store().approval(id).await.unwrap().unwrap();
        stored.approval.state().as_str()
    }

    /// This process, as one of the approvers.
    pub(crate) fn judge(&self, who: (&'static str, u32)) -> Judge {
        assert!(self.approvers.contains(&who), "{who:?}");
        Judge::this_process(who.0, who.1)
    }

    pub(crate) fn lifetime(&self) -> Lifetime {
        self.running().lifetime.clone()
    }

    pub(crate) async fn digest(&self, id: ApprovalId) -> Vec<u8> {
        let stored = self.store().approval(id).await.unwrap().unwrap();
        stored.approval.terms().digest.as_bytes().to_vec()
    }

    /// The events of approvals that are in the trail, in order.
    pub(super) fn trail(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
        events
            .filter(|event: &Value| event["event"].as_str().unwrap().starts_with("approval."))
            .collect()
    }

    pub(super) fn told(&self) -> Vec<String> {
        let name = |event: Value| event["event"].as_str().unwrap()["approval.".len()..].to_owned();
        self.trail().into_iter().map(name).collect()
    }
}

/// As the configuration gives them: one agent, and these approvers.
pub(super) fn principals(agent_uid: u32, approvers: &[(&str, u32)]) -> Principals {
    let image = format!("runner@sha256:{}", "a".repeat(64));
    let listed: Vec<String> = approvers
        .iter()
        .map(|(name, uid)| format!("{name} = [{uid}]\n"))
        .collect();
    let approvers = listed.concat();
    let text = format!(
        "[agents]\n{AGENT} = [{agent_uid}]\n[approvers]\n{approvers}[kubernetes]\nkubeconfig = '/k'\n\
         [sandbox]\nimage = '{image}'\n[vault]\naddress = 'https://v'\nca_file = '/c'\n\
         role_id_file = '/r'\nsecret_id_file = '/s'\nmounts = ['m']\n"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::load(file.path(), 4_000).unwrap().1
}

#[track_caller]
pub(super) fn assert_refused<T: std::fmt::Debug>(
    result: Result<T, Failure>,
    code: Code,
    says: &str,
) {
    let failure = result.unwrap_err();
    assert_eq!(failure.code, code, "{failure}");
    assert!(failure.message.contains(says), "{failure}");
}
