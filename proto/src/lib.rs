//! The contracts between the binaries of agent-sandbox, generated from `proto/`.
//!
//! The `.proto` files carry the documentation. Nothing here decides anything.

/// What an agent may ask: `agent.sock`.
#[cfg(feature = "grpc")]
#[expect(
    missing_docs,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod agent {
    pub mod v1 {
        tonic::include_proto!("sandbox.agent.v1");
        /// The encoded `FileDescriptorSet` of this package alone, for reflection.
        pub const FILE_DESCRIPTOR_SET: &[u8] =
            include_bytes!(concat!(env!("OUT_DIR"), "/agent.bin"));
    }
}

/// What a human may ask: `approver.sock`.
#[cfg(feature = "grpc")]
#[expect(
    missing_docs,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod approver {
    pub mod v1 {
        tonic::include_proto!("sandbox.approver.v1");
        /// The encoded `FileDescriptorSet` of this package alone.
        pub const FILE_DESCRIPTOR_SET: &[u8] =
            include_bytes!(concat!(env!("OUT_DIR"), "/approver.bin"));
    }
}

/// The frames between the daemon and the runner inside a Job.
#[expect(missing_docs, clippy::pedantic, reason = "generated code")]
pub mod runner {
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/sandbox.runner.v1.rs"));
    }
}

/// Start carries the credential, so its `Debug` tells how long that is and nothing else of it.
impl std::fmt::Debug for runner::v1::Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start")
            .field("request_id", &self.request_id)
            .field(
                "credential",
                &format_args!("[{} bytes]", self.credential.len()),
            )
            .field("api_server", &self.api_server)
            .field("timeout_ms", &self.timeout_ms)
            .field("work", &self.work)
            .finish()
    }
}

/// The version of the agent and approver contracts. A client that speaks another one is told so.
pub const PROTOCOL_VERSION: u32 = 1;

/// The version of the runner's frames; runner and daemon must agree exactly, they ship together.
pub const RUNNER_PROTOCOL_VERSION: u32 = 1;

/// The longest frame either side of a runner stream may send, in bytes, length prefix not counted.
///
/// A frame is a 4-byte big-endian length and that many bytes of one protobuf message.
pub const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::runner::v1::{Start, ToRunner, to_runner::Frame};

    #[test]
    fn a_start_frame_does_not_print_its_credential() {
        let start = Start {
            request_id: "request-1".to_owned(),
            credential: "canary-token".into(),
            ..Start::default()
        };
        let printed = format!(
            "{:#?}",
            ToRunner {
                frame: Some(Frame::Start(start))
            }
        );
        assert!(
            printed.contains("request-1") && printed.contains("[12 bytes]"),
            "{printed}"
        );
        assert!(!printed.contains("canary"), "{printed}");
    }
}
