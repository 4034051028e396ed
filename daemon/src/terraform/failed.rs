//! What an agent is told of Terraform's own words.
//!
//! A message may hold whatever the configuration reads: an author's error text, a value in a provider's
//! complaint. So an agent gets place and kind, and the words of those messages alone that are Terraform's
//! own and the same for everybody. What stops an apply often has words of ours. Approvers get the rest.

use sandbox_core::plan::without_keys;
use sandbox_proto::runner::v1::Diagnostic;

use crate::actions::visible;

/// Summaries that Terraform 1.11 itself gives, word for word; none holds a value. (Its source: internal/terraform,
/// internal/configs, internal/lang, and hcl.)
const OWN_WORDS: [&str; 41] = [
    "Argument or block definition required",
    "Check block assertion failed",
    "Cycle",
    "Duplicate data configuration",
    "Duplicate module call",
    "Duplicate output definition",
    "Duplicate provider configuration",
    "Duplicate resource configuration",
    "Duplicate variable declaration",
    "Error in function call",
    "Failed to query available provider packages",
    "Inconsistent dependency lock file",
    "Insufficient blocks",
    "Invalid block definition",
    "Invalid character",
    "Invalid count argument",
    "Invalid expression",
    "Invalid for_each argument",
    "Invalid function argument",
    "Invalid index",
    "Invalid multi-line string",
    "Invalid provider configuration",
    "Invalid reference",
    "Invalid resource type",
    "Invalid template interpolation value",
    "Invalid value for variable",
    "Missing newline after argument",
    "Missing required argument",
    "Module not installed",
    "No value for required variable",
    "Resource instance managed by newer provider version",
    "Reference to undeclared input variable",
    "Reference to undeclared local value",
    "Reference to undeclared module",
    "Reference to undeclared resource",
    "Resource postcondition failed",
    "Resource precondition failed",
    "Unclosed configuration block",
    "Unknown provider function",
    "Unsupported argument",
    "Unsupported block type",
];

/// What a summary may have in it, and what that means. The first that fits is told.
const KNOWN: [(&str, &str); 7] = [
    (
        "Provider configuration not present",
        "the state has a resource of a provider block that the source no longer has; put the block back until that \
         resource is gone",
    ),
    (
        "already exists",
        "such an object is there already and the state does not have it; bring it in with an import block, or have \
         it deleted",
    ),
    (
        "exceeded quota",
        "a ResourceQuota of the namespace leaves no room for it",
    ),
    (
        "Waiting for rollout to finish",
        "its pods did not get ready in time",
    ),
    ("still exists", "it was not gone in time"),
    ("the time for it is over", "it was not done in time"),
    (
        "agent-sandbox lets no",
        "the sandbox refused a request that the approved plan does not have",
    ),
];

/// The most that approvers get of all messages together, in bytes.
const MAX_SUMMARIES: usize = 8 * 1024;

/// The errors, one sentence each, in Terraform's order.
pub(super) fn told(diagnostics: &[Diagnostic]) -> String {
    match errors(diagnostics, sentence).join(" ") {
        none if none.is_empty() => "Terraform gave no reason.".to_owned(),
        all => all,
    }
}

