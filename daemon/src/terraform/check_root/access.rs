//! What a user may not read, and the command that lets it.

use std::path::Path;

use rustix::fs::Access;

use super::fault::shown;

/// What its owner runs so that `user`, who this process is, can read `path`; `None` when it can.
pub(super) fn grant(folder: &Path, path: &Path, user: &str) -> Option<String> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    for parent in above {
        if parent.starts_with(folder) {
            break;
        }
        if is_denied(parent, Access::EXEC_OK) {
            let parent = shown(parent);
            return Some(format!(
                "{user} may not go through {parent}: setfacl -m u:{user}:x {parent}, or chmod o+x {parent}."
            ));
        }
    }
    let can = |path: &Path| {
        !is_denied(path, Access::READ_OK) && (!path.is_dir() || !is_denied(path, Access::EXEC_OK))
    };
    if can(folder)
        && path
            .ancestors()
            .take_while(|p| p.starts_with(folder))
            .all(can)
    {
        return None;
    }
    // All that is in it, and all that will be: whoever edits it makes new files.
    let folder = shown(folder);
    Some(format!(
        "{user} may not read it: setfacl -R -m u:{user}:rX -m d:u:{user}:rX {folder}, or chmod -R o+rX {folder}."
    ))
}

fn is_denied(path: &Path, how: Access) -> bool {
    rustix::fs::access(path, how) == Err(rustix::io::Errno::ACCESS)
}
