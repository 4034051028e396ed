//! Approvals as rows. What cannot be read back as it was written is an error that names the approval.

use std::fmt::Display;

use rusqlite::{Connection, Row, Transaction};
use sandbox_core::approval::{
    Approval, Binding, BindingDigest, ExpiryCause, Said, State, Terms, Verdict, Void,
};
use sandbox_core::audit::UtcMillis;
use sandbox_core::ids::ApprovalId;

use super::{NewApproval, PlanKey, StoreError, StoredApproval};

/// The columns of [`read`]; what follows picks rows and their order.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.root, a.plan, a.request, a.principal, a.principal_uid, a.action, a.reason, ",
            "a.client, a.binding, a.digest, a.quorum, a.summary, a.dangers, a.confirm, a.state, a.cause, ",
            "a.used_by, a.opened_ms, a.expires_ms, a.seen_ms, a.ended_ms, r.outcome ",
            "FROM approval a LEFT JOIN request r ON r.id = a.used_by ",
            $rest
        )
    };
}

const ONE: &str = select!("WHERE a.id = ?1");
const OPEN: &str =
    select!("WHERE a.state IN ('pending', 'granted') ORDER BY a.opened_ms DESC, a.id");
const SINCE: &str = select!(
    "WHERE a.state IN ('pending', 'granted') OR a.ended_ms >= ?1 ORDER BY a.opened_ms DESC, a.id"
);
const VERDICTS: &str = "SELECT approver, uid, said, reason, void, time_ms FROM verdict \
     WHERE approval = ?1 ORDER BY id";

pub(super) fn one(
    connection: &Connection,
    id: ApprovalId,
) -> Result<Option<StoredApproval>, StoreError> {
    Ok(many(connection, ONE, (id.as_str(),))?.pop())
}

pub(super) fn open(connection: &Connection) -> Result<Vec<StoredApproval>, StoreError> {
    many(connection, OPEN, ())
}

pub(super) fn since(
    connection: &Connection,
    since: UtcMillis,
) -> Result<Vec<StoredApproval>, StoreError> {
    many(connection, SINCE, (since.as_unix_ms(),))
}

fn many(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<StoredApproval>, StoreError> {
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(connection, row)?);
    }
    Ok(found)
}

fn read(connection: &Connection, row: &Row<'_>) -> Result<StoredApproval, StoreError> {
    let text = row.get::<_, String>(0)?;
    let id = id(&text)?;
    let time = |column: &str| row.get(column).map(UtcMillis::from_unix_ms);
    let bad = |what: &str, why: &dyn Display| {
        StoreError::Unreadable(format!("the {what} of approval {id} ({why})"))
    };
    let binding = row.get::<_, String>("binding")?;
    let binding = Binding::from_json(&binding).map_err(|e| bad("binding", &e))?;
    let digest = BindingDigest::from_bytes(row.get("digest")?);
    // The row would have to be edited by hand for that, which no digest of ours survives.
    if binding.digest() != digest {
        return Err(bad("digest", &"it is not the one of its binding"));
    }
    let confirm = row.get::<_, String>("confirm")?;
    let terms = Terms {
        id,
        requester: parse(row, "principal").map_err(|e| bad("principal", &e))?,
        requester_uid: row.get("principal_uid")?,
        digest,
        quorum: row.get("quorum")?,
        opened: time("opened_ms")?,
        expires: time("expires_ms")?,
    };
    let state = state(row).map_err(|e| bad("state", &e))?;
    let verdicts = verdicts(connection, id)?;
    Ok(StoredApproval {
        approval: Approval::restore(terms, state, verdicts, time("seen_ms")?),
        root: parse(row, "root").map_err(|e| bad("root", &e))?,
        plan: PlanKey(row.get("plan")?),
        request: parse(row, "request").map_err(|e| bad("request", &e))?,
        action: row.get("action")?,
        reason: row.get("reason")?,
        client: row.get("client")?,
        binding,
        summary: row.get("summary")?,
        dangers: row.get("dangers")?,
        confirm: serde_json::from_str(&confirm).map_err(|e| bad("confirm", &e))?,
        outcome: row.get("outcome")?,
    })
}

fn state(row: &Row<'_>) -> Result<State, String> {
    let get = |e: rusqlite::Error| e.to_string();
    let at = || {
        let ended = row.get("ended_ms").map_err(get)?;
        Ok::<_, String>(UtcMillis::from_unix_ms(ended))
    };
    let word = row.get::<_, String>("state").map_err(get)?;
    match word.as_str() {
        "pending" => Ok(State::Pending),
        "granted" => Ok(State::Granted),
        "consumed" => Ok(State::Consumed {
            at: at()?,
            by: parse(row, "used_by")?,
        }),
        "denied" => Ok(State::Denied { at: at()? }),
        "expired" => {
            let cause = row.get::<_, String>("cause").map_err(get)?;
            Ok(State::Expired {
                at: at()?,
                cause: ExpiryCause::find(&cause).ok_or("unknown cause")?,
            })
        }
        "cancelled" => Ok(State::Cancelled { at: at()? }),
        other => Err(format!("unknown state {other}")),
    }
}

fn verdicts(connection: &Connection, id: ApprovalId) -> Result<Vec<Verdict>, StoreError> {
    let mut query = connection.prepare_cached(VERDICTS)?;
    let mut rows = query.query((id.as_str(),))?;
    let mut verdicts = Vec::new();
    while let Some(row) = rows.next()? {
        let bad = |what: &str| StoreError::Unreadable(format!("the {what} of a verdict on {id}"));
        let said = match row.get::<_, String>("said")?.as_str() {
            "yes" => Said::Yes,
            "no" => Said::No,
            _ => return Err(bad("word")),
        };
        let void = row.get::<_, Option<String>>("void")?;
        let void = void.map(|v| Void::find(&v).ok_or_else(|| bad("void")));
        verdicts.push(Verdict {
            approver: parse(row, "approver").map_err(|_| bad("approver"))?,
            uid: row.get("uid")?,
            said,
            reason: row.get("reason")?,
            time: UtcMillis::from_unix_ms(row.get("time_ms")?),
            void: void.transpose()?,
        });
    }
    Ok(verdicts)
}

/// As the journal has it.
pub(super) const fn said(said: Said) -> &'static str {
    match said {
        Said::Yes => "yes",
        Said::No => "no",
    }
}

pub(super) fn id(text: &str) -> Result<ApprovalId, StoreError> {
    text.parse()
        .map_err(|_| StoreError::Unreadable(format!("the approval id {text:?}")))
}

fn parse<T: std::str::FromStr<Err: Display>>(row: &Row<'_>, column: &str) -> Result<T, String> {
    let text = row.get::<_, String>(column).map_err(|e| e.to_string())?;
    text.parse().map_err(|e: T::Err| e.to_string())
}

pub(super) fn insert(tx: &Transaction<'_>, sql: &str, new: &NewApproval) -> Result<(), StoreError> {
    let terms = new.approval.terms();
    let confirm = serde_json::to_string(&new.confirm).unwrap_or_default();
    tx.execute(
        sql,
        rusqlite::params![
            terms.id.as_str(),
            new.root.as_str(),
            new.plan.0,
            new.request.to_string(),
            terms.requester.as_str(),
            terms.requester_uid,
            new.action.as_str(),
            new.reason,
            new.client,
            new.binding.to_json(),
            terms.digest.as_bytes(),
            terms.quorum,
            new.summary,
            new.dangers,
            confirm,
            new.shown,
            terms.opened.as_unix_ms(),
            terms.expires.as_unix_ms(),
        ],
    )?;
    Ok(())
}
