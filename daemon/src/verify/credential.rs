//! Credentials, issued for real by the daemon's own way: its login, a child token, the engine.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use sandbox_core::names::NamespaceName;
use sandbox_core::parameters::ActionName;
use sandbox_core::policy::{Decision, Question};

use super::ground::Ground;
use super::other_uid::{self, Deed, Reply, Who};
use super::report::{Tries, of_all};
use crate::broker::{Answer, Trial, TrialCredential, VaultError};
use crate::config::Role;
use crate::report::chain;

/// A namespace that can never be a target.
const ELSEWHERE: &str = "kube-system";

/// A credential does what its scope says, and no more.
pub(super) async fn scope(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let (trial, target) = (ground.login().await?, &ground.target);
    let mut mounts = ground.config.vault.mounts.iter();
    let first = mounts.next().context("no mount is configured")?;
    let issued = trial
        .issue(&trial.child(first, target).await?, target)
        .await?;
    tries.record(
        format!("have {first} issue a credential to read pods in {target}"),
        accepted(trial, &issued).await,
    );
    let in_target = |what: &str| format!("/api/v1/namespaces/{target}/{what}?limit=1");
    let in_system = "/api/v1/namespaces/kube-system/pods?limit=1";
    for (what, path) in [
        ("pods in kube-system", in_system.to_owned()),
        ("pods everywhere", "/api/v1/pods?limit=1".to_owned()),
        ("Secrets there", in_target("secrets")),
        ("ConfigMaps there", in_target("configmaps")),
    ] {
        let answer = trial.read(&issued, &path).await;
        tries.record(format!("read {what} with it"), refused(&answer));
    }
    trial.revoke(&issued).await?;
    // The mounts are alike; that each of them works is looked at.
    let mut others = Vec::new();
    for mount in mounts {
        let issued = trial
            .issue(&trial.child(mount, target).await?, target)
            .await?;
        others.push((mount, accepted(trial, &issued).await));
        trial.revoke(&issued).await?;
    }
    if !others.is_empty() {
        tries.record("have each other mount issue one as well", of_all(others));
    }
    Ok(())
}

/// No credential for another namespace: not from the daemon, and not from Vault should the daemon ask.
pub(super) async fn other_namespace(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let elsewhere: NamespaceName = ELSEWHERE.parse()?;
    for (uid, principal) in ground.principals.of(Role::Agent) {
        let question = Question {
            principal,
            action: ActionName::PodStatus,
            root: None,
            facts: None,
            namespace: Some(&elsewhere),
        };
        tries.record(
            format!("ask the policy file whether {principal} may read pods in {elsewhere}"),
            match ground.policy.decide(&question) {
                decision @ Decision::Deny { .. } => Ok(decision.to_string()),
                decision @ (Decision::Allow { .. } | Decision::RequireApproval { .. }) => {
                    Err(decision.to_string())
                }
            },
        );
        let deed = Deed::Ask {
            socket: ground.config.listen.agent_socket.clone(),
            question: other_uid::Question::PodStatus {
                namespace: ELSEWHERE.to_owned(),
            },
        };
        let reply: Reply = Who::logged_in(uid)?.send(deed).await?;
        tries.record(
            format!("as {principal}, ask the daemon for the pods in {elsewhere}"),
            reply.refused("POLICY_DENIED"),
        );
    }
    by_mounts(ground, &elsewhere, tries).await
}

async fn by_mounts(
    ground: &Ground,
    elsewhere: &NamespaceName,
    tries: &mut Tries,
) -> anyhow::Result<()> {
    let (trial, target) = (ground.login().await?, &ground.target);
    let (mut namespaces, mut roles) = (Vec::new(), Vec::new());
    let (mut controls, mut children) = (Vec::new(), Vec::new());
    for mount in &ground.config.vault.mounts {
        let child = trial.child(mount, target).await?;
        let issued = trial.issue(&child, elsewhere).await;
        namespaces.push((mount, not_issued(trial, issued).await));
        let issued = trial.issue_elsewhere(&child, elsewhere).await;
        roles.push((mount, not_issued(trial, issued).await));
        let issued = trial.issue(&child, target).await?;
        controls.push((mount, accepted(trial, &issued).await));
        trial.revoke(&issued).await?;
        let other = trial.child(mount, elsewhere).await;
        let handed_out = || Err("it was handed out".to_owned());
        children.push((mount, other.map_or_else(|e| by_vault(&e), |_| handed_out())));
    }
    tries.record(
        format!("with a child token for {target}, ask each mount for a credential in {elsewhere}"),
        of_all(namespaces),
    );
    tries.record(
        format!("with it, ask each mount for the role of {elsewhere}"),
        of_all(roles),
    );
    tries.record(
        format!("with it, ask each mount for a credential in {target} after all"),
        of_all(controls),
    );
    tries.record(
        format!("with the daemon's login, ask each mount for a child token for {elsewhere}"),
        of_all(children),
    );
    Ok(())
}

