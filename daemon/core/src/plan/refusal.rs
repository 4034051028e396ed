//! Why a plan is not taken.

/// Why a plan is not taken. Agents see these, so none of them repeats a value of the plan: an address
/// comes without the keys of its instances, a field by its name in the provider's schema.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlanRefusal {
    /// It is not what `terraform show -json` prints.
    #[error("the plan is not what \"terraform show -json\" prints: {0}")]
    Unreadable(String),
    /// Its version, or something in it, is not of the Terraform it is known from.
    #[error(
        "{place} {problem}, which Terraform 1.11 does not write; use the Terraform of the runner's image"
    )]
    Unknown {
        /// Where.
        place: String,
        /// What is there, as a clause.
        problem: String,
    },
    /// Planning failed, or did not get to its end.
    #[error("{0}; plan again")]
    NotWhole(&'static str),
    /// One resource is not taken.
    #[error("{address}: {field} {problem}; {next}")]
    Resource {
        /// Where in the configuration, without the keys of instances.
        address: String,
        /// Which attribute, or what about it.
        field: String,
        /// What is wrong with it, as a clause that follows the field.
        problem: String,
        /// What to do.
        next: String,
    },
    /// Too much for one review.
    #[error(
        "the plan has {found} changes, at most {limit} can be reviewed at once; plan a part of it as a root of its own"
    )]
    TooManyChanges {
        /// How many there are.
        found: usize,
        /// How many may be.
        limit: usize,
    },
    /// Too long for one review.
    #[error(
        "the plan takes {found} bytes to show, at most {limit} can be reviewed; the longest is {longest} of {address}"
    )]
    TooLong {
        /// How long it is.
        found: usize,
        /// How long it may be.
        limit: usize,
        /// The attribute that takes most.
        longest: String,
        /// Of which resource.
        address: String,
    },
    /// More bytes than are read at all.
    #[error("the plan is {found} bytes of JSON, at most {limit} are read")]
    TooLarge {
        /// How many there are.
        found: usize,
        /// How many are read.
        limit: usize,
    },
}

impl PlanRefusal {
    pub(super) fn unknown(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Unknown {
            place: place.into(),
            problem: problem.into(),
        }
    }
}