/// What `tell` says of the errors, each thing once.
fn errors(diagnostics: &[Diagnostic], tell: impl Fn(&Diagnostic) -> String) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for diagnostic in diagnostics.iter().filter(|d| d.error) {
        let text = tell(diagnostic);
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

/// The errors' summaries in Terraform's words, for approvers. What explains them is left out, and so is what stands
/// in quotes, keys of addresses included: there a provider repeats values, and the trail must not have them.
pub(super) fn summaries(diagnostics: &[Diagnostic]) -> String {
    let lines = errors(diagnostics, |d| match d.address.as_str() {
        "" => unquoted(&d.summary),
        address => format!("{}: {}", without_keys(address), unquoted(&d.summary)),
    });
    let mut all = lines.join("\n");
    all.truncate(all.floor_char_boundary(MAX_SUMMARIES));
    all
}

/// With a mark in the place of every quoted text; one that does not end goes on to the end.
fn unquoted(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut closing: Option<char> = None;
    let mut escaped = false;
    for c in text.chars() {
        match closing {
            Some(_) if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(end) if c == end => closing = None,
            Some(_) => {}
            None if matches!(c, '"' | '`') => {
                closing = Some(c);
                left.push_str("\"…\"");
            }
            None => left.push(c),
        }
    }
    left
}

fn sentence(diagnostic: &Diagnostic) -> String {
    let summary = diagnostic.summary.as_str();
    let known = KNOWN.iter().find(|(part, _)| summary.contains(part));
    let words = match known {
        Some((_, words)) => words,
        None if OWN_WORDS.contains(&summary) => summary,
        None => "a message that only approvers may see",
    };
    let mut places = Vec::new();
    if !diagnostic.file.is_empty() {
        places.push(match diagnostic.line {
            0 => visible(&diagnostic.file),
            line => format!("{} line {line}", visible(&diagnostic.file)),
        });
    }
    if !diagnostic.address.is_empty() {
        // A key of for_each may be a value.
        places.push(visible(&without_keys(&diagnostic.address)));
    }
    if places.is_empty() {
        format!("{words}.")
    } else {
        format!("{}: {words}.", places.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(summary: &str, file: &str, line: u32, address: &str) -> Diagnostic {
        Diagnostic {
            error: true,
            summary: summary.to_owned(),
            detail: "canary-detail".to_owned(),
            file: file.to_owned(),
            line,
            address: address.to_owned(),
        }
    }

    #[test]
    fn terraforms_own_words_are_told_and_nobody_elses() {
        let diagnostics = [
            error("Unsupported argument", "main.tf", 3, ""),
            error("canary-password is wrong", "main.tf", 9, "terraform_data.a"),
            error("Invalid index", "", 0, "terraform_data.b[\"canary-key\"]"),
            Diagnostic {
                error: false,
                ..error("canary warning", "main.tf", 1, "")
            },
        ];
        assert_eq!(
            told(&diagnostics),
            "main.tf line 3: Unsupported argument. main.tf line 9, terraform_data.a: a message that only approvers may \
             see. terraform_data.b[*]: Invalid index."
        );
    }

    #[test]
    fn what_often_stops_an_apply_is_told_in_our_words_and_whole_to_approvers() {
        let quota = "Failed to create deployment: deployments.apps \"canary-b\" is forbidden: exceeded quota: canary";
        let there = "Failed to create deployment: deployments.apps \"canary-a\" already exists";
        let diagnostics = [
            error(there, "main.tf", 3, "kubernetes_deployment.a"),
            error(quota, "main.tf", 9, "kubernetes_deployment.b"),
        ];
        let said = told(&diagnostics);
        assert!(
            said.starts_with("main.tf line 3, kubernetes_deployment.a: such an object is there"),
            "{said}"
        );
        assert!(said.contains("import block"), "{said}");
        assert!(
            said.ends_with("a ResourceQuota of the namespace leaves no room for it."),
            "{said}"
        );
        assert!(!said.contains("canary"), "{said}");
        assert_eq!(
            summaries(&diagnostics),
            "kubernetes_deployment.a: Failed to create deployment: deployments.apps \"…\" already exists\n\
             kubernetes_deployment.b: Failed to create deployment: deployments.apps \"…\" is forbidden: exceeded quota: \
             canary"
        );
        let long = error(&"é".repeat(MAX_SUMMARIES), "", 0, "");
        assert!(summaries(&[long]).len() <= MAX_SUMMARIES);
    }

    #[test]
    fn what_a_provider_quotes_is_not_for_the_trail() {
        for (summary, left) in [
            (
                r#"Invalid value: "hunter2": a label"#,
                r#"Invalid value: "…": a label"#,
            ),
            (
                r#"Invalid value: "a\"hunter2\\": no"#,
                r#"Invalid value: "…": no"#,
            ),
            ("no `hunter\"2` here", "no \"…\" here"),
            (r#"cut off: "hunter2"#, r#"cut off: "…""#),
            ("it isn't there", "it isn't there"),
        ] {
            assert_eq!(unquoted(summary), left);
        }
        let keyed = error("Invalid index", "", 0, "terraform_data.b[\"hunter2\"]");
        assert_eq!(summaries(&[keyed]), "terraform_data.b[*]: Invalid index");
    }

    #[test]
    fn without_an_error_it_says_so() {
        assert_eq!(told(&[]), "Terraform gave no reason.");
    }
}
