//! Makes this process opaque to the others in its container, before it holds anything.

use rustix::io;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Closes `/proc/PID/fd` and `/proc/PID/mem` to other processes of this uid, and leaves no core.
///
/// Without it another process in the container can write frames of its own into our stdout through
/// `/proc/PID/fd/1`, or read the credential from our memory.
///
/// # Errors
/// When the kernel refuses; the runner then takes no request.
pub fn become_opaque() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)
}

/// Has a panic say where it happened and nothing of what it was about: the payload may quote data.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| match panic.location() {
        Some(at) => eprintln!("runner: internal fault at {}:{}", at.file(), at.line()),
        None => eprintln!("runner: internal fault"),
    }));
}
