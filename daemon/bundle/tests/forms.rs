//! A bundle has one form, whatever the files are; nothing else is read as one; and no bytes make the check
//! of the source panic.

#![cfg(test)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use sandbox_bundle::{Bundle, File, FileAction, Limits, Rules, TarError, diff};
use sha2::{Digest as _, Sha256};

fn bundle(files: &[(&str, &[u8])]) -> Bundle {
    let files = files.iter().map(|(path, bytes)| File {
        path: path.parse().unwrap(),
        bytes: bytes.to_vec(),
    });
    Bundle::new(files.collect(), &Limits::default()).unwrap()
}

fn any_files() -> impl Strategy<Value = Vec<File>> {
    // Digits in front keep files and folders apart, letters of one case keep twins away.
    let path = "[a-z]{1,3}/[0-9][a-z é]{0,120}[.]tf|[0-9][a-z]{1,8}([.]tf[.]json)?";
    prop::collection::btree_map(path, prop::collection::vec(any::<u8>(), 0..1_200), 0..6).prop_map(
        |files| {
            files
                .into_iter()
                .filter_map(|(path, bytes)| {
                    Some(File {
                        path: path.parse().ok()?,
                        bytes,
                    })
                })
                .collect()
        },
    )
}

proptest! {
    #[test]
    fn the_same_files_make_the_same_bundle(files in any_files(), seed in any::<prop::sample::Index>()) {
        let limits = Limits::default();
        let bundle = Bundle::new(files.clone(), &limits).unwrap();
        let mut shuffled = files;
        if !shuffled.is_empty() {
            let by = seed.index(shuffled.len());
            shuffled.rotate_left(by);
        }
        let again = Bundle::new(shuffled, &limits).unwrap();
        prop_assert_eq!(&again, &bundle);
        let tar = bundle.to_tar();
        prop_assert_eq!(bundle.digest(), <[u8; 32]>::from(Sha256::digest(&tar)));
        prop_assert_eq!(Bundle::from_tar(&tar, &limits).unwrap(), bundle);
    }

    #[test]
    fn what_is_read_as_a_bundle_is_exactly_its_form(
        files in any_files(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
        cut in any::<bool>(),
    ) {
        let limits = Limits::default();
        let mut tar = Bundle::new(files, &limits).unwrap().to_tar();
        let at = at.index(tar.len());
        if cut {
            tar.truncate(at);
        } else {
            tar[at] ^= 1 << bit;
        }
        if let Ok(bundle) = Bundle::from_tar(&tar, &limits) {
            prop_assert!(!cut, "a bundle that was cut was read");
            prop_assert_eq!(bundle.to_tar(), tar); // another file's content, in the one form it has
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..4_000)) {
        let limits = Limits::default();
        if let Ok(bundle) = Bundle::from_tar(&bytes, &limits) {
            prop_assert_eq!(bundle.to_tar(), bytes);
        }
    }

    #[test]
    fn no_bytes_make_the_check_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
    ) {
        let text = pieces.concat();
        for bytes in [&bytes[..], text.as_bytes()] {
            for path in ["main.tf", "main.tf.json"] {
                let checked = bundle(&[(path, bytes), (".terraform.lock.hcl", bytes)]);
                let lines = bytes.split(|b| *b == b'\n').count();
                for fault in checked.check(&Rules::default()).err().unwrap_or_default() {
                    prop_assert!((1..=lines).contains(&(fault.line as usize)), "{fault}");
                    prop_assert!(!fault.what.is_empty() && fault.to_string().is_ascii(), "{fault}");
                }
                drop(sandbox_bundle::lock::check(&checked, &[], &sandbox_bundle::lock::mend_by_registry("linux_amd64")));
            }
        }
    }
}

const PIECES: &[&str] = &[
    "\"",
    "$",
    "%",
    "${",
    "%{",
    "$${",
    "~}",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\n",
    "\r\n",
    "\r",
    "#",
    "/*",
    "*/",
    "<<EOT\n",
    "EOT\n",
    "<<-é\n",
    "=",
    ":",
    ",",
    ".",
    "a",
    "module",
    " \"m\" ",
    "source",
    "./a",
    "terraform",
    "required_providers",
    "backend",
    "provider",
    "resource",
    "provisioner",
    "null",
    "true",
    "\\",
    "\\u",
    "006",
    "\"source\":",
    "[[",
    "{\"a\":",
    "é",
    "\u{feff}",
    "\0",
    "1",
    "-",
    " ",
];

