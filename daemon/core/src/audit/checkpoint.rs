//! Signed statements of how far a trail had come: as events in it, and as small files outside it.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::event::{Event, EventName};
use super::hash::{Head, Seq, parse_hex};
use super::time::UtcMillis;
use super::value::{Fields, Value};

const DOMAIN: &[u8] = b"agent-sandbox audit checkpoint v1\n";
const VERSION: u32 = 1;

/// Whether `signature` is this key's Ed25519 signature of `message`. Passed in: the arithmetic is not
/// this crate's.
pub type CheckSignature = fn(key: &PublicKey, message: &[u8], signature: &Signature) -> bool;

macro_rules! bytes {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Eq, PartialEq)]
        pub struct $name(pub [u8; $length]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = hex::FromHexError;
            fn from_str(s: &str) -> Result<Self, hex::FromHexError> {
                parse_hex(s).map(Self)
            }
        }
    };
}

bytes! {
    /// An Ed25519 public key. Written as 64 lower-case hex digits.
    PublicKey, 32
}
bytes! {
    /// An Ed25519 signature. Written as 128 lower-case hex digits.
    Signature, 64
}

/// "When the trail had come to this place, its hash was this", signed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Checkpoint {
    /// The last line it covers, and that line's hash.
    pub head: Head,
    /// When it was signed.
    pub time: UtcMillis,
    /// Whose signature it is.
    pub key: PublicKey,
    /// Over [`Checkpoint::signed_bytes`].
    pub signature: Signature,
}

/// The text is not a checkpoint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is not a checkpoint: {0}")]
pub struct CheckpointError(String);

impl Checkpoint {
    /// The bytes a signature is over; the layout is in the module above.
    #[must_use]
    pub fn signed_bytes(head: Head, time: UtcMillis) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(DOMAIN.len() + 48);
        bytes.extend_from_slice(DOMAIN);
        bytes.extend_from_slice(&head.seq.0.to_be_bytes());
        bytes.extend_from_slice(head.hash.as_bytes());
        bytes.extend_from_slice(&time.as_unix_ms().to_be_bytes());
        bytes
    }

    /// Whether its signature is good, by the key it names.
    #[must_use]
    pub fn is_signed(&self, check: CheckSignature) -> bool {
        check(
            &self.key,
            &Self::signed_bytes(self.head, self.time),
            &self.signature,
        )
    }

    /// As the event that carries it.
    pub fn to_event(&self) -> Event {
        Event::new(EventName::AuditCheckpoint)
            .with("seq", self.head.seq.0)
            .with("hash", self.head.hash.to_string())
            .with("time", self.time.to_string())
            .with("public_key", self.key.to_string())
            .with("signature", self.signature.to_string())
    }

    /// Out of the fields of an `audit.checkpoint` event.
    ///
    /// # Errors
    /// [`CheckpointError`], naming the field.
    pub fn from_fields(fields: &Fields) -> Result<Self, CheckpointError> {
        let seq = match fields.get("seq") {
            Some(Value::Integer(seq)) => u64::try_from(*seq).ok(),
            _ => None,
        };
        let seq = seq.ok_or_else(|| CheckpointError("seq is not a place in a trail".to_owned()))?;
        if fields.len() != 5 {
            return Err(CheckpointError(
                "it has other fields than a checkpoint".to_owned(),
            ));
        }
        Ok(Self {
            head: Head {
                seq: Seq(seq),
                hash: text(fields, "hash")?,
            },
            time: text(fields, "time")?,
            key: text(fields, "public_key")?,
            signature: text(fields, "signature")?,
        })
    }

    /// As a file: one line of JSON.
    #[must_use]
    pub fn to_file(&self) -> String {
        let Self {
            head: Head { seq, hash },
            time,
            key,
            signature,
        } = self;
        format!(
            "{{\"v\":{VERSION},\"seq\":{seq},\"hash\":\"{hash}\",\"time\":\"{time}\",\
             \"public_key\":\"{key}\",\"signature\":\"{signature}\"}}\n"
        )
    }

    /// Reads what [`Checkpoint::to_file`] wrote.
    ///
    /// # Errors
    /// [`CheckpointError`], with what is wrong.
    pub fn from_file(content: &str) -> Result<Self, CheckpointError> {
        let file: File =
            serde_json::from_str(content).map_err(|e| CheckpointError(e.to_string()))?;
        if file.v != VERSION {
            return Err(CheckpointError(format!("it is of version {}", file.v)));
        }
        Ok(Self {
            head: Head {
                seq: Seq(file.seq),
                hash: parsed("hash", &file.hash)?,
            },
            time: parsed("time", &file.time)?,
            key: parsed("public_key", &file.public_key)?,
            signature: parsed("signature", &file.signature)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    v: u32,
    seq: u64,
    hash: String,
    time: String,
    public_key: String,
    signature: String,
}

fn text<T: FromStr<Err: fmt::Display>>(fields: &Fields, name: &str) -> Result<T, CheckpointError> {
    match fields.get(name) {
        Some(Value::Text(text)) => parsed(name, text),
        _ => Err(CheckpointError(format!("{name} is not a text"))),
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(name: &str, text: &str) -> Result<T, CheckpointError> {
    text.parse()
        .map_err(|e| CheckpointError(format!("{name} {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::LineHash;

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            head: Head {
                seq: Seq(0x0102),
                hash: LineHash::from_bytes([0xaa; 32]),
            },
            time: UtcMillis::from_unix_ms(1_772_357_400_125),
            key: PublicKey([0xbb; 32]),
            signature: Signature([0xcc; 64]),
        }
    }

    #[test]
    fn the_signed_bytes_are_laid_out_as_written_down() {
        let Checkpoint { head, time, .. } = checkpoint();
        let bytes = Checkpoint::signed_bytes(head, time);
        assert_eq!(bytes.len(), 82);
        assert_eq!(&bytes[..34], b"agent-sandbox audit checkpoint v1\n");
        assert_eq!(bytes[34..42], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes[42..74], [0xaa; 32]);
        assert_eq!(bytes[74..], 1_772_357_400_125_i64.to_be_bytes());
    }

    #[test]
    fn it_survives_a_file_and_an_event() {
        let it = checkpoint();
        assert_eq!(Checkpoint::from_file(&it.to_file()), Ok(it));
        assert_eq!(Checkpoint::from_fields(&it.to_event().fields), Ok(it));
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        let good = checkpoint().to_file();
        for (bad, reason) in [
            (String::new(), "EOF"),
            (good.replace("\"v\":1", "\"v\":2"), "version 2"),
            (good.replace("aaaa", "aaa"), "hash"),
            (good.replace("aaaa", "AAAA"), "hash"),
            (good.replace("cccc", "zzzz"), "signature"),
            (good.replace("\"seq\":258", "\"seq\":-1"), "seq"),
            (good.replace("\"seq\"", "\"sec\""), "sec"),
        ] {
            let error = Checkpoint::from_file(&bad).expect_err(&bad).to_string();
            assert!(
                error.contains(reason) || error.contains("invalid value"),
                "{error}"
            );
        }
        let mut fields = checkpoint().to_event().fields;
        fields.insert("more".to_owned(), Value::Null);
        assert!(Checkpoint::from_fields(&fields).is_err());
    }
}
