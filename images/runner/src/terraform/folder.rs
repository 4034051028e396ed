//! The folder of one run, in memory: sources, state, plan and secrets, each for this user alone.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use super::unpack::{self, Tree};
use crate::inputs::Inputs;
use crate::places::Places;

/// Where one run has its files. Gone with the pod, which is its only user.
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Makes it below [`Places::work`], and puts everything that came into it.
    ///
    /// # Errors
    /// What the file system said; a run that was there before is an error too.
    pub fn fill(places: &Places, files: &Tree<'_>, inputs: &Inputs) -> io::Result<Self> {
        let folder = Self {
            root: places.work.join("run"),
        };
        for path in [
            folder.root.clone(),
            folder.source(),
            folder.data(),
            folder.home(),
            folder.temporary(),
        ] {
            // The volume itself belongs to root; what is in it is closed to everyone else.
            DirBuilder::new().mode(0o700).create(path)?;
        }
        unpack::write(files, &folder.source())?;
        for (path, bytes) in [
            (folder.state(), &inputs.state),
            (folder.plan(), &inputs.plan),
            (folder.variables(), &inputs.variables),
        ] {
            if let Some(bytes) = bytes {
                unpack::write_new(&path, bytes)?;
            }
        }
        let mirror = places.providers.to_string_lossy();
        let settings = format!(
            "disable_checkpoint = true\n\
             provider_installation {{\n  filesystem_mirror {{\n    path = \"{mirror}\"\n  }}\n}}\n"
        );
        unpack::write_new(&folder.settings(), settings.as_bytes())?;
        Ok(folder)
    }

    /// The unpacked bundle: Terraform's working directory.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    /// `TF_DATA_DIR`.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// `HOME`: empty.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// `TMPDIR`: Terraform and its providers meet at a socket there.
    #[must_use]
    pub fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Terraform's own configuration file.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.root.join("settings.tfrc")
    }

    /// The state, before and after.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("terraform.tfstate")
    }

    /// The plan file.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.root.join("plan")
    }

    /// Values of secret variables. Terraform goes by the name's end.
    #[must_use]
    pub fn variables(&self) -> PathBuf {
        self.root.join("secret.tfvars.json")
    }

    /// The list of modules that `terraform init` found in the sources.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.data().join("modules/modules.json")
    }
}
