//! Generates the Rust side of the `.proto` files with protox, so no `protoc` is needed, and one
//! descriptor set per socket: reflection lists what is in its set, so the agent's socket must never
//! be handed a set that names the approver's service.
#![expect(
    clippy::unwrap_used,
    reason = "a build script's failure is a build error"
)]

use std::{env, fs, path::PathBuf};

use prost::Message as _;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    for name in ["agent", "approver", "runner"] {
        let file = format!("proto/sandbox/{name}/v1/{name}.proto");
        println!("cargo:rerun-if-changed={file}");
        let set = protox::compile([&file], ["proto"]).unwrap();
        fs::write(out.join(format!("{name}.bin")), set.encode_to_vec()).unwrap();
        tonic_prost_build::configure()
            .bytes(".")
            // It carries the credential; `lib.rs` prints it without.
            .skip_debug([".sandbox.runner.v1.Start"])
            .type_attribute(".sandbox.runner.v1.Start.work", "#[derive(Debug)]")
            .compile_fds(set)
            .unwrap();
    }
}