/// A revoked credential is refused, and what it was made of is gone.
pub(super) async fn revocation(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let (trial, target) = (ground.login().await?, &ground.target);
    let admin = ground.admin()?.client();
    let mount = &ground.config.vault.mounts[0];
    let child = trial.child(mount, target).await?;
    let issued = trial.issue(&child, target).await?;
    let name = issued.service_account();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), target.as_str());
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), target.as_str());
    let (before, account, binding) = (
        accepted(trial, &issued).await,
        accounts.get_opt(name).await?.is_some(),
        bindings.get_opt(name).await?.is_some(),
    );
    tries.record(
        format!(
            "issue a credential and look for ServiceAccount and RoleBinding {name} in {target}"
        ),
        match (before, account && binding) {
            (Ok(accepted), true) => Ok(format!("both are there; {accepted}")),
            (Ok(_), false) => {
                Err("they are not there, so that they are gone shows nothing".to_owned())
            }
            (Err(e), _) => Err(e),
        },
    );
    trial.revoke(&issued).await?;
    let refusal = trial.wait_until_refused(&issued).await;
    tries.record(
        format!(
            "revoke the lease {}, and use the credential again",
            issued.lease_id()
        ),
        refusal.map(|status| format!("refused with {status}")),
    );
    let left: Vec<_> = [
        ("ServiceAccount", accounts.get_opt(name).await?.is_some()),
        ("RoleBinding", bindings.get_opt(name).await?.is_some()),
    ]
    .into_iter()
    .filter_map(|(kind, there)| there.then_some(kind))
    .collect();
    tries.record(
        format!("look for ServiceAccount and RoleBinding {name} again"),
        if left.is_empty() {
            Ok("both are gone".to_owned())
        } else {
            Err(format!("still there: {}", left.join(", ")))
        },
    );
    Ok(())
}

async fn accepted(trial: &Trial, issued: &TrialCredential) -> Result<String, String> {
    match trial.wait_until_accepted(issued).await {
        Answer::Accepted => Ok(format!(
            "pods there: 200, with the lease {} and ServiceAccount {}, for {} s",
            issued.lease_id(),
            issued.service_account(),
            issued.ttl_seconds()
        )),
        other @ (Answer::Refused(_) | Answer::Nothing(_)) => Err(other.to_string()),
    }
}

fn refused(answer: &Answer) -> Result<String, String> {
    match answer {
        Answer::Refused(403) => Ok("403".to_owned()),
        Answer::Accepted | Answer::Refused(_) | Answer::Nothing(_) => Err(answer.to_string()),
    }
}

/// What was issued in spite of all is revoked at once.
async fn not_issued(
    trial: &Trial,
    issued: Result<TrialCredential, VaultError>,
) -> Result<String, String> {
    match issued {
        Err(e) => by_vault(&e),
        Ok(issued) => {
            let revoked = match trial.revoke(&issued).await {
                Ok(()) => "and revoked again".to_owned(),
                Err(e) => format!("and not revoked: {}", chain(&e)),
            };
            Err(format!("{} was issued, {revoked}", issued.lease_id()))
        }
    }
}

/// Only a plain no of Vault itself is a refusal.
fn by_vault(error: &VaultError) -> Result<String, String> {
    match error {
        VaultError::Refused {
            status: 400 | 403, ..
        } => Ok(error.to_string()),
        VaultError::Refused { .. }
        | VaultError::Unreachable(_)
        | VaultError::Sealed
        | VaultError::Malformed { .. }
        | VaultError::File { .. } => Err(format!("this shows nothing: {}", chain(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_no_is_a_refusal() {
        let vault = |status| {
            by_vault(&VaultError::Refused {
                status,
                call: "the credential",
                words: vec!["permission denied".to_owned()],
            })
        };
        assert!(vault(403).is_ok() && vault(400).is_ok());
        assert!(vault(500).is_err() && vault(429).is_err() && vault(404).is_err());
        assert!(by_vault(&VaultError::Sealed).is_err());
        assert!(refused(&Answer::Refused(403)).is_ok());
        // 401 is a token that was never good, which shows nothing about its scope.
        assert!(refused(&Answer::Refused(401)).is_err());
        assert!(refused(&Answer::Accepted).is_err());
    }
}
