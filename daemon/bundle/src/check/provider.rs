//! Providers: which there may be, and what a `provider` block may say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use super::{Faults, Module, Reason, Rules, SourceFault, quoted};
use crate::path::BundlePath;
use crate::source::{Entry, Found, Literal};

/// A provider's source address, e.g. `hashicorp/kubernetes`. Without a host it stands for whichever one the
/// image has under that name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ProviderSource {
    host: Option<String>,
    namespace: String,
    name: String,
}

/// The text is no provider's source address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be NAMESPACE/NAME or HOST/NAMESPACE/NAME, e.g. hashicorp/kubernetes")]
pub struct ProviderSourceError;

impl ProviderSource {
    /// Whether both can be the same provider.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let same_host = match (&self.host, &other.host) {
            (Some(a), Some(b)) => a == b,
            (None, _) | (_, None) => true,
        };
        same_host && self.namespace == other.namespace && self.name == other.name
    }

    /// With its host; where none was said, the one that Terraform takes.
    #[must_use]
    pub fn address(&self) -> String {
        match self.host {
            Some(_) => self.to_string(),
            None => format!("registry.terraform.io/{self}"),
        }
    }

    /// The one that is part of Terraform.
    fn is_builtin(&self) -> bool {
        self.host.as_deref() == Some("terraform.io")
            && self.namespace == "builtin"
            && self.name == "terraform"
    }

    /// What a name stands for that no `required_providers` explains.
    fn implied(local_name: &str) -> Option<Self> {
        if local_name == "terraform" {
            return "terraform.io/builtin/terraform".parse().ok();
        }
        local_name.parse().ok()
    }
}

