//! The journal as a crash would find it: every test closes the database and opens it again.

use super::*;
use sandbox_core::ids::RequestId;
use sandbox_core::parameters::ActionName;

fn id(n: u8) -> RequestId {
    RequestId::new(1_700_000_000_000, [n; 10])
}

async fn open_request(store: &Store, n: u8, key: Option<&str>, parameters: &str) -> Opened {
    store
        .open_request(
            id(n),
            "demo-agent".parse().unwrap(),
            (ActionName::PodStatus, parameters.to_owned()),
            key.map(str::to_owned),
            1,
        )
        .await
        .unwrap()
}

fn scope() -> LeaseScope {
    LeaseScope {
        mount: "sandbox-k8s-0".parse().unwrap(),
        role: "pod-reader.demo-app".to_owned(),
        namespace: "demo-app".parse().unwrap(),
    }
}

#[tokio::test]
async fn what_was_open_is_found_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(open_request(&store, 1, None, "{}").await, Opened::New);
        let key = store.lease_asked(id(1), scope(), 2).await.unwrap();
        store
            .lease_child(key, "accessor-1".to_owned())
            .await
            .unwrap();
        store.job_opened("sbx-a".to_owned(), 3).await.unwrap();
        store.job_claimed("sbx-a".to_owned(), id(1)).await.unwrap();
        store.login_opened("login-1".to_owned(), 4).await.unwrap();
        store.login_opened("login-2".to_owned(), 5).await.unwrap();
        store.login_closed("login-1".to_owned()).await.unwrap();
    }
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.running_requests().await.unwrap()[0].id, id(1));
    let leases = store.open_leases().await.unwrap();
    assert_eq!(leases[0].accessor.as_deref(), Some("accessor-1"));
    assert_eq!(leases[0].lease_id, None);
    assert_eq!(store.open_logins().await.unwrap(), ["login-2"]);
    let jobs = store.open_jobs().await.unwrap();
    assert_eq!(
        jobs,
        [OpenJob {
            name: "sbx-a".to_owned(),
            request: Some(id(1).to_string())
        }]
    );
}

#[tokio::test]
async fn a_request_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    open_request(&store, 1, None, "{}").await;
    store.end_request(id(1), "succeeded", 2).await.unwrap();
    assert!(matches!(
        store.end_request(id(1), "failed", 3).await,
        Err(StoreError::State(_))
    ));
    assert!(matches!(
        store.end_request(id(9), "failed", 3).await,
        Err(StoreError::State(_))
    ));
    let found = store
        .find_request(id(1), "demo-agent".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(
        found,
        Some((
            "k8s_get_pod_status".to_owned(),
            Some("succeeded".to_owned())
        ))
    );
}

#[tokio::test]
async fn another_principals_request_looks_like_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    open_request(&store, 1, None, "{}").await;
    assert_eq!(
        store
            .find_request(id(1), "somebody".parse().unwrap())
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn an_idempotency_key_holds_its_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(open_request(&store, 1, Some("k"), "{}").await, Opened::New);
    assert_eq!(
        open_request(&store, 2, Some("k"), "{}").await,
        Opened::Repeated(id(1))
    );
    assert_eq!(
        open_request(&store, 3, Some("k"), "{\"a\":1}").await,
        Opened::KeyTaken
    );
    assert_eq!(store.running_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn steps_out_of_order_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    open_request(&store, 1, None, "{}").await;
    let key = store.lease_asked(id(1), scope(), 2).await.unwrap();
    let early = store
        .lease_issued(key, "l".to_owned(), "sbx-x".to_owned())
        .await;
    assert!(
        matches!(early, Err(StoreError::State(_))),
        "a credential before its accessor was stored"
    );
    store.lease_closed(key, 3).await.unwrap();
    assert!(store.lease_closed(key, 4).await.is_err());
    assert!(store.open_leases().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_job_serves_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    open_request(&store, 1, None, "{}").await;
    open_request(&store, 2, None, "{}").await;
    store.job_opened("sbx-a".to_owned(), 1).await.unwrap();
    store.job_claimed("sbx-a".to_owned(), id(1)).await.unwrap();
    assert!(matches!(
        store.job_claimed("sbx-a".to_owned(), id(2)).await,
        Err(StoreError::State(_))
    ));
    store.job_deleted("sbx-a".to_owned(), 2).await.unwrap();
    store.job_deleted("sbx-a".to_owned(), 3).await.unwrap();
    assert!(store.open_jobs().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_database_of_a_later_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    let connection = Connection::open(folder.path().join("sandboxd.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(
        Store::open(folder.path()),
        Err(StoreError::Newer { found: 99, .. })
    ));
}

#[tokio::test]
async fn a_failed_change_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let failed: Result<(), _> = store
        .write(|tx| {
            tx.execute(
                "INSERT INTO job (name, state, created_ms) VALUES ('sbx-z', 'open', 1)",
                (),
            )?;
            Err(StoreError::State("on purpose".to_owned()))
        })
        .await;
    assert!(failed.is_err());
    assert!(store.open_jobs().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_credential_whose_end_is_overdue_is_known_by_its_role_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let roles = |last: &str| ["plan-a.n", "apply-a.n", last].map(str::to_owned);
    let key = {
        let store = Store::open(folder.path()).unwrap();
        open_request(&store, 1, None, "{}").await;
        let key = store.lease_asked(id(1), scope(), 2).await.unwrap();
        let of = store.unproven_of(roles("pod-reader.demo-app")).await;
        assert_eq!(of.unwrap(), None, "it is not overdue yet");
        store.lease_unproven(key, 3).await.unwrap();
        store.lease_unproven(key, 4).await.unwrap();
        key
    };
    let store = Store::open(folder.path()).unwrap();
    let of = |last| store.unproven_of(roles(last));
    assert_eq!(of("pod-reader.demo-app").await.unwrap(), Some(id(1)));
    assert_eq!(of("pod-reader.other").await.unwrap(), None);
    store.lease_closed(key, 5).await.unwrap();
    assert_eq!(of("pod-reader.demo-app").await.unwrap(), None);
    assert!(store.lease_unproven(key, 6).await.is_err());
}
