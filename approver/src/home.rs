//! Where this account keeps its state.
//!
//! The checkpoint is only worth something where nobody else can write. `HOME` is easily somebody else's
//! (`su`, `runuser` and some sudoers leave it alone), so a home that is not ours is passed over.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The folder for state of this uid, which may not exist yet; `None` when it has no home.
pub(crate) fn state_folder(uid: u32) -> Option<PathBuf> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    find(uid, |name| env::var_os(name), &passwd)
}

fn find(uid: u32, set: impl Fn(&str) -> Option<OsString>, passwd: &str) -> Option<PathBuf> {
    let set = |name| {
        set(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let ours =
        |home: &PathBuf| fs::metadata(home).is_ok_and(|found| found.is_dir() && found.uid() == uid);
    let home = || {
        set("HOME")
            .filter(ours)
            .or_else(|| home_in(passwd, uid).filter(ours))
    };
    set("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")))
}

/// The home of the first account with this uid.
fn home_in(passwd: &str, uid: u32) -> Option<PathBuf> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, id, _, _, home, _] = fields[..] else {
            return None;
        };
        (id.parse() == Ok(uid) && home.starts_with('/')).then(|| home.into())
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const NOBODYS: u32 = 4_000_000_000;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn found(uid: u32, set: &[(&str, &Path)], passwd: &str) -> Option<PathBuf> {
        let set = |name: &str| {
            set.iter()
                .find(|(other, _)| *other == name)
                .map(|(_, path)| (*path).into())
        };
        find(uid, set, passwd)
    }

    #[test]
    fn a_home_that_is_somebody_elses_is_passed_over() {
        let (named, own_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let passwd = format!("a:x:{}:7::{}:/bin/sh\n", own(), own_home.path().display());
        let home = [("HOME", named.path())];
        assert_eq!(
            found(own(), &home, &passwd),
            Some(named.path().join(".local/state"))
        );
        assert_eq!(found(NOBODYS, &home, &passwd), None);
        let missing = [("HOME", Path::new("/nonexistent"))];
        assert_eq!(
            found(own(), &missing, &passwd),
            Some(own_home.path().join(".local/state"))
        );
        assert_eq!(found(own(), &missing, ""), None);
    }

    #[test]
    fn a_state_folder_that_was_named_comes_first_if_it_is_absolute() {
        let named = Path::new("/somewhere/state");
        assert_eq!(
            found(NOBODYS, &[("XDG_STATE_HOME", named)], ""),
            Some(named.to_owned())
        );
        assert_eq!(
            found(NOBODYS, &[("XDG_STATE_HOME", Path::new("state"))], ""),
            None
        );
    }

    #[test]
    fn the_first_account_of_the_uid_gives_the_home() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\na:x:7:7::/home/a:/bin/sh\nb:x:7:7::/home/b:/x\nc:x:8:8:::/x\n";
        assert_eq!(home_in(passwd, 7), Some("/home/a".into()));
        assert_eq!(home_in(passwd, 8), None);
        assert_eq!(home_in(passwd, 9), None);
    }
}
