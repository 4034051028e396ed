//! What is packed of a folder, what is passed over, and what is refused: links, other names of a file,
//! what is no file, and too much of anything.

#![cfg(test)]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox_bundle::{Bundle, Limits, PackError, RootFolder};
use tempfile::TempDir;

/// A folder on disk with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn root(dir: &Path) -> RootFolder {
    RootFolder {
        folder: dir.canonicalize().unwrap(),
        var_files: Vec::new(),
        data: Vec::new(),
    }
}

fn pack(dir: &TempDir) -> Result<Bundle, PackError> {
    Bundle::pack(&root(dir.path()), &Limits::default())
}

fn paths(bundle: &Bundle) -> Vec<&str> {
    bundle.files().iter().map(|f| f.path.as_str()).collect()
}

#[track_caller]
fn refused(result: Result<Bundle, PackError>, words: &[&str]) {
    let said = result.unwrap_err().to_string();
    for word in words {
        assert!(said.contains(word), "wanted {word:?} in {said:?}");
    }
}

const CALL: &[u8] = b"module \"m\" {\n  source = \"./modules/m\"\n}\n";

#[test]
fn what_terraform_reads_is_packed_and_nothing_else() {
    let dir = folder(&[
        ("main.tf", CALL),
        (
            "more.tf.json",
            b"{\"module\": [{\"n\": {\"source\": \"./modules/n/\"}}]}",
        ),
        ("#half.tf", b""),
        ("~half.tf", b""),
        (".terraform.lock.hcl", b"# lock\n"),
        (
            "modules/m/main.tf",
            b"module \"deeper\" {\n  source = \"../../inner\"\n}\n",
        ),
        ("modules/m/terraform.tfvars", b"x = 1"),
        ("modules/m/.terraform.lock.hcl", b""),
        ("modules/n/main.tf.json", b"{}"),
        ("inner/a.tf", b""),
        // None of these is Terraform's to read.
        ("modules/unused/main.tf", b"broken"),
        ("examples/main.tf", b"broken"),
        (".hidden.tf", b"broken"),
        ("main.tf~", b"broken"),
        ("#main.tf#", b"broken"),
        ("MAIN.TF", b"broken"),
        ("main.tf.bak", b"broken"),
        ("tests/a.tftest.hcl", b"broken"),
        ("a.tftest.hcl", b"broken"),
        ("terraform.tfstate", b"{}"),
        ("terraform.tfstate.backup", b"{}"),
        ("terraform.tfstate.d/x/terraform.tfstate", b"{}"),
        (".terraform/modules/modules.json", b"{}"),
        (".terraform/providers/x", b""),
        (".git/config", b""),
        ("prod.tfvars", b"x = 1"),
        ("README.md", b""),
        ("script.sh", b""),
        ("folder.tf/main.tf", b"broken"),
    ]);
    symlink("nobody@nowhere.1:2", dir.path().join(".#main.tf")).unwrap();
    symlink("nobody@nowhere.1:2", dir.path().join(".#x.auto.tfvars")).unwrap();
    symlink("/etc/passwd", dir.path().join("notes.txt")).unwrap();
    fs::write(
        dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.txt")),
        "",
    )
    .unwrap();
    let bundle = pack(&dir).unwrap();
    assert_eq!(
        paths(&bundle),
        [
            "#half.tf",
            ".terraform.lock.hcl",
            "inner/a.tf",
            "main.tf",
            "modules/m/main.tf",
            "modules/n/main.tf.json",
            "more.tf.json",
            "~half.tf",
        ]
    );
    assert_eq!(bundle.lock_file(), Some(&b"# lock\n"[..]));
    assert_eq!(bundle.file("main.tf"), Some(CALL));
    assert_eq!(bundle.file("README.md"), None);
}