#[test]
fn deep_and_long_sources_end_in_a_fault_and_not_in_our_stack() {
    let limits = Limits::default();
    for (path, text) in [
        ("a.tf", "a {\n".repeat(200_000)),
        ("a.tf", format!("a = {}", "[".repeat(1_000_000))),
        ("a.tf", format!("a = {}", "\"${".repeat(300_000))),
        (
            "a.tf",
            format!(
                "locals {{\n  a = {}1{}\n}}\n",
                "(".repeat(300),
                ")".repeat(300)
            ),
        ),
        (
            "a.tf",
            format!("a = {}1{}", "{ b = ".repeat(200_000), " }".repeat(200_000)),
        ),
        ("a.tf.json", "[".repeat(1_000_000)),
        ("a.tf.json", "{\"a\":".repeat(200_000)),
    ] {
        assert!(text.len() < limits.bytes);
        let faults = bundle(&[(path, text.as_bytes())])
            .check(&Rules::default())
            .unwrap_err();
        assert!(!faults.is_empty(), "{path}");
    }
}

/// How long this thread has been on a processor, in milliseconds: what else the machine does is not in it.
#[cfg(target_os = "linux")]
fn busy_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

#[test]
#[cfg(target_os = "linux")]
fn ten_times_the_calls_take_ten_times_as_long_to_check() {
    let took = |calls: usize| {
        let calls: Vec<String> = (0..calls)
            .map(|i| format!("module \"m{i}\" {{\nsource = \"./m{i}\"\n}}\n"))
            .collect();
        let bundle = bundle(&[("main.tf", calls.concat().as_bytes())]);
        let before = busy_ms();
        assert_eq!(bundle.check(&Rules::default()).unwrap_err().len(), 100);
        busy_ms() - before
    };
    let (few, many) = (took(10_000), took(100_000));
    assert!(many < 40 * few.max(10), "{few} ms, then {many} ms"); // squared, it would be a hundred times
}

/// One entry as any tar program would write it.
fn entry(path: &str, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[329..337].copy_from_slice(b"0000000\0");
    header[337..345].copy_from_slice(b"0000000\0");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut entry = header.to_vec();
    entry.extend_from_slice(bytes);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut tar = entries.concat();
    tar.resize(tar.len() + 1024, 0);
    tar
}

#[test]
fn only_plain_files_beneath_the_folder_are_read() {
    let limits = Limits::default();
    let read = |entries: &[Vec<u8>]| Bundle::from_tar(&tar(entries), &limits);
    assert_eq!(
        read(&[entry("a.tf", b'0', b"x")]).unwrap(),
        bundle(&[("a.tf", b"x")])
    );
    for kind in [
        b'1', b'2', b'3', b'4', b'5', b'6', b'7', b'x', b'g', b'L', 0,
    ] {
        assert_eq!(
            read(&[entry("a.tf", kind, b"")]),
            Err(TarError::NotAFile(0)),
            "{kind}"
        );
    }
    for path in [
        "../a.tf",
        "/etc/passwd",
        "a/../b",
        "./a.tf",
        ".terraform/x",
        "a\\b",
        "a//b",
        "terraform.tfstate",
        "",
    ] {
        let result = read(&[entry(path, b'0', b"")]);
        assert!(
            matches!(result, Err(TarError::Path { at: 0, .. })),
            "{path}: {result:?}"
        );
    }
    for twice in [
        ["a.tf", "a.tf"],
        ["a.tf", "A.tf"],
        ["a", "a/b"],
        ["M/a", "m/b"],
        ["é", "É"],
    ] {
        let result = read(&twice.map(|path| entry(path, b'0', b"")));
        assert!(
            matches!(result, Err(TarError::Bundle(_))),
            "{twice:?}: {result:?}"
        );
    }
    // Out of order, after the end, in the padding, with an owner, with a wrong sum.
    assert_eq!(
        read(&[entry("b", b'0', b""), entry("a", b'0', b"")]),
        Err(TarError::NotOurs)
    );
    let good = tar(&[entry("a", b'0', b"x")]);
    let spoiled = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Bundle::from_tar(&bytes, &limits)
    };
    for (at, byte) in [
        (600, b'y'),
        (114, b'1'),
        (106, b'5'),
        (150, b'0'),
        (265, b'r'),
        (1100, 1),
    ] {
        assert!(spoiled(at, byte).is_err(), "{at}");
    }
    assert_eq!(
        Bundle::from_tar(&[good.clone(), vec![0]].concat(), &limits),
        Err(TarError::NotOurs)
    );
    assert!(Bundle::from_tar(&good[..good.len() - 512], &limits).is_err());
    assert!(Bundle::from_tar(&[], &limits).is_err());
    // A length that lies costs nothing.
    let mut long = entry("a", b'0', b"");
    long[124..136].copy_from_slice(b"77777777777\0");
    assert!(matches!(
        Bundle::from_tar(&tar(&[long]), &limits),
        Err(TarError::Limit(_))
    ));
}

