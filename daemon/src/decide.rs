//! The policy in force: read at start and again on SIGHUP, swapped whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use sandbox_core::names::{NamespaceName, PrincipalName, RootName};
use sandbox_core::parameters::Parameters;
use sandbox_core::plan::PlanFacts;
use sandbox_core::policy::{Decision, Policy, PolicyError, Question};

/// Why a policy file is not in force.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not be read.
    #[error("could not read the policy {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It has a fault.
    #[error("the policy {path} has a fault: {fault}")]
    Fault {
        /// Which file.
        path: PathBuf,
        /// What and where.
        fault: PolicyError,
    },
}

/// The policy in force. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PolicyInForce(Arc<RwLock<Arc<Policy>>>);

impl PolicyInForce {
    /// Puts a policy in force.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(policy))))
    }

    /// What the policy says of one request.
    ///
    /// `facts` are those of the plan, once they are known; see [`Policy::decide`].
    pub fn decide(
        &self,
        principal: &PrincipalName,
        parameters: &Parameters,
        root: Option<&RootName>,
        facts: Option<&PlanFacts>,
    ) -> Decision {
        let question = Question {
            principal,
            action: parameters.action(),
            namespace: parameters.namespace(),
            root,
            facts,
        };
        self.get().decide(&question)
    }

    /// Replaces it; requests that were decided stay decided.
    pub fn replace(&self, policy: Policy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// The policy as it is now.
    #[must_use]
    pub fn get(&self) -> Arc<Policy> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads a policy file.
///
/// # Errors
/// [`LoadError`], with the place of the first fault.
pub fn load(path: &Path, reserved: &[NamespaceName]) -> Result<Policy, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    Policy::parse(&text, reserved).map_err(|fault| LoadError::Fault {
        path: path.to_owned(),
        fault,
    })
}
