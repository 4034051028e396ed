//! Page tokens: where a page ended, sealed so that only what the daemon gave out comes back.
//!
//! The key is made anew at each start. A token of an earlier run is as stale as one that the API server
//! has forgotten, and says so.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

const SEAL: usize = 16;

/// Seals page tokens.
#[derive(Debug)]
pub struct PageKey(hmac::Key);

impl PageKey {
    /// A fresh key.
    ///
    /// # Errors
    /// When the system has no random bytes to give.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        let bytes: [u8; 32] = crate::random::bytes()?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// A token for `position`, good for the same `question` only.
    pub(super) fn seal(&self, question: &str, position: &str) -> String {
        let mut token = self.mac(question, position).to_vec();
        token.extend_from_slice(position.as_bytes());
        URL_SAFE_NO_PAD.encode(token)
    }

    /// The position of a token that this key sealed for this question.
    pub(super) fn open(&self, question: &str, token: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (seal, position) = bytes.split_at_checked(SEAL)?;
        let position = std::str::from_utf8(position).ok()?;
        // Not secret from its holder, who may try as often as the rate limit lets them.
        (self.mac(question, position) == seal).then(|| position.to_owned())
    }

    fn mac(&self, question: &str, position: &str) -> [u8; SEAL] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&(question.len() as u64).to_be_bytes());
        context.update(question.as_bytes());
        context.update(position.as_bytes());
        let tag = context.sign();
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&tag.as_ref()[..SEAL]);
        seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_for_its_own_question_and_key_alone() {
        let key = PageKey::generate().unwrap();
        let token = key.seal("demo-app\n", "next");
        assert_eq!(key.open("demo-app\n", &token).as_deref(), Some("next"));
        assert_eq!(key.open("other\n", &token), None);
        assert_eq!(
            PageKey::generate().unwrap().open("demo-app\n", &token),
            None
        );
    }

    #[test]
    fn no_changed_or_made_up_token_opens() {
        let key = PageKey::generate().unwrap();
        let token = key.seal("q", "next");
        for end in 0..token.len() {
            assert_eq!(key.open("q", &token[..end]), None);
        }
        for made_up in ["", "null", "AAAA", "!!", "bmV4dA"] {
            assert_eq!(key.open("q", made_up), None);
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for i in 0..bytes.len() {
            bytes[i] ^= 1;
            assert_eq!(key.open("q", &URL_SAFE_NO_PAD.encode(&bytes)), None);
            bytes[i] ^= 1;
        }
    }
}
