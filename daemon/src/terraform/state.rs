//! States: what of one is looked at, and how those that an apply writes are kept, with what it tells of itself.

use sandbox_core::ids::RequestId;
use sandbox_proto::runner::v1::artifact::Kind;
use sandbox_proto::runner::v1::{Operation, Output, TerraformResult, operation, output};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Root, at_rest};
use crate::report::{Code, Failure, chain};
use crate::request::{Keep, Parts};
use crate::sandbox::Made;
use crate::store::{DataKey, NewState, Of, StoreError};

/// What tells one state from another.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub(super) struct Head {
    /// Of the JSON format; Terraform 1.11 writes 4.
    pub(super) version: u64,
    /// The same for all states of one history.
    pub(super) lineage: String,
    /// Rises with each.
    pub(super) serial: u64,
}

impl Head {
    /// Reads the head of a state.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let head: Self = serde_json::from_slice(bytes)
            .map_err(|e| format!("it is no state of Terraform's ({e})"))?;
        if head.version != 4 {
            return Err(format!("its format is version {}, not 4", head.version));
        }
        if head.lineage.is_empty() || head.lineage.len() > 128 {
            return Err("its lineage is missing or too long".to_owned());
        }
        Ok(head)
    }
}

/// Keeps each state of an apply as soon as it comes, so that a lost sandbox costs at most what was under way.
pub(super) struct States<'a> {
    parts: &'a Parts,
    root: &'a Root,
    request: RequestId,
    data_key: Option<&'a DataKey>,
    /// Whether a sandbox may have the work.
    pub(super) sent: bool,
    /// How many were kept.
    pub(super) kept: u32,
    /// Operations that began, each as it was last heard of.
    pub(super) operations: Vec<Operation>,
    /// Where the work failed after Terraform had ended: what Terraform said.
    pub(super) result: Option<TerraformResult>,
    /// The newest, where something of it is told.
    pub(super) last: Option<Zeroizing<Vec<u8>>>,
}

impl<'a> States<'a> {
    pub(super) fn new(
        parts: &'a Parts,
        root: &'a Root,
        request: RequestId,
        data_key: Option<&'a DataKey>,
    ) -> Self {
        Self {
            parts,
            root,
            request,
            data_key,
            sent: false,
            kept: 0,
            operations: Vec::new(),
            result: None,
            last: None,
        }
    }

    fn encrypted(&self, head: &Head, bytes: &[u8]) -> Result<NewState, Failure> {
        let of = Of::State {
            root: &self.root.name,
            lineage: &head.lineage,
            serial: head.serial,
        };
        Ok(NewState {
            root: self.root.name.clone(),
            lineage: head.lineage.clone(),
            serial: head.serial,
            bytes: at_rest::close(bytes, of, self.data_key)?,
            request: Some(self.request),
        })
    }
}

impl Keep for States<'_> {
    fn sent(&mut self) {
        self.sent = true;
    }

    async fn keep(&mut self, made: Made) -> Result<(), Failure> {
        if made.kind != Kind::State {
            return Err(Failure::new(
                Code::Internal,
                "The runner sent a file that is no state.",
            ));
        }
        let head = Head::read(&made.bytes).map_err(|why| {
            Failure::new(
                Code::Internal,
                format!("The runner sent a state that cannot be kept: {why}."),
            )
        })?;
        let state = || self.encrypted(&head, &made.bytes);
        let (store, now_ms) = (&self.parts.store, self.parts.clock.now_ms());
        let mut kept = store.add_state(state()?, now_ms).await;
        // Terraform counts up once for an apply, whatever it writes on the way: of our own the newest stands.
        if let Err(StoreError::StateDoesNotFollow {
            kept_lineage,
            kept_serial,
            ..
        }) = &kept
            && self.kept > 0
            && (kept_lineage, *kept_serial) == (&head.lineage, head.serial)
        {
            kept = store.replace_state(state()?, now_ms).await;
        }
        match kept {
            Ok(()) => {
                self.kept += 1;
                self.last = (!self.root.settings.agent_outputs.is_empty()).then_some(made.bytes);
                Ok(())
            }
            Err(e) => {
                tracing::error!(root = %self.root.name, error = chain(&e), "a state was not kept");
                Err(Failure::new(
                    Code::StoreUnavailable,
                    format!("A state of the root could not be kept: {e}."),
                ))
            }
        }
    }

    fn operation(&mut self, operation: Operation) {
        // A leftover shares its address with the living one: what has ended stays as it ended.
        let same = |known: &&mut Operation| {
            known.state() == operation::State::Started
                && known.address == operation.address
                && known.action == operation.action
        };
        match self.operations.iter_mut().find(same) {
            Some(known) => *known = operation,
            None => self.operations.push(operation),
        }
    }

    fn partial(&mut self, output: Output) {
        if let Some(output::Output::Terraform(result)) = output.output {
            self.result = Some(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_known_by_its_head_and_others_are_refused() {
        let good = br#"{"version":4,"terraform_version":"1.11.4","serial":3,"lineage":"6f1c","resources":[]}"#;
        let head = Head::read(good).unwrap();
        assert_eq!((head.lineage.as_str(), head.serial), ("6f1c", 3));
        for (bad, word) in [
            (&b"{}"[..], "no state"),
            (b"", "no state"),
            (br#"{"version":3,"serial":3,"lineage":"a"}"#, "version 3"),
            (br#"{"version":4,"serial":3,"lineage":""}"#, "lineage"),
            (br#"{"version":4,"serial":-1,"lineage":"a"}"#, "no state"),
        ] {
            assert!(Head::read(bad).unwrap_err().contains(word), "{word}");
        }
    }
}
