//! The `mcp-bridge` binary; everything is in the library.

fn main() -> std::process::ExitCode {
    mcp_bridge::run()
}
