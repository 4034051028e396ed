//! Secrets that are recognised by what they look like, inside any text.

use std::ops::Range;

/// A kind of secret, and where the secret lies if one begins to show at this byte.
struct Pattern {
    mark: &'static str,
    find: fn(&[u8], usize) -> Option<Range<usize>>,
}

/// Tried in this order at each byte. All of them end at ASCII, so never inside a character.
const PATTERNS: &[Pattern] = &[
    Pattern {
        mark: "[scrubbed:private-key]",
        find: private_key,
    },
    Pattern {
        mark: "[scrubbed:jwt]",
        find: jwt,
    },
    Pattern {
        mark: "[scrubbed:vault-token]",
        find: vault_token,
    },
    Pattern {
        mark: "[scrubbed:bearer]",
        find: bearer,
    },
    Pattern {
        mark: "[scrubbed:userinfo]",
        find: userinfo,
    },
    Pattern {
        mark: super::MARK,
        find: assignment,
    },
];

/// The text with every secret replaced by its mark.
pub(super) fn scrub(text: String) -> String {
    let bytes = text.as_bytes();
    let mut clean = String::new();
    let (mut copied, mut at) = (0, 0);
    while at < bytes.len() {
        let found = PATTERNS
            .iter()
            .find_map(|p| Some((p.mark, (p.find)(bytes, at)?)));
        if let Some((mark, secret)) = found {
            clean.push_str(&text[copied..secret.start]);
            clean.push_str(mark);
            (copied, at) = (secret.end, secret.end);
        } else {
            at += 1;
        }
    }
    if copied == 0 {
        return text;
    }
    clean.push_str(&text[copied..]);
    clean
}

/// `eyJ…`: base64 of `{"`, with whatever dotted parts follow. One part is enough: it may be cut off.
fn jwt(text: &[u8], at: usize) -> Option<Range<usize>> {
    if !text[at..].starts_with(b"eyJ") {
        return None;
    }
    let mut end = run(text, at, is_base64);
    if end - at < 10 {
        return None;
    }
    while text.get(end) == Some(&b'.') && text.get(end + 1).is_some_and(|b| is_base64(*b)) {
        end = run(text, end + 1, is_base64);
    }
    Some(at..end)
}

/// `hvs.…`, `hvb.…`, `hvr.…` of Vault, `s.…`, `b.…`, `r.…` of OpenBao and older Vaults.
fn vault_token(text: &[u8], at: usize) -> Option<Range<usize>> {
    let (prefix, least) = match text[at..] {
        [b'h', b'v', b's' | b'b' | b'r', b'.', ..] => (4, 8),
        [b's' | b'b' | b'r', b'.', ..] if at_word_start(text, at) => (2, 20),
        _ => return None,
    };
    let mut end = run(text, at + prefix, is_base64url);
    if end - at - prefix < least {
        return None;
    }
    // A token of a namespace carries its id as a last part; and where the first part was the head of a JWT
    // that `r.` happened to stand before, the rest of that must go too.
    while text.get(end) == Some(&b'.') && text.get(end + 1).is_some_and(|b| is_base64url(*b)) {
        end = run(text, end + 1, is_base64url);
    }
    Some(at..end)
}

/// A PEM private key, to its end line, or to the end of the text when that is missing.
fn private_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    const LONGEST_LABEL: usize = 40;
    let label = text[at..].strip_prefix(b"-----BEGIN ")?;
    let label = &label[..label.len().min(LONGEST_LABEL)];
    let label = &label[..position(label, b"-----")?];
    if !label.ends_with(b"PRIVATE KEY") {
        return None;
    }
    let Some(end_line) = position(&text[at..], b"-----END ") else {
        return Some(at..text.len());
    };
    let after = at + end_line + b"-----END ".len();
    let end = position(&text[after..], b"-----").map_or(text.len(), |dashes| after + dashes + 5);
    Some(at..end)
}

