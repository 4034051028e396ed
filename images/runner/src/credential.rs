//! The leased bearer token: in memory, in one box, out of it only as a header and as a mask.

use http::header::{HeaderValue, InvalidHeaderValue};
use memchr::memmem;
use prost::bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretSlice};
use zeroize::{Zeroize as _, Zeroizing};

/// Shorter ones are no bearer token of Kubernetes, and masking them would hit innocent text.
const MIN_BYTES: usize = 16;
/// Bound tokens have about 1,000 bytes; an `Authorization` header over 16 KiB is refused anyway.
const MAX_BYTES: usize = 16 * 1024;

/// A bearer token. Neither `Debug` nor `Clone`.
pub struct Credential(SecretSlice<u8>);

/// A credential that cannot be a bearer token. Says nothing of what it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CredentialError {
    /// Under 16 bytes or over 16 KiB.
    #[error("the credential has {0} bytes, which no bearer token has")]
    Length(usize),
    /// Something other than visible ASCII.
    #[error("the credential has characters that no bearer token has")]
    Characters,
}

impl Credential {
    /// Moves the token out of the frame it came in, and wipes it there.
    ///
    /// # Errors
    /// [`CredentialError`] when it cannot be a bearer token.
    pub fn take(frame: Bytes) -> Result<Self, CredentialError> {
        let secret = SecretSlice::from(frame.to_vec());
        // The frame's own copy is unshared, so it can be wiped; a shared one would not be ours to.
        if let Ok(mut frame) = frame.try_into_mut() {
            frame.zeroize();
        }
        let credential = Self(secret);
        let token = credential.expose();
        if !(MIN_BYTES..=MAX_BYTES).contains(&token.len()) {
            return Err(CredentialError::Length(token.len()));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(CredentialError::Characters);
        }
        Ok(credential)
    }

    /// The `Authorization` header. The HTTP library keeps it for the length of one call.
    ///
    /// # Errors
    /// None for a token that [`Credential::take`] let in: it is visible ASCII.
    pub fn header(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        let value = Zeroizing::new([b"Bearer ".as_slice(), self.expose()].concat());
        let mut header = HeaderValue::from_bytes(&value)?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Overwrites every occurrence of the token with as many `*`.
    ///
    /// The length stays, so this may be done to an encoded frame.
    pub fn mask(&self, text: &mut [u8]) {
        let token = self.expose();
        let mut from = 0;
        while let Some(at) = memmem::find(&text[from..], token) {
            text[from + at..][..token.len()].fill(b'*');
            from += at + token.len();
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "to check it, to send it to the API server, and to find it where it must not be"
    )]
    fn expose(&self) -> &[u8] {
        self.0.expose_secret()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &[u8] = b"eyJhbGciOi.canary.c2ln";

    #[test]
    fn a_token_becomes_a_header_that_debug_does_not_print() {
        let credential = Credential::take(Bytes::from_static(TOKEN)).ok().unwrap();
        let header = credential.header().unwrap();
        assert_eq!(header.as_bytes(), b"Bearer eyJhbGciOi.canary.c2ln");
        assert!(!format!("{header:?}").contains("canary"));
    }

    #[test]
    fn every_occurrence_is_masked_and_the_length_stays() {
        let credential = Credential::take(Bytes::from_static(TOKEN)).ok().unwrap();
        let mut text = [b"a ", TOKEN, TOKEN, b" z ", &TOKEN[1..]].concat();
        let length = text.len();
        credential.mask(&mut text);
        let stars = "*".repeat(2 * TOKEN.len());
        assert_eq!(
            text,
            format!("a {stars} z yJhbGciOi.canary.c2ln").as_bytes()
        );
        assert_eq!(text.len(), length);
    }

    #[test]
    fn what_is_no_token_is_refused_without_quoting_it() {
        let long = vec![b'a'; MAX_BYTES + 1];
        for (bytes, error) in [
            (&b""[..], CredentialError::Length(0)),
            (b"short", CredentialError::Length(5)),
            (b"eyJhbGciOi.canary\r\nX: y", CredentialError::Characters),
            (b"eyJhbGciOi canary c2ln", CredentialError::Characters),
            (&long, CredentialError::Length(MAX_BYTES + 1)),
        ] {
            let refused = Credential::take(Bytes::copy_from_slice(bytes)).err();
            assert_eq!(refused, Some(error));
            assert!(!error.to_string().contains("canary"));
        }
    }
}
