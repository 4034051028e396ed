//! The blocks of one file.

use super::provider::LocalNames;
use super::{Faults, Module, Reason, quoted};
use crate::path::BundlePath;
use crate::source::{Found, Literal, Name, View};

/// What may stand at the top of a file, and how many labels it has.
const TOP: [(&str, usize); 12] = [
    ("check", 1),
    ("data", 2),
    ("import", 0),
    ("locals", 0),
    ("module", 1),
    ("moved", 0),
    ("output", 1),
    ("provider", 1),
    ("removed", 0),
    ("resource", 2),
    ("terraform", 0),
    ("variable", 1),
];

/// Data sources that fetch or run something wherever they are evaluated.
const DATA: [(&str, Reason); 3] = [
    (
        "external",
        Reason {
            what: "data \"external\"",
            why: "it runs a program while Terraform plans",
            next: "Put its result into a variable.",
        },
    ),
    (
        "http",
        Reason {
            what: "data \"http\"",
            why: "it calls a host of its own choice while Terraform plans",
            next: "Put its result into a variable.",
        },
    ),
    (
        "terraform_remote_state",
        Reason {
            what: "data \"terraform_remote_state\"",
            why: "it reads a state of another root, with all that is secret in it",
            next: "Put what it needs into a variable.",
        },
    ),
];

const PROVISIONER: Reason = Reason {
    what: "a provisioner",
    why: "it runs commands of its own, and no plan shows them",
    next: "Take it out; what it does belongs into a resource or beside Terraform.",
};

const CONNECTION: Reason = Reason {
    what: "a connection",
    why: "it is for provisioners, and those run commands that no plan shows",
    next: "Take it out.",
};

const ESCAPE: Reason = Reason {
    what: "a block called \"_\"",
    why: "it gives the names of arguments another meaning",
    next: "Write its arguments into the block around it.",
};

const EPHEMERAL: Reason = Reason {
    what: "something ephemeral",
    why: "its values are in no plan, so an apply could use others than those that were reviewed",
    next: "Make it a plain variable, output or data source.",
};

const CLOUD: Reason = Reason {
    what: "a cloud block",
    why: "it hands the run to another system",
    next: "Take it out; the root's state is managed by sandboxd.",
};

const BACKEND: Reason = Reason {
    what: "a backend",
    why: "the state is handed to Terraform by sandboxd, and a backend would put it elsewhere",
    next: "Take it out, or leave `backend \"local\" {}` with nothing in it; bring the state in with `sandboxd state import`.",
};

const IN_TERRAFORM: Reason = Reason {
    what: "something else in a terraform block",
    why: "only required_version, required_providers and an empty local backend are known to change nothing that no plan shows",
    next: "Take it out.",
};

const TOP_LEVEL: Reason = Reason {
    what: "something unknown at the top of a file",
    why: "what it does is not known here",
    next: "Take it out, or look for a newer agent-sandbox that knows it.",
};

const IN_MODULE: Reason = Reason {
    what: "a block in a module block",
    why: "Terraform keeps them for itself",
    next: "Take it out; a module takes arguments alone.",
};

const SHAPE: Reason = Reason {
    what: "a value where a block is due",
    why: "what cannot be read here could be read by Terraform",
    next: "Write an object, or an array of objects.",
};

/// Checks every block of a file.
pub(super) fn check(
    file: &Module<'_>,
    locals: &LocalNames<'_>,
    any_backend: bool,
    faults: &mut Faults,
) {
    let view = file.source.view();
    let mut checker = Checker {
        file: file.path,
        locals,
        any_backend,
        faults,
    };
    checker.shape(&view);
    for name in view.names() {
        checker.top(&name);
    }
    for (kind, labels) in TOP {
        for block in view.blocks(kind, labels) {
            checker.shape(&block.body);
            checker.block(kind, &block);
        }
    }
}