#[test]
fn bytes_are_kept_and_modes_and_times_do_not_count() {
    let bytes = b"\xef\xbb\xbfa = <<EOT\r\n\xc3\xa9\r\nEOT\r\n";
    let dir = folder(&[("main.tf", bytes), ("latin.tf", b"# \xe9\n")]);
    let before = pack(&dir).unwrap();
    assert_eq!(before.file("main.tf"), Some(&bytes[..]));
    assert_eq!(before.file("latin.tf"), Some(&b"# \xe9\n"[..]));
    let path = dir.path().join("main.tf");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let after = pack(&dir).unwrap();
    assert_eq!(after, before);
    assert_eq!(after.digest(), before.digest());
    fs::write(&path, b"\xef\xbb\xbfa = 1\n").unwrap();
    assert_ne!(pack(&dir).unwrap().digest(), before.digest());
}

#[test]
fn no_link_is_followed() {
    let dir = folder(&[("main.tf", CALL), ("elsewhere/main.tf", b"")]);
    symlink("main.tf", dir.path().join("linked.tf")).unwrap();
    refused(pack(&dir), &["linked.tf", "symbolic link"]);
    fs::remove_file(dir.path().join("linked.tf")).unwrap();
    // A dangling one that is not an editor's would be an error in Terraform.
    symlink("nowhere", dir.path().join("dangling.tf.json")).unwrap();
    refused(pack(&dir), &["dangling.tf.json", "symbolic link"]);
    fs::remove_file(dir.path().join("dangling.tf.json")).unwrap();

    symlink("elsewhere", dir.path().join("modules")).unwrap();
    refused(pack(&dir), &["modules/m", "symbolic link"]);
    fs::remove_file(dir.path().join("modules")).unwrap();
    fs::create_dir(dir.path().join("modules")).unwrap();
    symlink("../elsewhere", dir.path().join("modules/m")).unwrap();
    refused(pack(&dir), &["modules/m", "symbolic link"]);
    fs::remove_file(dir.path().join("modules/m")).unwrap();

    symlink("../../etc/passwd", dir.path().join(".terraform.lock.hcl")).unwrap();
    refused(pack(&dir), &[".terraform.lock.hcl", "symbolic link"]);
}

#[test]
fn the_roots_own_path_has_no_link_in_it() {
    let dir = folder(&[("real/root/main.tf", b"")]);
    let real = dir.path().canonicalize().unwrap();
    symlink("real", real.join("link")).unwrap();
    let mut root = root(&real.join("real/root"));
    assert!(Bundle::pack(&root, &Limits::default()).is_ok());
    root.folder = real.join("link/root");
    let wanted = real.join("real/root");
    refused(
        Bundle::pack(&root, &Limits::default()),
        &["symbolic link", wanted.to_str().unwrap()],
    );
    root.folder = real.join("nothing");
    refused(
        Bundle::pack(&root, &Limits::default()),
        &["it is not there"],
    );
    root.folder = real.join("real/root/main.tf");
    refused(Bundle::pack(&root, &Limits::default()), &["not a folder"]);
    root.folder = PathBuf::from("real/../real/root");
    assert!(Bundle::pack(&root, &Limits::default()).is_err());
}

#[test]
fn a_file_has_one_name_and_is_a_file() {
    let dir = folder(&[("main.tf", b""), ("secret", b"x")]);
    fs::hard_link(dir.path().join("secret"), dir.path().join("a.tf")).unwrap();
    refused(pack(&dir), &["a.tf", "hard link"]);
    fs::remove_file(dir.path().join("a.tf")).unwrap();

    let pipe = dir.path().join("pipe.tf");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    refused(pack(&dir), &["pipe.tf", "no regular file"]); // and does not wait for the other end
    fs::remove_file(&pipe).unwrap();

    let socket = dir.path().join("socket.tf.json");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused(pack(&dir), &["socket.tf.json", "no regular file"]);
}

