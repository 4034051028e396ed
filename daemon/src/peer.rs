//! Who connected: the kernel's word, turned into a principal once, at accept.
//!
//! The pid is evidence for the audit and decides nothing: it may be another process by the time
//! anyone looks.

mod login;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sandbox_core::names::PrincipalName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::server::Connected;

use crate::config::{Principals, Role};

pub use login::{Login, LoginUid};

/// What the kernel reports for the process that connected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerCredentials {
    /// The effective uid at connect time.
    pub uid: u32,
    /// The pid at connect time, where the system tells it.
    pub pid: Option<i32>,
}

/// A connection's principal, or why it has none. Fixed for as long as the connection lasts.
#[derive(Clone, Debug)]
pub struct Peer(Arc<PeerInner>);

#[derive(Debug)]
struct PeerInner {
    role: Role,
    credentials: Option<PeerCredentials>,
    principal: Option<PrincipalName>,
    /// An approver's, as it was at accept.
    login: Option<Login>,
    /// Counts against the uid's connections until the last copy is gone.
    _slot: Option<OwnedSemaphorePermit>,
}

/// Nobody we know connected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotAdmitted {
    /// The kernel told no uid.
    #[error("the kernel reports no uid for this connection")]
    NoCredentials,
    /// The uid is not configured for this socket.
    #[error("uid {uid} is not listed in [{section}] of sandboxd.toml")]
    NotListed {
        /// The uid.
        uid: u32,
        /// The section it would have to be in.
        section: &'static str,
    },
}

impl Peer {
    /// Looks up who `stream` comes from.
    #[must_use]
    pub fn of(stream: &UnixStream, role: Role, principals: &Principals) -> Self {
        let credentials = stream.peer_cred().ok().map(|c| PeerCredentials {
            uid: c.uid(),
            pid: c.pid(),
        });
        let principal = credentials
            .and_then(|c| principals.find(role, c.uid))
            .cloned();
        let pid = credentials.and_then(|c| c.pid);
        let login = match role {
            Role::Agent => None,
            Role::Approver => pid.and_then(|pid| Login::of(pid).ok()),
        };
        Self(Arc::new(PeerInner {
            role,
            credentials,
            principal,
            login,
            _slot: None,
        }))
    }

    /// The principal, on whose behalf everything on this connection happens.
    ///
    /// # Errors
    /// [`NotAdmitted`] for anybody else; nothing may be done for them.
    pub fn principal(&self) -> Result<&PrincipalName, NotAdmitted> {
        let section = match self.0.role {
            Role::Agent => "agents",
            Role::Approver => "approvers",
        };
        match (&self.0.principal, self.0.credentials) {
            (Some(principal), _) => Ok(principal),
            (None, Some(PeerCredentials { uid, .. })) => {
                Err(NotAdmitted::NotListed { uid, section })
            }
            (None, None) => Err(NotAdmitted::NoCredentials),
        }
    }

    /// What the kernel said, for the audit.
    #[must_use]
    pub fn credentials(&self) -> Option<PeerCredentials> {
        self.0.credentials
    }

    /// The login an approver's process descends from; `None` where it could not be looked at when it
    /// connected, and for agents.
    #[must_use]
    pub fn login(&self) -> Option<Login> {
        self.0.login
    }

    /// Has the connection count against a limit until it is closed.
    #[must_use]
    pub fn holding(self, slot: OwnedSemaphorePermit) -> Self {
        let PeerInner {
            role,
            credentials,
            login,
            ..
        } = *self.0;
        Self(Arc::new(PeerInner {
            role,
            credentials,
            login,
            principal: self.0.principal.clone(),
            _slot: Some(slot),
        }))
    }
}

impl fmt::Display for PeerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "uid {}, pid {pid}", self.uid),
            None => write!(f, "uid {}", self.uid),
        }
    }
}

/// An accepted connection and who it comes from; tonic puts the [`Peer`] into every request on it.
#[derive(Debug)]
pub struct PeerStream {
    stream: UnixStream,
    peer: Peer,
}

impl PeerStream {
    /// Binds a connection to its peer.
    #[must_use]
    pub fn new(stream: UnixStream, peer: Peer) -> Self {
        Self { stream, peer }
    }
}

impl Connected for PeerStream {
    type ConnectInfo = Peer;
    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
