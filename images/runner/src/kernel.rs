//! What the kernel says of itself. Under gVisor that is the sentry's text; it is a claim for the
//! record, not a proof.

use std::{fs, io};

use crate::text;

/// Where the kernel describes itself.
pub const PATH: &str = "/proc/version";

/// The kernel's own description, one line.
///
/// # Errors
/// When [`PATH`] cannot be read.
pub fn text() -> io::Result<String> {
    let text = fs::read(PATH)?;
    Ok(text::clip(String::from_utf8_lossy(&text).trim(), 512))
}