#[test]
fn values_that_terraform_reads_unasked_must_be_listed() {
    for name in [
        "terraform.tfvars",
        "terraform.tfvars.json",
        "x.auto.tfvars",
        "x.auto.tfvars.json",
        ".hidden.auto.tfvars",
        "x~.auto.tfvars",
    ] {
        let dir = folder(&[
            ("main.tf", b""),
            (name, b"a = 1"),
            ("env/prod.tfvars", b"b = 1"),
        ]);
        refused(pack(&dir), &[name, "var_files"]);
        let mut root = root(dir.path());
        root.data = vec![name.to_owned()];
        assert!(
            Bundle::pack(&root, &Limits::default()).is_err(),
            "data is no way round it: {name}"
        );
        root.data.clear();
        root.var_files = vec!["env/prod.tfvars".to_owned(), name.to_owned()];
        let packed = Bundle::pack(&root, &Limits::default());
        if name.starts_with('.') {
            refused(packed, &["hidden"]);
        } else {
            assert_eq!(
                paths(&packed.unwrap()),
                ["env/prod.tfvars", "main.tf", name]
            );
        }
    }
}

#[test]
fn only_an_editors_own_mark_is_a_link_that_is_passed_over() {
    let dir = folder(&[("main.tf", b"")]);
    symlink("nowhere", dir.path().join("x.auto.tfvars")).unwrap();
    refused(pack(&dir), &["x.auto.tfvars", "var_files"]);
    fs::remove_file(dir.path().join("x.auto.tfvars")).unwrap();
    fs::write(dir.path().join(".#x.auto.tfvars"), "").unwrap();
    refused(pack(&dir), &[".#x.auto.tfvars", "var_files"]);
}

#[test]
fn listed_files_are_there_beneath_the_folder() {
    let dir = folder(&[("main.tf", b"")]);
    for (listed, word) in [
        ("nothing.tfvars", "not there"),
        ("../x.tfvars", "'..'"),
        ("/etc/passwd", "absolute"),
        ("a/./b", "'.'"),
        ("", "empty"),
        ("terraform.tfstate", "state"),
        (".env", "hidden"),
    ] {
        let mut root = root(dir.path());
        root.var_files = vec![listed.to_owned()];
        refused(Bundle::pack(&root, &Limits::default()), &[word]);
        root.data = std::mem::take(&mut root.var_files);
        refused(Bundle::pack(&root, &Limits::default()), &[word]);
    }
}

#[test]
fn data_is_a_file_or_a_folder_with_all_that_is_in_it() {
    let dir = folder(&[
        ("main.tf", b""),
        ("one.tpl", b"1"),
        ("templates/a.tpl", b"a"),
        ("templates/deep/b.bin", b"\x00\xff"),
        ("templates/.git/config", b""),
        ("templates/a.tpl~", b""),
        ("templates/c.tf", b""),
        ("other/x", b""),
    ]);
    let mut root = root(dir.path());
    root.data = vec![
        "templates/".to_owned(),
        "one.tpl".to_owned(),
        "one.tpl".to_owned(),
    ];
    let bundle = Bundle::pack(&root, &Limits::default()).unwrap();
    assert_eq!(
        paths(&bundle),
        [
            "main.tf",
            "one.tpl",
            "templates/a.tpl",
            "templates/c.tf",
            "templates/deep/b.bin"
        ]
    );
    symlink("/etc", dir.path().join("templates/deep/etc")).unwrap();
    refused(
        Bundle::pack(&root, &Limits::default()),
        &["templates/deep/etc", "symbolic link"],
    );
}

#[test]
fn names_are_text_without_tricks() {
    let dir = folder(&[("main.tf", b"")]);
    let bad = dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.tf"));
    fs::write(&bad, "").unwrap();
    refused(pack(&dir), &["not UTF-8"]);
    fs::remove_file(bad).unwrap();
    let hidden_end = dir.path().join("a\u{202e}ft.tf");
    fs::write(&hidden_end, "").unwrap();
    refused(pack(&dir), &["a\\u{202e}ft.tf", "position 2"]);
    fs::remove_file(hidden_end).unwrap();
    fs::write(dir.path().join("Main.tf"), "").unwrap();
    refused(pack(&dir), &["Main.tf", "main.tf", "case"]);
}

