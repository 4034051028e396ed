//! The trail on disk: durable, in order, whole after a crash, and closed to whoever tampers with it.
#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::audit::{Checkpoint, Event, EventName, FaultKind, Record, Seq, Value};
use sandbox_core::ids::RequestId;
use sandboxd::audit::{
    Audit, AuditCommand, AuditError, Filter, OpenReport, QueryError, Settings, StoredLine,
    VerifyError, check_signature, verify_file,
};
use sandboxd::clock::Clock;
use tempfile::TempDir;
use tokio_stream::StreamExt as _;

const START_MS: u64 = 1_772_357_400_000;

fn clock() -> Clock {
    Clock::from_fn(|| START_MS)
}

/// Never low, and no checkpoint that a test did not ask for.
fn quiet() -> Settings {
    let hour = Duration::from_hours(1);
    Settings {
        low_water_bytes: 0,
        checkpoint_every: u64::MAX,
        checkpoint_idle: hour,
        ..Settings::default()
    }
}

fn open(folder: &Path) -> (Audit, OpenReport) {
    Audit::open(folder, quiet(), clock()).unwrap()
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn trail(folder: &Path) -> PathBuf {
    folder.join("audit.jsonl")
}

fn lines(folder: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(trail(folder)).unwrap();
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "a torn end");
    bytes
        .split_inclusive(|b| *b == b'\n')
        .map(|line| line[..line.len() - 1].to_vec())
        .collect()
}

fn records(folder: &Path) -> Vec<Record> {
    lines(folder)
        .iter()
        .map(|line| Record::read(line).unwrap())
        .collect()
}

fn id(number: u64) -> RequestId {
    RequestId::new(START_MS + number, [7; 10])
}

fn call(number: u64) -> Event {
    Event::new(EventName::ApiCall)
        .request(id(number))
        .with("number", number)
}

async fn all(audit: &Audit, filter: Filter) -> Vec<StoredLine> {
    audit
        .query(filter)
        .await
        .unwrap()
        .collect::<Result<_, _>>()
        .await
        .unwrap()
}

fn of(prefix: &str) -> Filter {
    Filter {
        request: Some(prefix.parse().unwrap()),
        after: None,
    }
}

#[tokio::test]
async fn the_events_of_one_request_come_back_in_order_byte_for_byte() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    let order = [
        EventName::ToolRequest,
        EventName::GuardrailDecision,
        EventName::CredentialIssued,
        EventName::SandboxStarted,
        EventName::ApiCall,
        EventName::SandboxCompleted,
        EventName::CredentialRevoked,
        EventName::CredentialProvenDead,
        EventName::ToolResult,
    ];
    for name in order {
        audit.record(Event::new(name).request(id(1))).await.unwrap();
        audit.record(Event::new(name).request(id(2))).await.unwrap();
    }
    let stored = all(&audit, of(&id(1).to_string())).await;
    let names: Vec<_> = stored
        .iter()
        .map(|line| Record::read(&line.line).unwrap().event)
        .collect();
    assert_eq!(names, order);
    let file = lines(folder.path());
    for StoredLine { seq, line } in stored {
        assert_eq!(file[usize::try_from(seq.0).unwrap() - 1], line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_together_share_a_write_and_each_has_its_own_place() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    let tasks = (0..64).map(|task| {
        let audit = audit.clone();
        async move {
            let mut places = Vec::new();
            for number in 0..20 {
                places.push(audit.record(call(task * 100 + number)).await.unwrap());
            }
            assert!(places.is_sorted(), "one task's events keep their order");
            places
        }
    });
    let places: BTreeSet<Seq> = futures_util::future::join_all(tasks)
        .await
        .concat()
        .into_iter()
        .collect();
    assert_eq!(places.len(), 64 * 20);
    let status = audit.status();
    assert_eq!(status.head.seq, Seq(64 * 20));
    assert!(
        status.commits < 64 * 20 / 4,
        "{} writes for {} events",
        status.commits,
        64 * 20
    );
    assert_eq!(audit.verify().await.unwrap().events, 64 * 20);
}

#[tokio::test]
async fn an_event_is_in_the_file_when_its_record_resolves() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 1..=5 {
        let seq = audit.record(call(number)).await.unwrap();
        let last = records(folder.path()).pop().unwrap();
        assert_eq!(
            (last.seq, last.fields["number"].clone()),
            (seq, Value::from(number))
        );
    }
}