struct Checker<'c> {
    file: &'c BundlePath,
    locals: &'c LocalNames<'c>,
    any_backend: bool,
    faults: &'c mut Faults,
}

impl Checker<'_> {
    fn add(&mut self, line: u32, reason: &Reason) {
        self.faults.add(self.file, line, reason);
    }

    fn add_named(&mut self, line: u32, what: String, reason: &Reason) {
        self.faults.add_named(self.file, line, what, reason);
    }

    fn shape(&mut self, view: &View<'_>) {
        if let Some(line) = view.misshapen() {
            self.add(line, &SHAPE);
        }
    }

    fn top(&mut self, name: &Name<'_>) {
        if TOP.iter().any(|(known, _)| *known == name.text) {
            return;
        }
        let reason = if name.text == "ephemeral" {
            &EPHEMERAL
        } else {
            &TOP_LEVEL
        };
        self.add_named(name.line, quoted(name.text), reason);
    }

    fn block(&mut self, kind: &str, block: &Found<'_>) {
        match kind {
            "resource" => {
                self.commands(&block.body);
                self.locals.check_user(self.file, block, self.faults);
            }
            "data" => self.data(block),
            "removed" => self.commands(&block.body),
            "check" => {
                for data in block.body.blocks("data", 2) {
                    self.shape(&data.body);
                    self.data(&data);
                }
            }
            "provider" => self.locals.check_block(self.file, block, self.faults),
            "terraform" => self.terraform(&block.body),
            "variable" | "output" => self.not_ephemeral(&block.body),
            "module" => self.module(&block.body),
            _ => {} // import, locals and moved name things, and do nothing that a plan does not show
        }
    }

    /// What can run commands in a resource. Within other blocks of it these names mean nothing to Terraform
    /// and are the provider's, if they are anybody's; where a provider would need them, better ask.
    fn commands(&mut self, body: &View<'_>) {
        for name in body.names() {
            self.command(name.text, name.line);
        }
        for block in body.blocks("dynamic", 1) {
            self.command(block.label(0), block.line);
        }
    }

    fn command(&mut self, name: &str, line: u32) {
        match name {
            "provisioner" => self.add(line, &PROVISIONER),
            "connection" => self.add(line, &CONNECTION),
            "_" => self.add(line, &ESCAPE),
            _ => {}
        }
    }

    fn data(&mut self, block: &Found<'_>) {
        self.commands(&block.body);
        let kind = block.label(0);
        match DATA.iter().find(|(refused, _)| *refused == kind) {
            Some((_, reason)) => self.add(block.line, reason),
            None => self.locals.check_user(self.file, block, self.faults),
        }
    }

    fn terraform(&mut self, body: &View<'_>) {
        for name in body.names() {
            match name.text {
                "required_version" | "required_providers" | "backend" => {}
                "cloud" if self.any_backend => {}
                "cloud" => self.add(name.line, &CLOUD),
                other => self.add_named(name.line, quoted(other), &IN_TERRAFORM),
            }
        }
        if self.any_backend {
            return;
        }
        for backend in body.blocks("backend", 1) {
            self.shape(&backend.body);
            let kind = backend.label(0);
            let what = format!("backend {}", quoted(kind));
            if kind != "local" {
                self.add_named(backend.line, what, &BACKEND);
                continue;
            }
            for name in backend.body.names() {
                let what = format!("{} in {what}", quoted(name.text));
                self.add_named(name.line, what, &BACKEND);
            }
        }
    }

    fn not_ephemeral(&mut self, body: &View<'_>) {
        for (line, value) in body.values("ephemeral") {
            if value != Literal::Bool(false) {
                self.add(line, &EPHEMERAL);
            }
        }
    }

    fn module(&mut self, body: &View<'_>) {
        for name in body.names() {
            if name.text == "_" {
                self.add(name.line, &ESCAPE);
            } else if name.is_block {
                self.add_named(name.line, quoted(name.text), &IN_MODULE);
            }
        }
    }
}
