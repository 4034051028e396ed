//! The services on the two sockets. The only place that names their protobuf types.

mod agent;
mod approver;
mod refuse;

pub use agent::agent_routes;
pub use approver::{ApproverParts, approver_routes};
pub use refuse::admit_principals;
