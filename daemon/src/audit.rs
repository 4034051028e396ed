//! The audit trail.
