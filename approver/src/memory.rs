//! The last checkpoint seen, kept where only this uid can write.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use rustix::fs::OFlags;
use sandbox_core::audit::Checkpoint;

use crate::continuity::{Held, Newest, check_signature};
use crate::document::{Tone, tell};
use crate::failure::Failure;
use crate::home;

const DEFAULT_SOCKET: &str = "/run/sandboxd/approver/approver.sock";
/// No checkpoint takes more.
const LARGEST: u64 = 4096;

/// What this account knows of the daemon at one socket.
#[derive(Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    kept: Option<Checkpoint>,
}

impl Memory {
    /// Reads what is kept of the daemon at `socket`. Each socket has a file of its own: another daemon
    /// has another trail and another key.
    pub(crate) fn open(socket: &Path) -> Result<Self, Failure> {
        let uid = rustix::process::geteuid().as_raw();
        let Some(state) = home::state_folder(uid) else {
            return Err(Failure::Error(format!(
                "There is nowhere to keep the checkpoint: uid {uid} has no home folder of its own. Set XDG_STATE_HOME \
                 to a folder that only uid {uid} can write."
            )));
        };
        let folder = state.join("agent-sandbox");
        make_folder(&folder, uid)?;
        let path = folder.join(file_name(socket));
        let kept = read(&path, Some(uid))?;
        Ok(Self { path, kept })
    }

    /// The checkpoint kept, if there is one.
    pub(crate) fn kept(&self) -> Option<Held> {
        self.kept.map(|checkpoint| Held {
            checkpoint,
            origin: self.path.clone(),
        })
    }

    /// Keeps a newer checkpoint instead.
    pub(crate) fn keep(&self, newest: Newest) -> Result<(), Failure> {
        // Another run may have seen more since we read it.
        let kept = read(&self.path, Some(rustix::process::geteuid().as_raw()))?;
        if kept.is_some_and(|kept| kept.head.seq >= newest.head.seq) {
            return Ok(());
        }
        self.write(&newest).map_err(|e| {
            Failure::Error(format!(
                "Could not keep the checkpoint in {}: {e}.",
                self.path.display()
            ))
        })?;
        if kept.is_none() {
            let first = format!(
                "This is the first checkpoint seen of this trail. It is kept in {}, and later runs hold the trail to it.",
                self.path.display()
            );
            // Nobody has to read it.
            drop(tell(Tone::Plain, &first));
        }
        Ok(())
    }

    fn write(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        let new = self
            .path
            .with_extension(format!("{}.new", std::process::id()));
        let written = ours()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(checkpoint.to_file().as_bytes())?;
                file.sync_all()?;
                fs::rename(&new, &self.path)
            });
        if written.is_err() {
            drop(fs::remove_file(&new));
        }
        written
    }
}

/// A checkpoint that somebody gave us in a file.
pub(crate) fn read_given(path: &Path) -> Result<Held, Failure> {
    match read(path, None)? {
        Some(checkpoint) => Ok(Held {
            checkpoint,
            origin: path.to_owned(),
        }),
        None => Err(Failure::Error(format!(
            "There is no checkpoint at {}.",
            path.display()
        ))),
    }
}

/// Reads a checkpoint whose signature is good. One that has to be `uid`'s is not taken from anybody else.
fn read(path: &Path, uid: Option<u32>) -> Result<Option<Checkpoint>, Failure> {
    let refused = |why: String| {
        Failure::Error(format!(
            "The checkpoint in {} cannot be used: {why}. Find out who changed it; move it away to begin anew.",
            path.display()
        ))
    };
    let file = match ours().read(true).open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| refused(format!("it could not be opened ({e})")))?,
    };
    if let Some(uid) = uid {
        check_file(&file, uid).map_err(&refused)?;
    }
    let mut content = String::new();
    file.take(LARGEST)
        .read_to_string(&mut content)
        .map_err(|e| refused(format!("it could not be read ({e})")))?;
    let checkpoint = Checkpoint::from_file(&content).map_err(|e| refused(format!("it {e}")))?;
    if checkpoint.is_signed(check_signature) {
        Ok(Some(checkpoint))
    } else {
        Err(refused("its signature is not its key's".to_owned()))
    }
}

fn check_file(file: &File, uid: u32) -> Result<(), String> {
    let found = file
        .metadata()
        .map_err(|e| format!("it could not be looked at ({e})"))?;
    if !found.is_file() || found.uid() != uid {
        return Err(format!("it is not a file of uid {uid}"));
    }
    if found.mode() & 0o077 != 0 {
        return Err("it is open to others, and must have mode 0600".to_owned());
    }
    Ok(())
}

fn make_folder(folder: &Path, uid: u32) -> Result<(), Failure> {
    let refused = |why: String| {
        Failure::Error(format!(
            "The checkpoint cannot be kept in {}: {why}. Mend it, or set XDG_STATE_HOME to a folder that only uid \
             {uid} can write.",
            folder.display()
        ))
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| refused(format!("it could not be made ({e})")))?;
    let found =
        fs::metadata(folder).map_err(|e| refused(format!("it could not be looked at ({e})")))?;
    if found.uid() != uid {
        return Err(refused(format!("it belongs to uid {}", found.uid())));
    }
    if found.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(refused("others can write there".to_owned()))
    }
}

fn file_name(socket: &Path) -> String {
    if socket == Path::new(DEFAULT_SOCKET) {
        return "checkpoint".to_owned();
    }
    let hash = digest(&SHA256, socket.as_os_str().as_encoded_bytes());
    let short = hash
        .as_ref()
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"));
    format!("checkpoint-{}", short.collect::<String>())
}

fn ours() -> OpenOptions {
    let mut options = OpenOptions::new();
    // NONBLOCK, or a pipe put in its place would keep us waiting.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}
