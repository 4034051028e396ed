//! Takes out what must never be in the trail, by the name it goes by and by what it looks like.
//!
//! This is the last net, not the first: secrets live in types that do not convert into a [`Value`].
//! It would rather take too much. What it takes out leaves a mark, `[scrubbed]` or `[scrubbed:jwt]`,
//! and scrubbing twice is scrubbing once.

mod text;

use super::value::{Fields, Value};

/// Beyond this depth a value is left out. Readers of JSON have limits of their own (serde's is 128);
/// a line that cannot be read back would look like damage.
const MAX_DEPTH: usize = 32;
const TOO_DEEP: &str = "[left out: nested too deeply]";
const MARK: &str = "[scrubbed]";

/// Words that, anywhere in a name, make it the name of a secret.
const SECRET_WORDS: &[&str] = &[
    "accessor",
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "jwt",
    "kubeconfig",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "secret",
    "secrets",
    "token",
    "tokens",
];
/// Words before "key" that make it a secret one.
const SECRET_KEYS: &[&str] = &[
    "access",
    "api",
    "client",
    "encryption",
    "private",
    "signing",
    "unseal",
];
/// Last words that make it a name for something about a secret instead: `token_ttl_seconds`.
const ABOUT: &[&str] = &[
    "age",
    "bytes",
    "code",
    "count",
    "kind",
    "limit",
    "ms",
    "name",
    "namespace",
    "seconds",
    "status",
    "ttl",
    "type",
    "version",
];

/// Scrubs the fields of an event, at every depth, names included.
pub(super) fn fields(fields: Fields) -> Fields {
    object(fields, 1)
}

fn object(fields: Fields, depth: usize) -> Fields {
    let mut clean = Fields::new();
    for (key, item) in fields {
        let item = if names_a_secret(&key) && !matches!(item, Value::Null | Value::Bool(_)) {
            Value::from(MARK)
        } else {
            value(item, depth)
        };
        let mut key = text::scrub(key);
        // Two names can become one by scrubbing; neither value may vanish for that.
        while clean.contains_key(&key) {
            key.push('+');
        }
        clean.insert(key, item);
    }
    clean
}

fn value(value: Value, depth: usize) -> Value {
    match value {
        Value::List(_) | Value::Object(_) if depth >= MAX_DEPTH => Value::from(TOO_DEEP),
        Value::List(items) => Value::List(
            items
                .into_iter()
                .map(|item| self::value(item, depth + 1))
                .collect(),
        ),
        Value::Object(fields) => Value::Object(object(fields, depth + 1)),
        Value::Text(plain) => Value::Text(text::scrub(plain)),
        Value::Null | Value::Bool(_) | Value::Integer(_) => value,
    }
}

/// Whether what goes by this name is a secret: `VAULT_TOKEN`, `clientSecret`, `x-api-key`.
fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    if words
        .last()
        .is_some_and(|last| ABOUT.contains(&last.as_str()))
    {
        return false;
    }
    let secret_key = |pair: &[String]| pair[1] == "key" && SECRET_KEYS.contains(&pair[0].as_str());
    words
        .iter()
        .any(|word| SECRET_WORDS.contains(&word.as_str()))
        || words.windows(2).any(secret_key)
}

/// The words of a name in lower case, whatever holds them together: `_`, `-`, spaces, `camelCase`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for character in name.chars() {
        let starts = character.is_ascii_uppercase() && before_is_lower;
        if starts || !character.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_ascii_alphanumeric(), words.last_mut()) {
            word.push(character.to_ascii_lowercase());
        }
        before_is_lower = character.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "token",
            "Token",
            "VAULT_TOKEN",
            "vaultToken",
            "x-vault-token",
            "password",
            "db.password",
            "clientSecret",
            "secret_id",
            "Authorization",
            "api_key",
            "x-api-key",
            "private key",
            "accessor",
            "token_accessor",
            "unsealKey",
            "credentials",
        ] {
            assert!(names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn what_a_trail_needs_keeps_its_name() {
        for name in [
            "scope",
            "lease_id",
            "ttl_seconds",
            "token_ttl_seconds",
            "secret_name",
            "public_key",
            "hash",
            "signature",
            "namespace",
            "keys",
            "tokenizer",
            "secretary",
            "continue",
            "",
            "_",
        ] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn what_goes_by_a_secret_name_is_gone_whole_at_any_depth() {
        let inner = Fields::from([
            ("password".to_owned(), Value::from(1234)),
            ("token".to_owned(), Value::from(vec!["a", "b"])),
            ("secret".to_owned(), Value::Null),
            ("ttl_seconds".to_owned(), Value::from(600)),
        ]);
        let clean = fields(Fields::from([(
            "list".to_owned(),
            Value::from(vec![inner]),
        )]));
        let told = Value::from(clean).to_string();
        assert_eq!(
            told,
            r#"{"list":[{"password":"[scrubbed]","secret":null,"token":"[scrubbed]","ttl_seconds":600}]}"#
        );
    }

    #[test]
    fn a_secret_in_a_name_is_gone_and_no_value_is_lost() {
        let jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln";
        let clean = fields(Fields::from([
            (jwt.to_owned(), Value::from(1)),
            (format!("{jwt}x"), Value::from(2)),
        ]));
        assert_eq!(
            Value::from(clean).to_string(),
            r#"{"[scrubbed:jwt]":1,"[scrubbed:jwt]+":2}"#
        );
    }

    #[test]
    fn bottomless_nesting_is_left_out_so_that_the_line_reads_back() {
        let deep = (0..1_000).fold(Value::from(1), |inner, _| Value::List(vec![inner]));
        let clean = Value::from(fields(Fields::from([("deep".to_owned(), deep)]))).to_string();
        assert!(clean.contains(TOO_DEEP));
        assert!(serde_json::from_str::<serde_json::Value>(&clean).is_ok());
    }
}