#[test]
fn an_empty_folder_is_no_root() {
    refused(pack(&folder(&[("README.md", b"")])), &["no *.tf"]);
}

#[test]
fn each_limit_is_exact_and_named() {
    let dir = folder(&[
        ("main.tf", b"module \"m\" { source = \"./a/b\" }\n"), // 32 bytes
        ("a/b/main.tf", b"12345678"),
    ]);
    let exact = Limits {
        bytes: 40,
        files: 2,
        depth: 2,
        entries: 5, // two folders, and "main.tf", "a", "main.tf" in them
    };
    let pack = |limits: Limits| Bundle::pack(&root(dir.path()), &limits);
    assert_eq!(pack(exact).unwrap().files().len(), 2);
    refused(
        pack(Limits { bytes: 39, ..exact }),
        &["more than 39 bytes", "a/b/main.tf"],
    );
    refused(
        pack(Limits { files: 1, ..exact }),
        &["more than 1 files", "a/b/main.tf"],
    );
    refused(
        pack(Limits { depth: 1, ..exact }),
        &["more than 1 folders deep", "a/b/main.tf"],
    );
    refused(
        pack(Limits {
            entries: 4,
            ..exact
        }),
        &["more than 4 entries", "a/b"],
    );
}

#[test]
fn what_is_swapped_for_a_link_meanwhile_is_never_read_through_it() {
    let dir = folder(&[
        ("root/main.tf", CALL),
        ("root/modules/m/main.tf", b"# ours\n"),
        ("outside/main.tf", b"# SECRET\n"),
    ]);
    let at = dir.path().canonicalize().unwrap();
    let module = at.join("root/modules/m");
    let stop = AtomicBool::new(false);
    let (mut packed, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let _told = Told(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // The file, then the folder it is in, as fast as it goes.
                drop(fs::rename(module.join("main.tf"), at.join("kept")));
                drop(symlink(at.join("outside/main.tf"), module.join("main.tf")));
                drop(fs::rename(at.join("kept"), module.join("main.tf")));
                drop(fs::rename(&module, at.join("kept-folder")));
                drop(symlink(at.join("outside"), &module));
                drop(fs::remove_file(&module));
                drop(fs::rename(at.join("kept-folder"), &module));
            }
        });
        for _ in 0..3_000 {
            match Bundle::pack(&root(&at.join("root")), &Limits::default()) {
                Ok(bundle) => {
                    packed += 1;
                    let file = bundle.file("modules/m/main.tf");
                    assert!(matches!(file, None | Some(b"# ours\n")), "{file:?}");
                }
                Err(_) => refused += 1,
            }
        }
    });
    assert!(
        packed > 0 && refused > 0,
        "{packed} packed, {refused} refused: nothing was swapped in time"
    );
}

/// Ends a thread that runs until it is told, also when a test fails before it tells.
struct Told<'t>(&'t AtomicBool);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_is_written_to_while_it_is_read_is_refused() {
    use std::os::unix::fs::FileExt as _;
    // Longer to read than a tick of the file system's clock.
    let dir = folder(&[("main.tf", b""), ("data", &vec![b'x'; 6 << 20])]);
    let mut root = root(dir.path());
    root.data = vec!["data".to_owned()];
    let file = fs::File::options()
        .write(true)
        .open(dir.path().join("data"))
        .unwrap();
    let stop = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        let _told = Told(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                file.write_all_at(b"y", 0).unwrap(); // the length stays
            }
        });
        (0..200).find_map(|_| Bundle::pack(&root, &Limits::default()).err())
    });
    let said = said.unwrap().to_string();
    assert!(said.contains("written to while it was read"), "{said:?}");
}
