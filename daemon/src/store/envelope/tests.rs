//! What opens as what, and what does not.

use super::*;

const WRAPPED: &str = "vault:v1:c29tZXRoaW5n";
const PLAIN: &[u8] = b"{\"password\":\"canary\"}";

fn key(byte: u8) -> DataKey {
    DataKey::new(&[byte; 32], WRAPPED.to_owned()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test compares it")]
fn plain(opened: &SecretSlice<u8>) -> &[u8] {
    opened.expose_secret()
}

fn root(name: &str) -> RootName {
    name.parse().unwrap()
}

fn again(row: &[u8]) -> Envelope {
    Envelope::of_row(row.to_vec())
}

#[test]
fn a_row_without_a_key_is_as_it_ever_was() {
    let demo = root("demo");
    let of = Of::Plan {
        root: &demo,
        digest: &[1; 32],
    };
    let row = Envelope::close(PLAIN, of, None).unwrap();
    assert_eq!(row.as_row(), PLAIN);
    assert_eq!(row.wrapped_key(), Ok(None));
    // Whatever it is asked as: nothing in it tells.
    for key in [None, Some(&key(7))] {
        assert_eq!(plain(&row.open(of, key).unwrap()), PLAIN);
    }
    assert!(again(b"").open(of, None).is_ok());
}

#[test]
fn an_encrypted_row_opens_as_what_it_is_of_and_as_nothing_else() {
    let (demo, other, key) = (root("demo"), root("other"), key(7));
    let state = |root, lineage, serial| Of::State {
        root,
        lineage,
        serial,
    };
    let plan = |root, digest| Of::Plan { root, digest };
    let all = [
        state(&demo, "6f1c", 3),
        state(&demo, "6f1c", 4),
        state(&demo, "6f1", 3),
        state(&other, "6f1c", 3),
        plan(&demo, &[1; 32]),
        plan(&demo, &[2; 32]),
        plan(&other, &[1; 32]),
    ];
    for (at, of) in all.into_iter().enumerate() {
        let row = Envelope::close(PLAIN, of, Some(&key)).unwrap();
        assert_eq!(row.wrapped_key(), Ok(Some(WRAPPED)));
        let holds = row.as_row().windows(6).any(|window| window == b"canary");
        assert!(!holds, "{of:?}");
        for (other_at, other) in all.into_iter().enumerate() {
            let opened = again(row.as_row()).open(other, Some(&key));
            if at == other_at {
                assert_eq!(plain(&opened.unwrap()), PLAIN);
            } else {
                assert_eq!(opened.err(), Some(EnvelopeError::Changed), "{other:?}");
            }
        }
        assert_eq!(row.open(of, None).err(), Some(EnvelopeError::NoKey));
        let wrong = self::key(8);
        assert_eq!(
            row.open(of, Some(&wrong)).err(),
            Some(EnvelopeError::Changed)
        );
    }
}

#[test]
fn no_byte_of_an_encrypted_row_can_be_changed_and_none_cut_off() {
    let (demo, key) = (root("demo"), key(7));
    let of = Of::State {
        root: &demo,
        lineage: "6f1c",
        serial: 3,
    };
    let row = Envelope::close(PLAIN, of, Some(&key)).unwrap();
    // A changed magic makes it a plain one, which no state of Terraform's is.
    for at in MAGIC.len()..row.as_row().len() {
        let mut changed = row.as_row().to_vec();
        changed[at] ^= 1;
        assert!(again(&changed).open(of, Some(&key)).is_err(), "byte {at}");
    }
    for length in MAGIC.len()..row.as_row().len() {
        let cut = again(&row.as_row()[..length]);
        assert!(cut.open(of, Some(&key)).is_err(), "{length} bytes");
    }
    let mut newer = row.as_row().to_vec();
    newer[MAGIC.len()] = 2;
    assert_eq!(again(&newer).wrapped_key(), Err(EnvelopeError::Newer(2)));
}

#[test]
fn no_two_rows_are_alike_and_only_whole_keys_are_taken() {
    let demo = root("demo");
    let of = Of::Plan {
        root: &demo,
        digest: &[1; 32],
    };
    let close = || Envelope::close(PLAIN, of, Some(&key(7))).unwrap();
    assert_ne!(close().as_row(), close().as_row());
    for (bytes, wrapped) in [
        (31, WRAPPED.to_owned()),
        (33, WRAPPED.to_owned()),
        (32, String::new()),
        (32, "a".repeat(65_536)),
    ] {
        let made = DataKey::new(&vec![1; bytes], wrapped);
        assert_eq!(made.err(), Some(EnvelopeError::NoDataKey));
    }
}
