//! The sockets: made in closed folders, one daemon each, every connection with its peer.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::config::{Principals, Role};
use crate::lifetime::Lifetime;
use crate::peer::{Peer, PeerStream};

/// The most connections one uid may hold on one socket.
const CONNECTIONS_PER_UID: usize = 32;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The folder is missing or cannot be looked at.
    #[error("could not use the folder {path} for a socket")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder is not closed.
    #[error(
        "the folder {path} {problem}; set it to mode 2750, owned by the daemon's user, with the group of those who may connect"
    )]
    Open {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Somebody answers there.
    #[error("another daemon listens on {0}")]
    Taken(PathBuf),
    /// There is a file that is no socket.
    #[error("{0} exists and is not a socket; it is left alone")]
    NotASocket(PathBuf),
    /// The system said no.
    #[error("could not listen on {path}")]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A bound socket; its file goes with it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Binds `path`. The folder must exist, belong to `own_uid` and be closed to others. A leftover
    /// socket is removed only when nobody answers on it.
    ///
    /// # Errors
    /// [`ListenError`]
    pub async fn bind(path: &Path, own_uid: u32) -> Result<Self, ListenError> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        check_folder(folder, own_uid)?;
        remove_leftover(path).await?;
        let listener = UnixListener::bind(path).map_err(|source| ListenError::Bind {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Accepts until `lifetime` stops. Peers that are not principals are handed on too: they get an
    /// answer that says why they are refused.
    pub fn accept(
        self,
        role: Role,
        principals: Principals,
        lifetime: &Lifetime,
    ) -> ReceiverStream<std::io::Result<PeerStream>> {
        let (connections, stream) = mpsc::channel(16);
        let stop = lifetime.stop.clone();
        lifetime.spawn(async move {
            let slots = Slots::default();
            loop {
                let stream = tokio::select! {
                    () = stop.cancelled() => break,
                    accepted = self.listener.accept() => match accepted {
                        Ok((stream, _)) => stream,
                        Err(error) => {
                            tracing::warn!(%error, "could not accept a connection");
                            // Out of file descriptors: give the connections there are time to end.
                            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                            continue;
                        }
                    },
                };
                if let Some(connection) = slots.admit(stream, role, &principals)
                    && connections.send(Ok(connection)).await.is_err()
                {
                    break;
                }
            }
        });
        ReceiverStream::new(stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the socket's file was already gone");
        }
    }
}

/// Connections there are, by uid.
#[derive(Default)]
struct Slots(Mutex<HashMap<u32, Arc<Semaphore>>>);

impl Slots {
    fn admit(&self, stream: UnixStream, role: Role, principals: &Principals) -> Option<PeerStream> {
        let peer = Peer::of(&stream, role, principals);
        let uid = peer.credentials().map_or(u32::MAX, |c| c.uid);
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(
            slots
                .entry(uid)
                .or_insert_with(|| Arc::new(Semaphore::new(CONNECTIONS_PER_UID))),
        );
        let Ok(slot) = slot.try_acquire_owned() else {
            tracing::warn!(
                uid,
                "dropped a connection: the uid holds {CONNECTIONS_PER_UID} already"
            );
            return None;
        };
        Some(PeerStream::new(stream, peer.holding(slot)))
    }
}

fn check_folder(folder: &Path, own_uid: u32) -> Result<(), ListenError> {
    let unusable = |source| ListenError::Folder {
        path: folder.to_owned(),
        source,
    };
    let open = |problem| ListenError::Open {
        path: folder.to_owned(),
        problem,
    };
    let meta = std::fs::symlink_metadata(folder).map_err(unusable)?;
    if !meta.is_dir() {
        return Err(open("is not a folder"));
    }
    if meta.uid() != own_uid {
        return Err(open("does not belong to the daemon's user"));
    }
    if meta.mode() & 0o007 != 0 {
        return Err(open("is open to others"));
    }
    if meta.mode() & 0o020 != 0 {
        return Err(open(
            "can be written by its group, who could put another socket there",
        ));
    }
    Ok(())
}

async fn remove_leftover(path: &Path) -> Result<(), ListenError> {
    let bind = |source| ListenError::Bind {
        path: path.to_owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(bind(e)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(ListenError::Taken(path.to_owned())),
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(bind)
        }
        Err(e) => Err(bind(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn folder(mode: u32) -> (tempfile::TempDir, u32) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let uid = std::fs::metadata(folder.path()).unwrap().uid();
        (folder, uid)
    }

    #[tokio::test]
    async fn a_folder_open_to_others_is_refused() {
        for (mode, word) in [(0o755, "others"), (0o777, "others"), (0o770, "group")] {
            let (folder, uid) = folder(mode);
            let e = Listener::bind(&folder.path().join("s"), uid)
                .await
                .unwrap_err();
            assert!(e.to_string().contains(word), "{e}");
        }
    }

    #[tokio::test]
    async fn a_folder_of_somebody_else_is_refused() {
        let (folder, uid) = folder(0o750);
        let e = Listener::bind(&folder.path().join("s"), uid + 1)
            .await
            .unwrap_err();
        assert!(e.to_string().contains("does not belong"), "{e}");
    }

    #[tokio::test]
    async fn a_leftover_socket_is_replaced_and_a_live_one_is_not() {
        let (folder, uid) = folder(0o750);
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let live = Listener::bind(&path, uid).await.unwrap();
        assert!(matches!(
            Listener::bind(&path, uid).await,
            Err(ListenError::Taken(_))
        ));
        drop(live);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let (folder, uid) = folder(0o750);
        let path = folder.path().join("s");
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(
            Listener::bind(&path, uid).await,
            Err(ListenError::NotASocket(_))
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