#[test]
fn a_tar_program_reads_it() {
    let long = format!("{}/{}.tf", "f".repeat(90), "n".repeat(90));
    let bundle = bundle(&[
        (".terraform.lock.hcl", b""),
        ("größe.tf", b"1234"),
        (&long, b"x\n"),
    ]);
    let mut child = Command::new("tar")
        .args([
            "-t",
            "-v",
            "--quoting-style=literal",
            "--numeric-owner",
            "--utc",
        ])
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&bundle.to_tar())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let expected = format!(
        "-rw-r--r-- 0/0               0 1970-01-01 00:00 .terraform.lock.hcl\n-rw-r--r-- 0/0               2 1970-01-01 00:00 {long}\n-rw-r--r-- 0/0               4 1970-01-01 00:00 größe.tf\n"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn a_diff_shows_every_file_that_is_not_the_same() {
    let lines = |changed: &str| format!("1\n2\n3\n4\n5\n{changed}\n7\n8\n9\n10\n");
    let (old, new) = (lines("six"), lines("SIX\r"));
    let before = bundle(&[
        ("a.tf", old.as_bytes()),
        ("gone.tf", b"x\n"),
        ("same.tf", b"="),
        ("b.bin", b"\xff"),
    ]);
    let after = bundle(&[
        ("a.tf", new.as_bytes()),
        ("b.bin", b"\xfe"),
        ("new.tf", b"no end"),
        ("same.tf", b"="),
    ]);
    let found = diff(Some(&before), &after);
    let shown: Vec<_> = found
        .iter()
        .map(|d| (d.path.as_str(), d.action.as_str(), d.diff.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "a.tf",
                "changed",
                "--- a/a.tf\n+++ b/a.tf\n@@ -3,7 +3,7 @@\n 3\n 4\n 5\n-six\n+SIX\r\n 7\n 8\n 9\n"
            ),
            ("b.bin", "changed", ""),
            (
                "gone.tf",
                "removed",
                "--- a/gone.tf\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
            ),
            (
                "new.tf",
                "added",
                "--- /dev/null\n+++ b/new.tf\n@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file\n"
            ),
        ]
    );
    assert_eq!(diff(Some(&after), &after), []);
    assert_eq!(diff(None, &after).len(), 4);
    assert!(
        diff(None, &after)
            .iter()
            .all(|d| d.action == FileAction::Added)
    );
}

#[test]
fn a_diff_of_long_files_is_whole_and_done_in_time() {
    let text = |seed: u64| -> String {
        let mut x = seed;
        let mut text = String::new();
        for _ in 0..60_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(["a\n", "b\n", "c\n", "d\n"][(x >> 62) as usize]);
        }
        text
    };
    let (old, new) = (text(1), text(2));
    let found = diff(
        Some(&bundle(&[("a.tf", old.as_bytes())])),
        &bundle(&[("a.tf", new.as_bytes())]),
    );
    let count = |sign: char| {
        found[0]
            .diff
            .lines()
            .skip(2)
            .filter(|line| line.starts_with(sign))
            .count()
    };
    let unchanged = count(' ');
    assert!(count('-') + unchanged <= 60_000 && count('+') > 0);
    // Every line of either side is there, or left out as unchanged on both.
    assert_eq!(count('-'), count('+'));
}
