//! What a root's source may not have, and whether the image has its providers.

use std::fmt::Display;

use sandbox_bundle::{Bundle, ProviderSource, Rules, lock};

use crate::config::{self, StateKind};
use crate::report::{Code, Failure};

/// The most faults an agent is told of at once.
const TOLD: usize = 10;
/// What the image is built for.
const PLATFORM: &str = if cfg!(target_arch = "aarch64") {
    "linux_arm64"
} else {
    "linux_amd64"
};

/// Refuses source that would do more than its plan shows, and a lock file that the image cannot fill.
///
/// # Errors
/// [`Code::SourceRefused`], each fault with file and line.
pub(super) fn source(
    bundle: &Bundle,
    providers: &[config::Provider],
    state: &StateKind,
) -> Result<(), Failure> {
    let (image, rules) = of_image(providers, state);
    bundle.check(&rules).map_err(|faults| refused(&faults))?;
    lock::check(bundle, &image, &lock::mend_by_registry(PLATFORM))
        .map_err(|faults| refused(&faults))
}

/// The image's providers, for the lock file and for the source.
pub(super) fn of_image(
    providers: &[config::Provider],
    state: &StateKind,
) -> (Vec<lock::Available>, Rules) {
    let image: Vec<lock::Available> = providers
        .iter()
        .filter_map(|provider| {
            Some(lock::Available {
                source: provider.source.parse().ok()?,
                version: provider.version.clone(),
                hashes: vec![provider.hash.clone()],
            })
        })
        .collect();
    let rules = Rules {
        providers: image
            .iter()
            .map(|a| a.source.clone())
            .collect::<Vec<ProviderSource>>(),
        state_elsewhere: *state != StateKind::Managed,
    };
    (image, rules)
}

fn refused<F: Display>(faults: &[F]) -> Failure {
    let mut told: Vec<String> = faults.iter().take(TOLD).map(sentence).collect();
    if faults.len() > TOLD {
        told.push(format!("And {} more.", faults.len() - TOLD));
    }
    Failure::new(Code::SourceRefused, told.join(" "))
}

fn sentence(fault: &impl Display) -> String {
    let text = fault.to_string();
    if text.ends_with('.') {
        text
    } else {
        format!("{text}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_bundle::{File, Limits};

    fn bundle(files: &[(&str, &str)]) -> Bundle {
        let files = files.iter().map(|(path, text)| File {
            path: path.parse().unwrap(),
            bytes: text.as_bytes().to_vec(),
        });
        Bundle::new(files.collect(), &Limits::default()).unwrap()
    }

    #[test]
    fn what_may_not_run_is_named_with_its_place() {
        let managed = StateKind::Managed;
        let source_of = |text: &str| source(&bundle(&[("main.tf", text)]), &[], &managed);
        assert_eq!(source_of("resource \"terraform_data\" \"a\" {}\n"), Ok(()));
        let failure = source_of(
            "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"id\"\n  }\n}\n",
        )
        .unwrap_err();
        assert_eq!(failure.code, Code::SourceRefused);
        assert!(failure.message.contains("main.tf:2"), "{failure}");
        assert!(failure.message.contains("provisioner"), "{failure}");
        let backend = "terraform {\n  backend \"s3\" {}\n}\n";
        assert_eq!(source_of(backend).unwrap_err().code, Code::SourceRefused);
        let elsewhere = StateKind::Snapshot("/srv/state.json".into());
        assert_eq!(
            source(&bundle(&[("main.tf", backend)]), &[], &elsewhere),
            Ok(())
        );
    }

    #[test]
    fn a_provider_that_the_image_lacks_and_a_missing_lock_file_are_named() {
        let root = bundle(&[("main.tf", "resource \"kubernetes_secret\" \"a\" {}\n")]);
        let failure = source(&root, &[], &StateKind::Managed).unwrap_err();
        assert!(failure.message.contains("kubernetes"), "{failure}");
        let provider = config::Provider {
            source: "hashicorp/kubernetes".to_owned(),
            version: "1.13.4".to_owned(),
            hash: "h1:AAAA".to_owned(),
        };
        let failure = source(&root, &[provider], &StateKind::Managed).unwrap_err();
        assert!(
            failure.message.contains("terraform providers lock"),
            "{failure}"
        );
    }
}
