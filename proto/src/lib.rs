//! The contracts between the binaries of agent-sandbox, generated from `proto/`.
//!
//! The `.proto` files carry the documentation. Nothing here decides anything.

/// What an agent may ask: `agent.sock`.
#[expect(missing_docs, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
pub mod agent {
    pub mod v1 {
        tonic::include_proto!("sandbox.agent.v1");
        /// The encoded `FileDescriptorSet` of this package alone, for reflection.
        pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.bin"));
    }
}

/// What a human may ask: `approver.sock`.
#[expect(missing_docs, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
pub mod approver {
    pub mod v1 {
        tonic::include_proto!("sandbox.approver.v1");
        /// The encoded `FileDescriptorSet` of this package alone.
        pub const FILE_DESCRIPTOR_SET: &[u8] =
            include_bytes!(concat!(env!("OUT_DIR"), "/approver.bin"));
    }
}

/// The frames between the daemon and the runner inside a Job.
#[expect(missing_docs, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
pub mod runner {
    pub mod v1 {
        tonic::include_proto!("sandbox.runner.v1");
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
