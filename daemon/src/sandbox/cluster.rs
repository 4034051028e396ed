//! The cluster as the configured kubeconfig names it. No environment variable is looked at.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use sandbox_core::resource::Resource;

/// The API server and the daemon's client to it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    url: String,
    ca_pem: String,
}

/// Why the cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig cannot be read or understood.
    #[error("could not use the kubeconfig {path}")]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubeconfig does not say whom to trust.
    #[error("the kubeconfig {0} names no certificate authority, or turns the check of it off")]
    NoAuthority(PathBuf),
    /// The API server did not do what it was asked.
    #[error("the API server did not answer as it should")]
    Api(#[from] kube::Error),
}

impl Cluster {
    /// Reads the kubeconfig and prepares a client. The API server is not asked for anything yet.
    ///
    /// # Errors
    /// [`ClusterError::Kubeconfig`], [`ClusterError::NoAuthority`]
    pub async fn open(path: &Path) -> Result<Self, ClusterError> {
        Self::open_as(path, None).await
    }

    /// As [`Cluster::open`], acting for `user`, which the kubeconfig's own identity must have the right to.
    pub(crate) async fn open_as(path: &Path, user: Option<&str>) -> Result<Self, ClusterError> {
        let unusable =
            |source: Box<dyn std::error::Error + Send + Sync>| ClusterError::Kubeconfig {
                path: path.to_owned(),
                source,
            };
        let kubeconfig = Kubeconfig::read_from(path).map_err(|e| unusable(e.into()))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|e| unusable(e.into()))?;
        let no_authority = || ClusterError::NoAuthority(path.to_owned());
        let roots = config
            .root_cert
            .as_ref()
            .filter(|r| !r.is_empty())
            .ok_or_else(no_authority)?;
        if config.accept_invalid_certs {
            return Err(no_authority());
        }
        let ca_pem = roots.iter().map(|der| pem(der)).collect();
        let url = config.cluster_url.to_string();
        config.connect_timeout = Some(Duration::from_secs(5));
        // Our retries are few and counted; the client's own would hide them.
        config.default_retry = false;
        config.proxy_url = None;
        config.auth_info.impersonate = user.map(str::to_owned);
        let client = Client::try_from(config)?;
        Ok(Self {
            client,
            url,
            ca_pem,
        })
    }

    /// One that does not answer.
    #[cfg(test)]
    pub(super) fn away() -> Self {
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        Self {
            url: config.cluster_url.to_string(),
            client: Client::try_from(config).unwrap(),
            ca_pem: String::new(),
        }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The API server's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// PEM of the authority that signed the API server's certificate.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Whether a `ServiceAccount` may still list a kind in its namespace, by the authorizer's own word.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn may_still_list(
        &self,
        resource: Resource,
        namespace: &str,
        account: &str,
    ) -> Result<bool, ClusterError> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{account}")),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(namespace.to_owned()),
                    verb: Some("list".to_owned()),
                    group: Some(resource.group().to_owned()),
                    resource: Some(resource.plural().to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_none_or(|s| s.allowed))
    }

    /// Whether the API server answers the daemon about its own namespace.
    ///
    /// # Errors
    /// When it does not, with its words.
    pub async fn health(&self, sandbox_namespace: &str) -> Result<(), ClusterError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), sandbox_namespace);
        api.list_metadata(&ListParams::default().limit(1)).await?;
        Ok(())
    }
}

fn pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> = encoded
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
