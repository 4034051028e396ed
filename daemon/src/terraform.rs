//! Terraform roots: plans, and applies of exactly what was planned and approved.
//!
//! A plan is made by Terraform in one sandbox, with a credential that reads. What it says is read in a second,
//! fresh one without a credential, from the plan file alone. An apply takes that very file, once, after
//! everything it was bound to was worked out again and found the same.

mod apply;
mod at_rest;
mod check;
mod check_root;
mod failed;
mod kept;
mod launch;
mod outputs;
mod portable;
mod progress;
mod roots;
mod run;
mod shown;
mod source;
mod state;
mod variables;

pub(crate) use apply::apply;
pub use check_root::CheckRoot;
pub(crate) use kept::plan;
pub use portable::StateCommand;
pub use roots::{Root, Roots};
pub use source::Keyed;
