//! Calls of modules: beneath the root, there, and in no circle.

use std::collections::{BTreeMap, BTreeSet};

use super::{Faults, Module, Reason, SourceFault, quoted};
use crate::path::BundlePath;
use crate::source::{Elsewhere, resolve};

const REMOTE: Reason = Reason {
    what: "a module from elsewhere",
    why: "a sandbox reaches the API server and nothing else, and what is fetched later is not what was reviewed",
    next: "Copy the module into a folder of the root, e.g. modules/NAME, and write source = \"./modules/NAME\"; `scripts/connect root` does that.",
};

const OUTSIDE: Reason = Reason {
    what: "a module outside of the root's folder",
    why: "a bundle is the root's folder and what is beneath it",
    next: "Copy the module into a folder of the root, e.g. modules/NAME, and write source = \"./modules/NAME\".",
};

const NOT_PLAIN: Reason = Reason {
    what: "a module's source that is no plain path",
    why: "hidden folders and unusual characters are not packed",
    next: "Give the folder a name of letters, digits, '-', '_' and '.'.",
};

const NOT_WRITTEN_OUT: Reason = Reason {
    what: "a module's source that is not written out",
    why: "where the module comes from must be read without evaluating anything",
    next: "Write it as plain text in quotes, e.g. source = \"./modules/NAME\".",
};

const CIRCLE: Reason = Reason {
    what: "a module that calls itself",
    why: "Terraform would go round in it without an end",
    next: "Take the call out.",
};

const MISSING: Reason = Reason {
    what: "a call without a source",
    why: "Terraform needs to be told where the module is",
    next: "Write source = \"./modules/NAME\".",
};

/// One `module` block.
#[derive(Debug)]
pub(super) struct Call<'b> {
    file: &'b BundlePath,
    line: u32,
    from: &'b str,
    to: String,
}

/// Reads the calls of one file, and refuses those that go elsewhere.
pub(super) fn read_calls<'b>(
    folder: &'b str,
    file: &Module<'b>,
    calls: &mut Vec<Call<'b>>,
    faults: &mut Faults,
) {
    for block in file.source.view().blocks("module", 1) {
        let name = quoted(block.label(0));
        let sources = block.body.values("source");
        if sources.is_empty() {
            faults.add_named(file.path, block.line, format!("module {name}"), &MISSING);
        }
        for (line, value) in sources {
            let Some(source) = value.text() else {
                faults.add(file.path, line, &NOT_WRITTEN_OUT);
                continue;
            };
            let reason = match resolve(folder, source) {
                Ok(to) => {
                    calls.push(Call {
                        file: file.path,
                        line,
                        from: folder,
                        to,
                    });
                    continue;
                }
                Err(Elsewhere::Remote) => &REMOTE,
                Err(Elsewhere::Outside) => &OUTSIDE,
                Err(Elsewhere::NotPlain) => &NOT_PLAIN,
            };
            let what = format!("module {name} with the source {}", quoted(source));
            faults.add_named(file.path, line, what, reason);
        }
    }
}

/// Refuses calls of folders without configuration, and calls that go round in a circle.
pub(super) fn check_calls(calls: &[Call<'_>], folders: &BTreeSet<&str>, faults: &mut Faults) {
    let circular = circular(calls);
    for call in calls {
        if !folders.contains(call.to.as_str()) {
            faults.push(SourceFault {
                file: call.file.clone(),
                line: call.line,
                what: format!("a module in {}", quoted(&call.to)),
                why: "there is no Terraform configuration in that folder".to_owned(),
                next: "Put the module there, or name the folder that it is in.".to_owned(),
            });
        } else if circular.contains(call.from) && circular.contains(call.to.as_str()) {
            faults.add(call.file, call.line, &CIRCLE);
        }
    }
}

/// The folders on a circle of calls, or between two of them: what is left when folders that call nothing
/// left, and folders that nothing left calls, are taken away again and again.
fn circular<'c>(calls: &'c [Call<'_>]) -> BTreeSet<&'c str> {
    let forward: BTreeSet<(&str, &str)> = calls.iter().map(|c| (c.from, c.to.as_str())).collect();
    let backward = forward.iter().map(|(from, to)| (*to, *from)).collect();
    let mut left: BTreeSet<&str> = forward.iter().flat_map(|(from, to)| [*from, *to]).collect();
    for edges in [&forward, &backward] {
        peel(edges, &mut left);
    }
    left
}

/// Takes away folders from which no edge leads to one that is left.
fn peel<'c>(edges: &BTreeSet<(&'c str, &'c str)>, left: &mut BTreeSet<&'c str>) {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut into: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges
        .iter()
        .filter(|(from, to)| left.contains(from) && left.contains(to))
    {
        *open.entry(from).or_default() += 1;
        into.entry(to).or_default().push(from);
    }
    let mut ends: Vec<&str> = left
        .iter()
        .copied()
        .filter(|f| !open.contains_key(f))
        .collect();
    while let Some(end) = ends.pop() {
        left.remove(end);
        for from in into.get(end).into_iter().flatten() {
            if let Some(count) = open.get_mut(from) {
                *count -= 1;
                if *count == 0 {
                    ends.push(from);
                }
            }
        }
    }
}
