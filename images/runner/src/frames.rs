//! Frames on a byte stream: a 4-byte big-endian length, and one message of that many bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use sandbox_proto::MAX_FRAME_BYTES;
use sandbox_proto::runner::v1::{FromRunner, ToRunner, from_runner, to_runner};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::credential::Credential;

/// How long the daemon may leave a frame unread before it counts as gone.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than the contract allows.
    #[error("the daemon sent a frame of {0} bytes, over the limit of {MAX_FRAME_BYTES}")]
    TooLong(usize),
    /// Not a message, or one without a frame this runner knows.
    #[error("the daemon sent a frame that does not decode")]
    Garbled,
    /// The stream ended in the middle of one.
    #[error("the daemon's stream ended inside a frame")]
    Truncated,
    /// We made a frame longer than the contract allows.
    #[error("a frame of {0} bytes was to be sent, over the limit of {MAX_FRAME_BYTES}")]
    OwnTooLong(usize),
    /// The stream itself failed, or nobody read it.
    #[error("the daemon's stream failed: {0}")]
    Stream(io::Error),
}

/// Reads frames, each into memory of its own that is wiped afterwards.
pub struct FrameReader<R> {
    input: R,
    part: Part,
}

/// How far the frame being read has come. Kept between calls, so that a call may be dropped.
enum Part {
    Length {
        bytes: [u8; 4],
        filled: usize,
    },
    Body {
        bytes: Zeroizing<Vec<u8>>,
        filled: usize,
    },
}

const FRAME_START: Part = Part::Length {
    bytes: [0; 4],
    filled: 0,
};

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Frames from `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            part: FRAME_START,
        }
    }

    /// The next frame, or `None` when the stream ended between two. May be dropped and called again.
    ///
    /// # Errors
    /// [`FrameError`]; the stream is of no use afterwards.
    pub async fn next(&mut self) -> Result<Option<to_runner::Frame>, FrameError> {
        loop {
            let (rest, filled, inside) = match &mut self.part {
                Part::Length { bytes, filled } => (&mut bytes[*filled..], &mut *filled, false),
                Part::Body { bytes, filled } => (&mut bytes[*filled..], &mut *filled, true),
            };
            if !rest.is_empty() {
                let read = self.input.read(rest).await.map_err(FrameError::Stream)?;
                match read {
                    0 if !inside && *filled == 0 => return Ok(None),
                    0 => return Err(FrameError::Truncated),
                    _ => *filled += read,
                }
                continue;
            }
            match std::mem::replace(&mut self.part, FRAME_START) {
                Part::Length { bytes, .. } => self.part = body(bytes)?,
                Part::Body { bytes, .. } => return decode(&bytes).map(Some),
            }
        }
    }

    /// Waits until the stream ends. What still comes is not read as anything: it was under way.
    pub async fn ended(&mut self) {
        let mut rest = Zeroizing::new(vec![0; 16 * 1024]);
        while self.input.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}

fn body(length: [u8; 4]) -> Result<Part, FrameError> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong(length));
    }
    Ok(Part::Body {
        bytes: Zeroizing::new(vec![0; length]),
        filled: 0,
    })
}

/// The decoder's own error is left out: it may quote what it stumbled over.
fn decode(bytes: &[u8]) -> Result<to_runner::Frame, FrameError> {
    let message = ToRunner::decode(bytes).map_err(|_| FrameError::Garbled)?;
    message.frame.ok_or(FrameError::Garbled)
}

/// Writes frames. Once there is a credential, no frame leaves with it.
pub struct FrameWriter<W> {
    output: W,
    credential: Option<Arc<Credential>>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// Frames to `output`.
    pub fn new(output: W) -> Self {
        Self {
            output,
            credential: None,
        }
    }

    /// Masks `credential` in whatever is sent from here on. The one place for it, for every action.
    pub fn mask(&mut self, credential: Arc<Credential>) {
        self.credential = Some(credential);
    }

    /// Sends one frame, whole. Must not be dropped half-way.
    ///
    /// # Errors
    /// [`FrameError::OwnTooLong`], or [`FrameError::Stream`] when nobody takes it.
    pub async fn send(&mut self, frame: from_runner::Frame) -> Result<(), FrameError> {
        let message = FromRunner { frame: Some(frame) };
        let length = message.encoded_len();
        let prefix = u32::try_from(length)
            .ok()
            .filter(|_| length <= MAX_FRAME_BYTES);
        let prefix = prefix.ok_or(FrameError::OwnTooLong(length))?;
        let mut bytes = Vec::with_capacity(4 + length);
        bytes.extend_from_slice(&prefix.to_be_bytes());
        message.encode_raw(&mut bytes);
        if let Some(credential) = &self.credential {
            credential.mask(&mut bytes[4..]);
        }
        let write = async {
            self.output.write_all(&bytes).await?;
            self.output.flush().await
        };
        match timeout(WRITE_LIMIT, write).await {
            Ok(written) => written.map_err(FrameError::Stream),
            Err(_) => Err(FrameError::Stream(io::ErrorKind::TimedOut.into())),
        }
    }
}
