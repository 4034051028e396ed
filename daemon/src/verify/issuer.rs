//! The issuer's ceiling: whoever holds its token can hand out the reviewed rungs to accounts of its own
//! making, and nothing else. Tried by impersonation, as dry runs that pass every gate.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};

use super::admission::dry_run;
use super::answer::{Answer, POLICY};
use super::ground::Ground;
use super::report::Tries;

/// What RBAC says to somebody who would hand on more than they hold.
const NOT_HELD: &str = "attempting to grant RBAC permissions not currently held";

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let home = &ground.config.kubernetes.issuer_namespace;
    let user = format!("system:serviceaccount:{home}:issuer");
    let issuer = Issuer {
        client: ground.acting_for(&user).await?.client().clone(),
        namespace: ground.target.as_str(),
        name: format!("sbx-{}", ground.name()),
    };
    let (cannot, namespace) = (format!("User \"{user}\" cannot"), issuer.namespace);
    let forbidden = &[cannot.as_str()];

    tries.record(
        format!("as the issuer, make a ServiceAccount of its own in {namespace} (dry run)"),
        issuer.make_account().await.must_be_let_through(),
    );
    tries.record(
        format!("as the issuer, make a Role in {namespace} (dry run)"),
        issuer.make_role().await.must_be_refused(forbidden),
    );
    tries.record(
        "as the issuer, bind the ClusterRole cluster-admin, Secrets and all (dry run)",
        issuer
            .bind("ClusterRole", "cluster-admin")
            .await
            .must_be_refused(&[NOT_HELD]),
    );
    tries.record(
        "as the issuer, bind a Role that is no rung: its own (dry run)",
        issuer
            .bind("Role", "sandbox-issuer")
            .await
            .must_be_refused(&[POLICY, NOT_HELD]),
    );
    tries.record(
        format!("as the issuer, take the token of the ServiceAccount default in {namespace}"),
        issuer.take_token().await.must_be_refused(&[POLICY]),
    );
    tries.record(
        "as the issuer, make a ClusterRoleBinding (dry run)",
        issuer.bind_everywhere().await.must_be_refused(forbidden),
    );
    tries.record(
        format!("as the issuer, list Secrets in {namespace}"),
        issuer.list::<Secret>().await.must_be_refused(forbidden),
    );
    tries.record(
        format!("as the issuer, list pods in {namespace}"),
        issuer.list::<Pod>().await.must_be_refused(forbidden),
    );
    Ok(())
}

struct Issuer<'a> {
    client: Client,
    namespace: &'a str,
    /// With the prefix that admission lets the issuer use.
    name: String,
}

impl Issuer<'_> {
    async fn make_account(&self) -> Answer {
        let account = ServiceAccount {
            metadata: self.metadata(),
            ..ServiceAccount::default()
        };
        self.api().create(&dry_run(), &account).await.into()
    }

    async fn make_role(&self) -> Answer {
        let role = Role {
            metadata: self.metadata(),
            rules: Some(vec![PolicyRule {
                api_groups: Some(vec![String::new()]),
                resources: Some(vec!["pods".to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            }]),
        };
        self.api().create(&dry_run(), &role).await.into()
    }

    async fn bind(&self, kind: &str, role: &str) -> Answer {
        let binding = RoleBinding {
            metadata: self.metadata(),
            role_ref: role_ref(kind, role),
            subjects: Some(vec![self.subject()]),
        };
        self.api().create(&dry_run(), &binding).await.into()
    }

    async fn bind_everywhere(&self) -> Answer {
        let binding = ClusterRoleBinding {
            metadata: self.metadata(),
            role_ref: role_ref("ClusterRole", "view"),
            subjects: Some(vec![self.subject()]),
        };
        let api: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        api.create(&dry_run(), &binding).await.into()
    }

    /// The API server makes a token even in a dry run. It would be dropped unread.
    async fn take_token(&self) -> Answer {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = self.api();
        accounts
            .create_token_request("default", &dry_run(), &request)
            .await
            .into()
    }

    /// Names alone: a Secret that could be read is not.
    async fn list<K>(&self) -> Answer
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let one = ListParams::default().limit(1);
        self.api::<K>().list_metadata(&one).await.into()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            kind: "ServiceAccount".to_owned(),
            name: self.name.clone(),
            namespace: Some(self.namespace.to_owned()),
            ..Subject::default()
        }
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}
