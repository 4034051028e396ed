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
            let quoted = quoted(parent);
            return Some(format!(
                "{user} may not go through {}: setfacl -m u:{user}:x {quoted}, or chmod o+x {quoted}.",
                shown(parent)
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
    let folder = quoted(folder);
    Some(format!(
        "{user} may not read it: setfacl -R -m u:{user}:rX -m d:u:{user}:rX {folder}, or chmod -R o+rX {folder}."
    ))
}

fn is_denied(path: &Path, how: Access) -> bool {
    rustix::fs::access(path, how) == Err(rustix::io::Errno::ACCESS)
}

/// One word of a shell's command line. A path with a control character or one outside ASCII is not found by that name,
/// but neither does a terminal nor a shell take it for anything else.
fn quoted(path: &Path) -> String {
    let mut word = String::from("'");
    for c in path.to_string_lossy().chars() {
        match c {
            '\'' => word.push_str("'\\''"),
            ' '..='~' => word.push(c),
            _ => word.extend(c.escape_default()),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_to_a_shell() {
        for path in ["/home/a/b c", "/a'; touch b #", "/a$(id)`id`\\\"*", "/''"] {
            let said = std::process::Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quoted(Path::new(path))))
                .output()
                .unwrap();
            assert_eq!(path, String::from_utf8_lossy(&said.stdout));
        }
    }

    #[test]
    fn a_path_is_nothing_to_a_terminal() {
        assert_eq!(
            r"'/a\u{1b}]0;b\u{7}\n\u{202e}'",
            quoted(Path::new("/a\u{1b}]0;b\u{7}\n\u{202e}"))
        );
    }
}