#[tokio::test]
async fn a_second_daemon_on_the_same_folder_is_refused_until_the_first_has_closed() {
    let folder = folder();
    let (audit, report) = open(folder.path());
    assert!(report.key_made);
    match Audit::open(folder.path(), quiet(), clock()) {
        Err(AuditError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    audit.record(call(1)).await.unwrap();
    audit.close().await.unwrap();
    assert!(matches!(
        audit.record(call(2)).await,
        Err(AuditError::Closed)
    ));

    let (audit, report) = open(folder.path());
    assert!(!report.key_made);
    assert_eq!(
        report.head.seq,
        Seq(2),
        "one event and the checkpoint at its end"
    );
    audit.record(call(3)).await.unwrap();
    assert_eq!(audit.verify().await.unwrap().events, 3);
}

#[tokio::test]
async fn a_checkpoint_is_signed_after_so_many_events_at_idle_when_asked_and_at_the_end() {
    let folder = folder();
    let settings = Settings {
        checkpoint_every: 3,
        ..quiet()
    };
    let (audit, _) = Audit::open(folder.path(), settings, clock()).unwrap();
    assert_eq!(
        audit.checkpoint().await.unwrap(),
        None,
        "nothing to sign yet"
    );
    for number in 1..=4 {
        audit.record(call(number)).await.unwrap();
    }
    let names = |folder: &Path| {
        records(folder)
            .iter()
            .map(|r| r.event.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        names(folder.path()),
        "api.call api.call api.call audit.checkpoint api.call"
    );
    let asked = audit.checkpoint().await.unwrap().unwrap();
    assert_eq!(asked.head.seq, Seq(5));
    assert!(asked.is_signed(check_signature));
    assert_eq!(
        audit.checkpoint().await.unwrap(),
        Some(asked),
        "not again without news"
    );
    audit.record(call(5)).await.unwrap();
    assert_eq!(audit.close().await.unwrap().unwrap().head.seq, Seq(7));
    assert_eq!(
        verify_file(&trail(folder.path()), None).unwrap().unsigned(),
        0
    );

    let idle = Settings {
        checkpoint_idle: Duration::from_millis(1),
        ..quiet()
    };
    let (audit, _) = Audit::open(folder.path(), idle, clock()).unwrap();
    let seq = audit.record(call(6)).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while audit
        .status()
        .newest
        .is_none_or(|newest| newest.head.seq < seq)
    {
        assert!(Instant::now() < deadline, "no checkpoint at idle");
        tokio::task::yield_now().await;
    }
    assert_eq!(audit.status().head.seq, seq.next(), "one is enough");
}

#[tokio::test]
async fn handles_dropped_without_a_close_still_leave_a_signed_end() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    audit.record(call(1)).await.unwrap();
    drop(audit);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match Audit::open(folder.path(), quiet(), clock()) {
            Ok((_, report)) => break assert_eq!(report.newest.unwrap().head.seq, Seq(1)),
            Err(AuditError::Locked { .. }) => assert!(Instant::now() < deadline, "never let go"),
            Err(other) => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn half_a_last_line_is_set_aside_told_of_and_nothing_else_is_lost() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 1..=3 {
        audit.record(call(number)).await.unwrap();
    }
    audit.close().await.unwrap();
    let whole = fs::read(trail(folder.path())).unwrap();
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    // Every kind of place: one byte, in the middle, all but the LF.
    for keep in [last + 1, last + 60, whole.len() - 70, whole.len() - 1] {
        fs::write(trail(folder.path()), &whole[..keep]).unwrap();
        let (audit, report) = open(folder.path());
        let torn = report.torn.unwrap();
        assert_eq!(fs::read(&torn.file).unwrap(), &whole[last..keep]);
        let told = records(folder.path()).pop().unwrap();
        assert_eq!((told.seq, told.event), (Seq(4), EventName::AuditTornLine));
        assert_eq!(told.fields["bytes"], Value::from(keep - last));
        let name = torn.file.file_name().unwrap().to_str().unwrap();
        assert_eq!(told.fields["file"], Value::from(name));
        assert!(
            fs::read(trail(folder.path()))
                .unwrap()
                .starts_with(&whole[..last])
        );
        assert_eq!(audit.verify().await.unwrap().events, 4);
        audit.close().await.unwrap();
        fs::remove_file(torn.file).unwrap();
    }
}

/// What somebody does to the lines of a trail.
type Damage = fn(&mut Vec<Vec<u8>>);

#[tokio::test]
async fn damage_elsewhere_stops_the_start_and_names_the_line() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 1..=5 {
        audit.record(call(number)).await.unwrap();
    }
    audit.close().await.unwrap();
    let whole = lines(folder.path());
    for (line, damage) in [
        (2, (|lines| lines[1][60] ^= 1) as Damage),
        (3, |lines| drop(lines.remove(2))),
        (1, |lines| lines.swap(0, 4)),
        (4, |lines| lines.insert(3, Vec::new())),
        (1, |lines| drop(lines.remove(0))),
    ] {
        let mut damaged = whole.clone();
        damage(&mut damaged);
        let bytes: Vec<u8> = damaged
            .into_iter()
            .flat_map(|line| [line, b"\n".to_vec()].concat())
            .collect();
        fs::write(trail(folder.path()), &bytes).unwrap();
        match Audit::open(folder.path(), quiet(), clock()) {
            Err(AuditError::Damaged(fault)) => assert_eq!(fault.line, line, "{fault}"),
            other => panic!("line {line}: {other:?}"),
        }
        assert_eq!(
            fs::read(trail(folder.path())).unwrap(),
            bytes,
            "what was found is left as it was"
        );
    }
}

#[tokio::test]
async fn damage_found_while_running_stops_new_calls_and_lets_ends_through() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 1..=3 {
        audit.record(call(number)).await.unwrap();
    }
    assert!(audit.verify().await.is_ok());
    let file = fs::File::options()
        .write(true)
        .open(trail(folder.path()))
        .unwrap();
    file.write_at(b"X", 40).unwrap();
    match audit.verify().await {
        Err(VerifyError::Fault(fault)) => assert_eq!(fault.line, 1, "{fault}"),
        other => panic!("{other:?}"),
    }
    let refused = audit
        .record(Event::new(EventName::ToolRequest))
        .await
        .unwrap_err();
    assert!(matches!(refused, AuditError::Damaged(_)), "{refused}");
    assert!(matches!(
        audit.status().refusing,
        Some(AuditError::Damaged(_))
    ));
    audit
        .record_closing(Event::new(EventName::CredentialRevoked))
        .await
        .unwrap();
    assert_eq!(lines(folder.path()).len(), 4);
}

#[tokio::test]
async fn a_trail_replaced_behind_the_daemons_back_is_found_by_the_next_write_and_by_verify() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    audit.record(call(1)).await.unwrap();
    audit.checkpoint().await.unwrap();
    audit.record(call(2)).await.unwrap();
    let copy = folder.path().join("copy");
    let whole = lines(folder.path());
    fs::write(&copy, [&whole[0][..], b"\n"].concat()).unwrap();
    fs::rename(&copy, trail(folder.path())).unwrap();
    match audit.verify().await {
        Err(VerifyError::Fault(fault)) => assert_eq!(
            fault.kind,
            FaultKind::OtherEnd {
                known: audit.status().head
            }
        ),
        other => panic!("{other:?}"),
    }
    match audit
        .record_closing(Event::new(EventName::CredentialRevoked))
        .await
    {
        Err(AuditError::Displaced(..)) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn under_the_low_water_mark_new_calls_are_refused_and_ends_go_on() {
    let folder = folder();
    let settings = Settings {
        low_water_bytes: u64::MAX,
        ..quiet()
    };
    let (audit, report) = Audit::open(folder.path(), settings, clock()).unwrap();
    assert!(!report.holds_reserve);
    for name in EventName::ALL {
        let recorded = audit.record(Event::new(*name)).await;
        match recorded {
            Ok(_) => assert!(name.may_use_reserve(), "{name}"),
            Err(AuditError::LowSpace {
                needed: u64::MAX, ..
            }) => assert!(!name.may_use_reserve(), "{name}"),
            Err(other) => panic!("{name}: {other:?}"),
        }
    }
    assert!(matches!(
        audit.status().refusing,
        Some(AuditError::LowSpace { .. })
    ));
    assert!(matches!(
        audit.checkpoint().await,
        Err(AuditError::LowSpace { .. })
    ));
    assert!(
        audit.close().await.unwrap().is_some(),
        "the end is signed all the same"
    );
    assert_eq!(
        verify_file(&trail(folder.path()), None).unwrap().unsigned(),
        0
    );
}

#[tokio::test]
async fn a_beginning_of_an_id_finds_its_request_or_the_list_it_could_mean() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 0..300 {
        audit.record(call(number)).await.unwrap();
        audit
            .record(Event::new(EventName::PeerRefused))
            .await
            .unwrap();
    }
    let whole = id(255).to_string();
    let found = all(&audit, of(&whole[..13])).await;
    assert_eq!(
        found.iter().map(|line| line.seq).collect::<Vec<_>>(),
        [Seq(511)]
    );
    assert_eq!(
        all(&audit, of(&whole.replace('-', "").to_uppercase())).await,
        found
    );

    match audit.query(of(&whole[..7])).await {
        Err(QueryError::Ambiguous { ids, more }) => {
            assert_eq!(ids, (0..20).map(id).collect::<Vec<_>>());
            assert!(more);
        }
        other => panic!("{other:?}"),
    }
    match audit.query(of(&whole[..12])).await {
        Err(error @ QueryError::Ambiguous { .. }) => {
            assert!(error.to_string().contains(&whole), "{error}");
        }
        other => panic!("{other:?}"),
    }
    for unknown in [id(300).to_string(), "ffffff".to_owned()] {
        assert!(
            matches!(
                audit.query(of(&unknown)).await,
                Err(QueryError::UnknownRequest)
            ),
            "{unknown}"
        );
    }
}

#[tokio::test]
async fn a_query_can_go_on_from_any_place() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 0..600 {
        audit.record(call(number % 2)).await.unwrap();
    }
    for after in [0, 1, 255, 256, 257, 599, 600, 601, u64::MAX] {
        let filter = Filter {
            request: None,
            after: Some(Seq(after)),
        };
        let places: Vec<u64> = all(&audit, filter)
            .await
            .iter()
            .map(|line| line.seq.0)
            .collect();
        assert_eq!(
            places,
            (after.saturating_add(1)..=600).collect::<Vec<_>>(),
            "after {after}"
        );
        let filter = Filter {
            after: Some(Seq(after)),
            ..of(&id(1).to_string())
        };
        let places: Vec<u64> = all(&audit, filter)
            .await
            .iter()
            .map(|line| line.seq.0)
            .collect();
        let even: Vec<u64> = (after.saturating_add(1)..=600)
            .filter(|seq| seq % 2 == 0)
            .collect();
        assert_eq!(places, even, "of one request after {after}");
    }
}