/// The value after `Bearer `.
fn bearer(text: &[u8], at: usize) -> Option<Range<usize>> {
    if !at_word_start(text, at) || !starts_with_word(&text[at..], b"bearer") {
        return None;
    }
    let start = run(text, at + b"bearer".len(), |b| b == b' ');
    let end = run(text, start, |b| is_base64(b) || b == b'.' || b == b'~');
    let follows = start > at + b"bearer".len();
    (follows && looks_random(&text[start..end])).then_some(start..end)
}

/// `user:password` between `://` and `@`.
fn userinfo(text: &[u8], at: usize) -> Option<Range<usize>> {
    const LONGEST: usize = 256;
    let rest = text[at..].strip_prefix(b"://")?;
    let ends = |b: &u8| b.is_ascii_whitespace() || b"/\"'<>@".contains(b);
    let end = rest.iter().take(LONGEST).position(ends)?;
    (rest[end] == b'@' && rest[..end].contains(&b':')).then(|| at + 3..at + 3 + end)
}

/// The value in `password=…`, `"token": "…"`, `api_key: …`, `?secret=…`.
fn assignment(text: &[u8], at: usize) -> Option<Range<usize>> {
    const LONGEST_NAME: usize = 64;
    if !is_name(text[at]) || (at > 0 && is_name(text[at - 1])) {
        return None;
    }
    let name_end = run(text, at, is_name);
    let (sign, sign_at) = after_quote_and_spaces(text, name_end)?;
    if !matches!(sign, b'=' | b':') || name_end - at > LONGEST_NAME {
        return None;
    }
    let name = std::str::from_utf8(&text[at..name_end]).ok()?;
    if !super::names_a_secret(name) {
        return None;
    }
    let after_spaces = run(text, sign_at + 1, |b| b == b' ');
    let mut start = run(text, after_spaces, |b| {
        b == b'"' || b == b'\'' || b == b'\\'
    });
    let quoted = start > after_spaces;
    let mut end = run(text, start, is_in_value);
    let scheme = &text[start..end];
    if [&b"basic"[..], b"digest", b"token", b"apikey"]
        .iter()
        .any(|s| scheme.eq_ignore_ascii_case(s))
    {
        start = run(text, end, |b| b == b' ');
        end = run(text, start, is_in_value);
    }
    // "could not read the token: permission denied" is a message, not an assignment.
    let told = sign == b'=' || quoted || looks_random(&text[start..end]);
    (told && end > start).then_some(start..end)
}

/// The first byte past a closing quote, escaped or not, and spaces; and where it is.
fn after_quote_and_spaces(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let at = run(text, at, |b| b == b'"' || b == b'\'' || b == b'\\');
    let at = run(text, at, |b| b == b' ');
    text.get(at).map(|b| (*b, at))
}

/// Not a word of plain prose.
fn looks_random(value: &[u8]) -> bool {
    let prose = value
        .iter()
        .all(|b| b.is_ascii_lowercase() || b".-".contains(b));
    value.len() >= 20
        || (value.len() >= 6 && !prose && !value[1..].iter().all(u8::is_ascii_lowercase))
}

fn run(text: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    from + text[from..].iter().take_while(|b| belongs(**b)).count()
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted)
}

