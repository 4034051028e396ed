//! Random bytes from the system.

use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

/// `N` random bytes.
///
/// # Errors
/// When the system has none to give.
pub fn bytes<const N: usize>() -> Result<[u8; N], Unspecified> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes)
}

/// `length` random characters of `a-z` and `2-7`, 5 bits each, for names in the cluster.
///
/// # Errors
/// When the system has no random bytes to give.
pub fn name(length: usize) -> Result<String, Unspecified> {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = vec![0; length];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes
        .into_iter()
        .map(|b| char::from(ALPHABET[usize::from(b % 32)]))
        .collect())
}