#[tokio::test]
async fn every_events_hash_can_be_asked_for() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 0..300 {
        audit.record(call(number)).await.unwrap();
    }
    for record in records(folder.path()).iter().step_by(37) {
        assert_eq!(audit.hash_at(record.seq).await.unwrap(), Some(record.hash));
    }
    for none in [0, 301, u64::MAX] {
        assert_eq!(audit.hash_at(Seq(none)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_signing_key_is_private_and_the_trail_holds_on_to_it() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    audit.record(call(1)).await.unwrap();
    audit.close().await.unwrap();
    let key = folder.path().join("audit.key");
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    let refusal = || {
        Audit::open(folder.path(), quiet(), clock())
            .unwrap_err()
            .to_string()
    };

    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refusal().contains("read by others"), "{}", refusal());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();

    let elsewhere = tempfile::tempdir().unwrap();
    let (other, _) = open(elsewhere.path());
    other.close().await.unwrap();
    let own = fs::read(&key).unwrap();
    fs::copy(elsewhere.path().join("audit.key"), &key).unwrap();
    assert!(refusal().contains("are signed by"), "{}", refusal());
    fs::remove_file(&key).unwrap();
    assert!(refusal().contains("is missing"), "{}", refusal());
    fs::write(&key, b"junk").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refusal().contains("PKCS#8"), "{}", refusal());

    fs::write(&key, own).unwrap();
    assert!(Audit::open(folder.path(), quiet(), clock()).is_ok());
}

