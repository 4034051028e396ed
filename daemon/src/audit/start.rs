//! Opens a trail: reads all of it, sets half a last line aside, refuses damage.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use sandbox_core::audit::{Checkpoint, Draft, Event, EventName, Head, Record, Verifier};

use super::Settings;
use super::error::AuditError;
use super::file::TrailFile;
use super::folder::Folder;
use super::index::Index;
use super::key::{self, Signer, check_signature};
use super::lines::Torn;
use super::verify::{self, Scanned};
use super::view::{Seen, View};
use super::writer::Writer;
use crate::clock::Clock;

const FILE: &str = "audit.jsonl";

/// What was found when the trail was opened.
#[derive(Clone, Debug)]
pub struct OpenReport {
    /// Where it stood.
    pub head: Head,
    /// Its newest checkpoint.
    pub newest: Option<Checkpoint>,
    /// Half a last line that was set aside, if there was one.
    pub torn: Option<TornLine>,
    /// Whether the signing key was made just now.
    pub key_made: bool,
    /// Whether the space held back for the end of work is whole. It is not on a disk that is nearly
    /// full, nor on a file system that cannot hold any; there only the low-water mark keeps some free.
    pub holds_reserve: bool,
}

/// Half a last line, set aside.
#[derive(Clone, Debug)]
pub struct TornLine {
    /// Where it is now.
    pub file: PathBuf,
    /// How long it is.
    pub bytes: u64,
}

pub(super) fn open(
    directory: &Path,
    settings: Settings,
    clock: Clock,
) -> Result<(Writer, OpenReport), AuditError> {
    let folder = Folder::take(directory)?;
    refuse_a_trail_that_is_gone(&folder)?;
    let file = folder.open(FILE)?;
    let path = folder.file(FILE);
    let Read {
        verifier,
        index,
        torn,
    } = read(&path, &file)?;
    let (head, newest) = (verifier.head(), verifier.newest());
    let (signer, key_made) = Signer::load(&folder, newest.map(|newest| newest.key))?;
    let torn = torn
        .map(|torn| set_aside(&folder, &file, head, torn))
        .transpose()?;

    let file = Arc::new(file);
    let mut trail = TrailFile::new(path.clone(), Arc::clone(&file), index.size(), &settings);
    // Held from the start, so that a disk that fills up before the first call finds it held.
    let room = trail.make_room(0);
    let holds_reserve = room.is_ok() && trail.holds_reserve();
    let seen = Seen {
        index,
        head,
        newest,
        commits: 0,
        stopped: None,
    };
    let view = Arc::new(View::new(path, file, settings.low_water_bytes, seen));
    let Settings {
        checkpoint_every,
        checkpoint_idle,
        ..
    } = settings;
    let mut writer = Writer {
        file: trail,
        signer,
        clock,
        view,
        head,
        newest,
        checkpoint_every,
        checkpoint_idle,
        _folder: folder,
    };
    if let Some((_, draft)) = &torn {
        writer.write_now(draft)?;
    }
    let torn = torn.map(|(torn, _)| torn);
    Ok((
        writer,
        OpenReport {
            head,
            newest,
            torn,
            key_made,
            holds_reserve,
        },
    ))
}

/// The key is made after the trail's file, so a key without a trail means that somebody took the trail.
fn refuse_a_trail_that_is_gone(folder: &Folder) -> Result<(), AuditError> {
    if folder.has(FILE)? || !folder.has(key::FILE)? {
        return Ok(());
    }
    Err(AuditError::Folder {
        path: folder.file(FILE),
        why: format!(
            "is gone, and {} shows that there was one; put it back, or move the key away as well to \
             begin a new trail, which every approver will see as an alarm",
            key::FILE
        ),
    })
}

struct Read {
    verifier: Verifier,
    index: Index,
    torn: Option<Torn>,
}

fn read(path: &Path, file: &File) -> Result<Read, AuditError> {
    let size = file
        .metadata()
        .map_err(AuditError::io("look at", path))?
        .len();
    let mut index = Index::default();
    let verifier = Verifier::from_start(check_signature);
    let each = |record: &Record, length| index.push(record.request_id, length);
    let scanned = verify::scan(file, size, verifier, each).map_err(AuditError::io("read", path))?;
    let Scanned { verifier, torn } = scanned.map_err(AuditError::Damaged)?;
    Ok(Read {
        verifier,
        index,
        torn,
    })
}

/// Copies half a last line into a file of its own and cuts it off. A crash in between does it again,
/// under the same name.
fn set_aside(
    folder: &Folder,
    file: &File,
    head: Head,
    torn: Torn,
) -> Result<(TornLine, Draft), AuditError> {
    // More than a line's worth that nothing ends was no line of ours: its beginning and its length tell.
    const KEPT: u64 = 1024 * 1024;
    let path = folder.file(FILE);
    let mut content = vec![0; usize::try_from(torn.bytes.min(KEPT)).unwrap_or(0)];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut content, torn.offset)
        .map_err(AuditError::io("read", &path))?;
    let hash = hex::encode(digest(&SHA256, &content));
    let name = format!("audit.torn-{}-{}", head.seq.next(), &hash[..16]);
    folder.write(&name, &content)?;
    let cut = file.set_len(torn.offset).and_then(|()| file.sync_all());
    cut.map_err(AuditError::io("cut half a line off", &path))?;

    let event = Event::new(EventName::AuditTornLine)
        .with("file", name.as_str())
        .with("bytes", torn.bytes)
        .with("bytes_kept", content.len())
        .with("sha256", hash)
        .with(
            "reason",
            "The last line had no end; a crash cut its write short. It is kept in the file.",
        );
    Ok((
        TornLine {
            file: folder.file(&name),
            bytes: torn.bytes,
        },
        Draft::new(event)?,
    ))
}
