//! The folder of one run, in memory: sources, state, plan and secrets, each for this user alone.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::Tree;
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
        write(files, &folder.source())?;
        for (path, bytes) in [
            (folder.state(), &inputs.state),
            (folder.plan(), &inputs.plan),
            (folder.variables(), &inputs.variables),
        ] {
            if let Some(bytes) = bytes {
                write_new(&path, bytes)?;
            }
        }
        let mirror = places.providers.to_string_lossy();
        let settings = format!(
            "disable_checkpoint = true\n\
             provider_installation {{\n  filesystem_mirror {{\n    path = \"{mirror}\"\n  }}\n}}\n"
        );
        write_new(&folder.settings(), settings.as_bytes())?;
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

/// Writes the sources, for this user alone and without execute bits.
fn write(files: &Tree<'_>, folder: &Path) -> io::Result<()> {
    for (path, bytes) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)?;
        }
        write_new(&path, bytes)?;
    }
    Ok(())
}

/// Writes a file that is not there yet, for this user alone.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_come_out_for_this_user_alone_and_not_executable() {
        let files = Tree::from([("main.tf", &b"a"[..]), ("modules/x/main.tf", b"b")]);
        let folder = tempfile::tempdir().unwrap();
        write(&files, folder.path()).unwrap();
        let written = folder.path().join("modules/x/main.tf");
        assert_eq!(fs::read(&written).unwrap(), b"b");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&written), 0o600);
        assert_eq!(mode(written.parent().unwrap()), 0o700);
        assert!(
            write(&files, folder.path()).is_err(),
            "nothing is written over"
        );
    }
}