fn at_word_start(text: &[u8], at: usize) -> bool {
    at == 0 || !(is_base64url(text[at - 1]) || text[at - 1] == b'.')
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_base64(byte: u8) -> bool {
    is_base64url(byte) || b"+/=".contains(&byte)
}

fn is_in_value(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"\"',;&)}\\".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JWT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzYngifQ.c2lnbmF0dXJl-_8";

    #[test]
    fn each_kind_of_secret_leaves_only_its_mark() {
        for (text, clean) in [
            (JWT.to_owned(), "[scrubbed:jwt]"),
            (format!("got <{JWT}>."), "got <[scrubbed:jwt]>."),
            (format!("é{JWT}é"), "é[scrubbed:jwt]é"),
            (JWT[..15].to_owned(), "[scrubbed:jwt]"),
            (
                "hvs.CAESIJ0123456789abcdef".to_owned(),
                "[scrubbed:vault-token]",
            ),
            (
                "is s.AbCdEfGhIjKlMnOpQrStUvWx here".to_owned(),
                "is [scrubbed:vault-token] here",
            ),
            (
                "s.AbCdEfGhIjKlMnOpQrStUvWx.ns1Ab".to_owned(),
                "[scrubbed:vault-token]",
            ),
            (
                "Authorization: Bearer abc123DEF".to_owned(),
                "Authorization: Bearer [scrubbed:bearer]",
            ),
            (
                "authorization: basic dXNlcjpwYXNz".to_owned(),
                "authorization: basic [scrubbed]",
            ),
            (
                "-H 'X-Vault-Token: root7root'".to_owned(),
                "-H 'X-Vault-Token: [scrubbed]'",
            ),
            ("a?token=abc&b=1".to_owned(), "a?token=[scrubbed]&b=1"),
            (
                "{\"password\": \"letmein\"}".to_owned(),
                "{\"password\": \"[scrubbed]\"}",
            ),
            (
                "{\\\"password\\\":\\\"letmein\\\"}".to_owned(),
                "{\\\"password\\\":\\\"[scrubbed]\\\"}",
            ),
            ("password: hunter2".to_owned(), "password: [scrubbed]"),
            (
                "https://me:pw@host/path".to_owned(),
                "https://[scrubbed:userinfo]@host/path",
            ),
            (
                "k -----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY----- z".to_owned(),
                "k [scrubbed:private-key] z",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMHcC".to_owned(),
                "[scrubbed:private-key]",
            ),
        ] {
            assert_eq!(scrub(text.clone()), clean, "{text}");
        }
    }

    #[test]
    fn what_a_reader_needs_stays_word_for_word() {
        for text in [
            "kubernetes/creds/pod-reader-demo-app/h5Xb2kq0wEr7",
            "secrets is forbidden: User \"system:serviceaccount:demo-app:sbx-1\" cannot list",
            "could not look up the token: permission denied",
            "the bearer token was refused with 403",
            "GET /api/v1/namespaces/demo-app/pods?limit=50 200",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "https://10.0.0.1:6443/version",
            "pods.example.company-of-long-names-indeed",
            "Linux version 4.4.0 (gVisor)",
        ] {
            assert_eq!(scrub(text.to_owned()), text);
        }
    }

    /// Found by the property test below, one run in some hundred.
    #[test]
    fn a_jwt_behind_what_looks_like_a_vault_token_goes_whole() {
        for before in ["r.", "s.", "b.", "hvs.", "x s."] {
            let clean = scrub(format!("{before}{JWT}"));
            assert!(!clean.contains("c2lnbmF0dXJl"), "{clean}");
            assert!(clean.ends_with(']'), "{clean}");
        }
    }

    fn fragments() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just(JWT.to_owned()),
            Just("eyJ".to_owned()),
            Just("s.AbCdEfGhIjKlMnOpQrStUvWx".to_owned()),
            Just("hvs.".to_owned()),
            Just("Bearer ".to_owned()),
            Just("password".to_owned()),
            Just("token=".to_owned()),
            Just("-----BEGIN PRIVATE KEY-----".to_owned()),
            Just("-----END ".to_owned()),
            Just("[scrubbed:jwt]".to_owned()),
            "[ \"'\\\\:=.@/é]{1,3}",
            "[a-zA-Z0-9_-]{1,12}",
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn no_token_survives_whatever_stands_around_it(before in any::<String>(), after in any::<String>()) {
            let clean = scrub(format!("{before}{JWT}{after}"));
            prop_assert!(!clean.contains("eyJ"), "{}", clean);
            prop_assert!(!clean.contains("c2lnbmF0dXJl"), "{}", clean);
        }

        #[test]
        fn no_signature_survives_among_what_begins_like_a_secret(before in fragments(), after in fragments()) {
            let clean = scrub(format!("{before}{JWT}{after}"));
            prop_assert!(!clean.contains("c2lnbmF0dXJl"), "{}", clean);
        }

        #[test]
        fn scrubbing_twice_is_scrubbing_once(text in fragments()) {
            let once = scrub(text);
            prop_assert_eq!(scrub(once.clone()), once);
        }
    }
}
