//! Files that the source seems to read, by what stands in quotes in it: candidates for `data_files`. Without
//! them a plan says that there is no such file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sandbox_bundle::{Bundle, BundlePath};

/// Names looked at, as many as a bundle's folders may have.
const MAX_ENTRIES: usize = 20_000;
const MAX_DEPTH: usize = 8;

/// Files beneath `folder` that are not packed and whose names stand at the end of a text in quotes.
pub(super) fn mentioned(folder: &Path, bundle: &Bundle) -> Vec<String> {
    let names = quoted_ends(bundle);
    let mut found = BTreeSet::new();
    let mut left = MAX_ENTRIES;
    let mut folders = vec![(String::new(), 0)];
    while let Some((at, depth)) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder.join(&at)) else {
            continue; // what may not be read was told where it is packed
        };
        for entry in entries.flatten() {
            left = left.saturating_sub(1);
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
                continue;
            };
            if left == 0 || name.starts_with('.') {
                continue;
            }
            let path = if at.is_empty() {
                name.clone()
            } else {
                format!("{at}/{name}")
            };
            if kind.is_dir() && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file()
                && names.contains(name.as_str())
                && path.parse::<BundlePath>().is_ok()
                && bundle.file(&path).is_none()
            {
                found.insert(path);
            }
        }
    }
    found.into_iter().collect()
}

/// What stands before each quote, back to the quote, slash or brace before it.
fn quoted_ends(bundle: &Bundle) -> BTreeSet<&str> {
    let texts = bundle.files().iter().filter(|file| {
        let name = file.path.name();
        name.contains(".tf") && !name.contains(".tfvars")
    });
    let texts = texts.filter_map(|file| std::str::from_utf8(&file.bytes).ok());
    texts
        .flat_map(|text| text.split('"'))
        .filter_map(|piece| piece.rsplit(['/', '}', '\n']).next())
        .filter(|end| end.contains('.'))
        .collect()
}
