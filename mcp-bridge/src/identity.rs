//! What the bridge says of itself.

use rmcp::model::{
    DiscoverResult, Implementation, InitializeResult, MetaObject, ProtocolVersion,
    ServerCapabilities, ToolsCapability,
};

/// What a model should know before it calls anything.
const INSTRUCTIONS: &str = "Tools run in a one-shot sandbox with a credential made for that call \
    alone; policy decides each call, and no tool can approve one. A call that takes long answers \
    with outcome \"running\" and a request_id: ask get_request, do not repeat the call. A failed \
    call says what to do under \"next\".";

/// The answer to `initialize`.
pub(crate) fn initialize_result(version: ProtocolVersion) -> InitializeResult {
    InitializeResult::new(capabilities())
        .with_protocol_version(version)
        .with_server_info(implementation())
        .with_instructions(INSTRUCTIONS)
}

/// The answer to `server/discover`.
pub(crate) fn discover_result() -> DiscoverResult {
    let mut result = DiscoverResult::new(ProtocolVersion::KNOWN_VERSIONS.to_vec(), capabilities())
        .with_server_info(implementation());
    result.instructions = Some(INSTRUCTIONS.to_owned());
    result
}

/// The `_meta` of results from MCP 2026-07-28 on.
pub(crate) fn result_meta() -> MetaObject {
    discover_result().meta.unwrap_or_default()
}

fn capabilities() -> ServerCapabilities {
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(true);
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(tools);
    capabilities
}

fn implementation() -> Implementation {
    Implementation::new("agent-sandbox", env!("CARGO_PKG_VERSION")).with_title("agent-sandbox")
}