impl FromStr for ProviderSource {
    type Err = ProviderSourceError;
    fn from_str(s: &str) -> Result<Self, ProviderSourceError> {
        let s = s.to_ascii_lowercase(); // Terraform tells no case apart here
        let is_part = |part: &&str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
            !part.is_empty() && part.bytes().all(plain)
        };
        let parts: Vec<&str> = s.split('/').collect();
        if !parts.iter().all(is_part) {
            return Err(ProviderSourceError);
        }
        let (host, namespace, name) = match parts[..] {
            [name] => (None, "hashicorp", name),
            [namespace, name] => (None, namespace, name),
            [host, namespace, name] => (Some(host.to_owned()), namespace, name),
            _ => return Err(ProviderSourceError),
        };
        Ok(Self {
            host,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ProviderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{host}/")?;
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

const SOURCE: Reason = Reason {
    what: "a provider whose source is not written out",
    why: "Terraform could take another provider for it than the one that is checked",
    next: "Write its entry in required_providers as { source = \"NAMESPACE/NAME\", version = \"...\" }, each key once.",
};

const ARGUMENT: Reason = Reason {
    what: "an argument of a provider block",
    why: "a provider reaches the API server through the sandbox alone, with the sandbox's credential; hosts, credentials, files and programs of its own are not for the source to name",
    next: "Take it out; the namespace, the host and the credential come with the run.",
};

const REFERENCE: Reason = Reason {
    what: "a provider that is worked out",
    why: "which provider a block belongs to must be written out to be checked",
    next: "Write it as NAME or NAME.ALIAS.",
};

/// What a `provider` block may say, for any provider.
const COMMON: [&str; 2] = ["alias", "version"];
/// What it may also say for hashicorp/kubernetes: nothing that names a host, a file, a program or a
/// credential.
const KUBERNETES: [&str; 3] = ["ignore_annotations", "ignore_labels", "experiments"];

/// Older releases look for a kubeconfig unless told not to, so many roots have this as `false`.
const LOAD_CONFIG_FILE: &str = "load_config_file";

/// What the names of providers stand for in one module.
#[derive(Debug)]
pub(super) struct LocalNames<'r> {
    rules: &'r Rules,
    sources: BTreeMap<String, ProviderSource>,
}

impl<'r> LocalNames<'r> {
    /// Reads `required_providers` of all files of a module, and refuses what is not in the image.
    pub(super) fn read(files: &[Module<'_>], rules: &'r Rules, faults: &mut Faults) -> Self {
        let mut locals = Self {
            rules,
            sources: BTreeMap::new(),
        };
        for file in files {
            for terraform in file.source.view().blocks("terraform", 0) {
                for required in terraform.body.blocks("required_providers", 0) {
                    for entry in required.body.entries() {
                        locals.require(file.path, &entry, faults);
                    }
                }
            }
        }
        locals
    }

    fn require(&mut self, file: &BundlePath, entry: &Entry, faults: &mut Faults) {
        let source = match &entry.value {
            Literal::Text(_) => ProviderSource::implied(&entry.key), // a version alone, as it was long ago
            Literal::Object(keys) => required_source(&entry.key, keys),
            Literal::Bool(_)
            | Literal::Null
            | Literal::Reference(_)
            | Literal::List(_)
            | Literal::Other => None,
        };
        let what = || format!("the provider {} in required_providers", quoted(&entry.key));
        let Some(source) = source else {
            faults.add_named(file, entry.line, what(), &SOURCE);
            return;
        };
        // Twice the same name is an error in Terraform; the first one does not hide the second here.
        self.check_known(file, entry.line, what(), &source, faults);
        self.sources.insert(entry.key.clone(), source);
    }

    fn source(&self, local_name: &str) -> Option<ProviderSource> {
        match self.sources.get(local_name) {
            Some(source) => Some(source.clone()),
            None => ProviderSource::implied(local_name),
        }
    }

    fn check_known(
        &self,
        file: &BundlePath,
        line: u32,
        what: String,
        source: &ProviderSource,
        faults: &mut Faults,
    ) {
        if source.is_builtin() {
            return;
        }
        faults.providers.insert(source.clone());
        if self
            .rules
            .providers
            .iter()
            .any(|known| known.matches(source))
        {
            return;
        }
        let known: BTreeSet<String> = self
            .rules
            .providers
            .iter()
            .map(ToString::to_string)
            .collect();
        let known: Vec<String> = known.into_iter().collect();
        faults.push(SourceFault {
            file: file.clone(),
            line,
            what,
            why: format!(
                "{source} is not among the image's providers ({})",
                known.join(", ")
            ),
            next: "Take it out, or add it to the image's provider list and build the image again."
                .to_owned(),
        });
    }

    /// The provider of a resource or data source, where it is written out and one.
    pub(super) fn provider_of(&self, block: &Found<'_>) -> Option<ProviderSource> {
        let name = match &block.body.values("provider")[..] {
            [] => block.label(0).split('_').next()?.to_owned(),
            [(_, Literal::Reference(name))] => name.clone(),
            [(_, Literal::Text(text))] => text.split('.').next()?.to_owned(),
            _ => return None,
        };
        self.source(&name)
    }

    /// Checks that a resource or data source belongs to a provider of the image.
    pub(super) fn check_user(&self, file: &BundlePath, block: &Found<'_>, faults: &mut Faults) {
        let kind = block.label(0);
        let mut names: Vec<String> = Vec::new();
        for (line, value) in block.body.values("provider") {
            match value {
                Literal::Reference(name) => names.push(name),
                Literal::Text(text) => names.extend(text.split('.').next().map(str::to_owned)),
                Literal::Bool(_)
                | Literal::Null
                | Literal::Object(_)
                | Literal::List(_)
                | Literal::Other => {
                    faults.add(file, line, &REFERENCE);
                }
            }
        }
        if names.is_empty() {
            names.extend(kind.split('_').next().map(str::to_owned));
        }
        for name in names {
            let what = format!("{} with the provider {}", quoted(kind), quoted(&name));
            match self.source(&name) {
                Some(source) => self.check_known(file, block.line, what, &source, faults),
                None => faults.add_named(file, block.line, what, &REFERENCE),
            }
        }
    }

    /// Checks a `provider` block.
    pub(super) fn check_block(&self, file: &BundlePath, block: &Found<'_>, faults: &mut Faults) {
        let local_name = block.label(0);
        let what = format!("provider {}", quoted(local_name));
        let source = self.source(local_name);
        match &source {
            Some(source) => self.check_known(file, block.line, what, source, faults),
            None => faults.add_named(file, block.line, what, &REFERENCE),
        }
        let is_kubernetes =
            source.is_some_and(|s| s.namespace == "hashicorp" && s.name == "kubernetes");
        let loads_no_file = loads_no_file(block);
        for name in block.body.names() {
            let allowed = COMMON.contains(&name.text)
                || is_kubernetes
                    && (KUBERNETES.contains(&name.text)
                        || name.text == LOAD_CONFIG_FILE && loads_no_file);
            if !allowed {
                let what = format!("{} in provider {}", quoted(name.text), quoted(local_name));
                faults.add_named(file, name.line, what, &ARGUMENT);
            }
        }
    }
}

fn loads_no_file(block: &Found<'_>) -> bool {
    let values = block.body.values(LOAD_CONFIG_FILE);
    values
        .iter()
        .all(|(_, value)| *value == Literal::Bool(false))
}

/// The source in an entry of `required_providers`; without one, what its name implies. `None` where a key is
/// there twice or no text.
fn required_source(local_name: &str, keys: &[Entry]) -> Option<ProviderSource> {
    let mut seen = BTreeSet::new();
    if !keys.iter().all(|entry| seen.insert(entry.key.as_str())) {
        return None;
    }
    match keys.iter().find(|entry| entry.key == "source") {
        Some(entry) => entry.value.text()?.parse().ok(),
        None => ProviderSource::implied(local_name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_a_host_stands_for_the_images_own() {
        let source = |s: &str| s.parse::<ProviderSource>().unwrap();
        let known = source("registry.example/hashicorp/kubernetes");
        assert!(known.matches(&source("hashicorp/kubernetes")));
        assert!(known.matches(&source("kubernetes")));
        assert!(known.matches(&source("Registry.Example/HashiCorp/Kubernetes")));
        assert!(!known.matches(&source("other.example/hashicorp/kubernetes")));
        assert!(!known.matches(&source("evil/kubernetes")));
        for bad in ["", "a//b", "a/b/c/d", "a b", "./x", "a/\u{e9}", "../../x"] {
            let parsed = bad.parse::<ProviderSource>();
            assert!(parsed.is_err() || !known.matches(&parsed.unwrap()), "{bad}");
        }
        assert!("a/b/c/d".parse::<ProviderSource>().is_err());
    }
}
