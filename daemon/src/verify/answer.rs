//! What the API server made of a try. A refusal counts only when it comes from the gate that is on trial:
//! an answer of 404 or 500, or a refusal for another reason, shows nothing about it.

use crate::report::chain;

/// What came back.
#[derive(Debug)]
pub(super) enum Answer {
    /// It was done, or would have been but for the dry run.
    LetThrough,
    /// 403 from the authorizer or admission, or 422 from an admission policy.
    Refused { code: u16, message: String },
    /// Anything else.
    Nothing(String),
}

/// What every `ValidatingAdmissionPolicy` begins with when it refuses.
pub(super) const POLICY: &str = "ValidatingAdmissionPolicy";

impl<T> From<kube::Result<T>> for Answer {
    fn from(answer: kube::Result<T>) -> Self {
        match answer {
            // What was answered is dropped unread: it could be a token.
            Ok(_) => Self::LetThrough,
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => Self::Refused {
                code: status.code,
                message: status.message.clone(),
            },
            Err(kube::Error::Api(status)) => {
                Self::Nothing(format!("{}: {}", status.code, status.message))
            }
            Err(e) => Self::Nothing(chain(&e)),
        }
    }
}

impl Answer {
    /// As it should be when it was refused in one of these `words`.
    pub(super) fn must_be_refused(self, words: &[&str]) -> Result<String, String> {
        match self {
            Self::Refused { code, message } if words.iter().any(|w| message.contains(w)) => {
                // What stands before names the object once more.
                let words = message.split_once(" is forbidden: ");
                let words = words.map_or(message.as_str(), |(_, words)| words);
                Ok(format!("refused with {code}: {words}"))
            }
            Self::Refused { code, message } => Err(format!(
                "refused, but not by the gate that should ({}), with {code}: {message}",
                words.join(" or ")
            )),
            Self::LetThrough => Err("it was let through".to_owned()),
            Self::Nothing(what) => Err(format!("this shows nothing: {what}")),
        }
    }

    /// As it should be when it was done: without this, a refusal beside it would mean little.
    pub(super) fn must_be_let_through(self) -> Result<String, String> {
        match self {
            Self::LetThrough => Ok("let through".to_owned()),
            Self::Refused { code, message } => Err(format!("refused with {code}: {message}")),
            Self::Nothing(what) => Err(format!("this shows nothing: {what}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn answer(code: u16, message: &str) -> Answer {
        let status = Status {
            code,
            message: message.to_owned(),
            ..Status::default()
        };
        Answer::from(Err::<(), _>(kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn only_the_gate_on_trial_can_refuse() {
        let by = |a: Answer| a.must_be_refused(&["User \"sandboxd\" cannot", POLICY]);
        assert!(by(answer(403, "forbidden: User \"sandboxd\" cannot list")).is_ok());
        assert!(by(answer(422, "ValidatingAdmissionPolicy 'x' denied")).is_ok());
        // An administrator who may not impersonate is refused as well, and that shows nothing.
        let other = by(answer(403, "User \"admin\" cannot impersonate")).unwrap_err();
        assert!(other.contains("not by the gate"), "{other}");
        for (code, message) in [
            (404, "User \"sandboxd\" cannot"),
            (409, POLICY),
            (500, POLICY),
            (429, POLICY),
            (401, "User \"sandboxd\" cannot"),
        ] {
            let nothing = by(answer(code, message)).unwrap_err();
            assert!(nothing.contains("shows nothing"), "{code}: {nothing}");
        }
        assert_eq!(by(Answer::from(Ok(()))).unwrap_err(), "it was let through");
    }

    #[test]
    fn what_must_be_let_through_must_not_be_refused() {
        assert!(Answer::from(Ok(())).must_be_let_through().is_ok());
        assert!(answer(403, "no").must_be_let_through().is_err());
        assert!(answer(500, "no").must_be_let_through().is_err());
    }
}