#[tokio::test]
async fn a_trail_that_was_taken_away_is_not_begun_anew_without_a_word() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    audit.record(call(1)).await.unwrap();
    audit.close().await.unwrap();
    fs::remove_file(trail(folder.path())).unwrap();
    let refusal = Audit::open(folder.path(), quiet(), clock())
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("is gone"), "{refusal}");
    assert!(!trail(folder.path()).exists());
    fs::remove_file(folder.path().join("audit.key")).unwrap();
    assert!(open(folder.path()).1.key_made);
}

#[tokio::test]
async fn a_folder_or_file_that_others_could_have_written_is_refused() {
    let folder = folder();
    open(folder.path()).0.close().await.unwrap();
    let refusal = || {
        Audit::open(folder.path(), quiet(), clock())
            .unwrap_err()
            .to_string()
    };
    for (path, bad, good) in [
        (folder.path().to_owned(), 0o770, 0o700),
        (trail(folder.path()), 0o606, 0o600),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(bad)).unwrap();
        assert!(refusal().contains("written by others"), "{}", refusal());
        fs::set_permissions(&path, fs::Permissions::from_mode(good)).unwrap();
    }
    fs::hard_link(trail(folder.path()), folder.path().join("second")).unwrap();
    assert!(refusal().contains("second name"), "{}", refusal());
    fs::remove_file(folder.path().join("second")).unwrap();
    fs::rename(trail(folder.path()), folder.path().join("real")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("real"), trail(folder.path())).unwrap();
    assert!(refusal().contains("could not open"), "{}", refusal());
}

