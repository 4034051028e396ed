//! What Terraform makes of a file by its name alone.

use crate::path::LOCK_FILE;

/// What Terraform makes of a file in a folder that it reads.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Role {
    /// Configuration in native syntax.
    Native,
    /// Configuration in JSON syntax.
    Json,
    /// Values of variables that it reads unasked, in the root's own folder.
    AutoValues,
    /// The lock file, in the root's own folder.
    Lock,
    /// It does not look at it unless told to.
    None,
}

/// The role of `name`, a file's name without its folder. Names are told apart by case, as Terraform does.
pub(crate) fn role(name: &str) -> Role {
    if name == LOCK_FILE {
        return Role::Lock;
    }
    // Values first: Terraform does not pass over hidden or backup files here.
    if matches!(name, "terraform.tfvars" | "terraform.tfvars.json")
        || ends_with(name, ".auto.tfvars")
        || ends_with(name, ".auto.tfvars.json")
    {
        return Role::AutoValues;
    }
    if is_ignored(name) {
        Role::None
    } else if ends_with(name, ".tf") {
        Role::Native
    } else if ends_with(name, ".tf.json") {
        Role::Json
    } else {
        Role::None
    }
}

/// By bytes: `MAIN.TF` is no configuration.
pub(crate) fn ends_with(name: &str, end: &str) -> bool {
    name.as_bytes().ends_with(end.as_bytes())
}

/// Whether Terraform takes it for a hidden file or what an editor left behind.
pub(crate) fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || name.ends_with('~') || name.starts_with('#') && name.ends_with('#')
}

/// Whether it is configuration that changes what other files say.
pub(crate) fn is_override(name: &str) -> bool {
    let Some(base) = name
        .strip_suffix(".tf")
        .or_else(|| name.strip_suffix(".tf.json"))
    else {
        return false;
    };
    base == "override" || base.ends_with("_override")
}
