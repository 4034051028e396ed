//! Approvals from the wish to the use.

mod edges;
mod four_eyes;
mod killed;
mod steps;

use sandbox_core::approval::Part;
use serde_json::Value;

use super::desk::Ask;
use super::trial::*;
use super::*;
use crate::store::fixture::{self, AGENT, AGENT_UID, binding, keep_plan, request};