fn verify_command(file: &Path, checkpoint: Option<PathBuf>) -> (u8, String) {
    let mut said = Vec::new();
    let code = AuditCommand::Verify {
        file: file.to_owned(),
        checkpoint,
    }
    .run(&mut said)
    .unwrap();
    (code, String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn the_verify_command_says_what_holds_and_what_does_not() {
    let folder = folder();
    let (audit, _) = open(folder.path());
    for number in 1..=4 {
        audit.record(call(number)).await.unwrap();
    }
    let kept: Checkpoint = audit.checkpoint().await.unwrap().unwrap();
    audit.record(call(5)).await.unwrap();
    // Before the last handle goes: its end is signed, whenever the writer comes to it.
    let whole = fs::read(trail(folder.path())).unwrap();
    drop(audit);
    let copy = folder.path().join("copy.jsonl");
    let kept_file = folder.path().join("kept");
    fs::write(&kept_file, kept.to_file()).unwrap();
    let with = || Some(kept_file.clone());

    fs::write(&copy, &whole).unwrap();
    let (code, said) = verify_command(&copy, with());
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("whole") && said.contains("no checkpoint covers yet: 1"),
        "{said}"
    );

    let four: Vec<u8> = whole
        .split_inclusive(|b| *b == b'\n')
        .take(3)
        .flatten()
        .copied()
        .collect();
    fs::write(&copy, &four).unwrap();
    assert_eq!(
        verify_command(&copy, None).0,
        0,
        "a cut end shows only against a kept checkpoint"
    );
    let (code, said) = verify_command(&copy, with());
    assert!(
        code == 3 && said.contains("line 4") && said.contains("rolled back"),
        "{said}"
    );

    fs::write(&copy, &whole[..whole.len() - 5]).unwrap();
    let (code, said) = verify_command(&copy, None);
    assert!(
        code == 3 && said.contains("line 6") && said.contains("torn"),
        "{said}"
    );

    let mut edited = whole.clone();
    edited[50] ^= 1;
    fs::write(&copy, &edited).unwrap();
    let (code, said) = verify_command(&copy, None);
    assert!(
        code == 3 && said.contains("line 1") && said.contains("edited"),
        "{said}"
    );

    let (code, said) = verify_command(&folder.path().join("none"), None);
    assert!(code == 1 && said.contains("could not read"), "{said}");

    let forged = kept.to_file().replace("\"seq\":4", "\"seq\":3");
    fs::write(&kept_file, forged).unwrap();
    fs::write(&copy, &whole).unwrap();
    let (code, said) = verify_command(&copy, with());
    assert!(
        code == 1 && said.contains("signature is not its key's"),
        "{said}"
    );
}

/// How fast that is depends on the disk and on who else uses it, so the figure is printed and only the
/// sharing, which it rests on, is held.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the disk"]
async fn many_events_at_once_cost_few_writes() {
    const TASKS: u64 = 256;
    const EACH: u64 = 100;
    let folder = folder();
    let (audit, _) = Audit::open(folder.path(), Settings::default(), clock()).unwrap();
    let started = Instant::now();
    let tasks = (0..TASKS).map(|task| {
        let audit = audit.clone();
        async move {
            for number in 0..EACH {
                let path = "/api/v1/namespaces/demo-app/pods?limit=50";
                audit
                    .record(call(task * EACH + number).with("path", path))
                    .await
                    .unwrap();
            }
        }
    });
    futures_util::future::join_all(tasks).await;
    let (elapsed, writes) = (started.elapsed(), audit.status().commits);
    let rate = u128::from(TASKS * EACH) * 1_000_000 / elapsed.as_micros();
    println!(
        "{rate} durable events a second: {} in {writes} writes, {elapsed:?}",
        TASKS * EACH
    );
    let started = Instant::now();
    let events = audit.verify().await.unwrap().events;
    println!("verified {events} events in {:?}", started.elapsed());
    assert!(writes * 20 <= TASKS * EACH, "{writes} writes");
}
