//! `approver status`.

use std::io::Write;

use sandbox_core::audit::{Fields, UtcMillis, Value};
use sandbox_proto::approver::v1::{Approval, Part};

use crate::access::Standing;
use crate::approvals::{told_count, waiting};
use crate::cli::StatusArgs;
use crate::daemon::Daemon;
use crate::escape::escape;
use crate::failure::Failure;

pub(crate) async fn run(
    args: &StatusArgs,
    daemon: &mut Daemon,
    standing: &Standing,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // All the rest is worth telling when this one answer cannot be had.
    let (approvals, failed) = match daemon.approvals(false).await {
        Ok(approvals) => (Some(approvals), None),
        Err(failure) => (None, Some(failure)),
    };
    if args.json {
        writeln!(out, "{}", json(daemon, standing, approvals.as_deref()))?;
    } else {
        tell(daemon, standing, approvals.as_deref(), out)?;
    }
    failed.map_or(Ok(()), Err)
}

fn tell(
    daemon: &Daemon,
    standing: &Standing,
    approvals: Option<&[Approval]>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Standing { status, newest, .. } = standing;
    let uid = daemon
        .uid()
        .map_or_else(|| "an unknown uid".to_owned(), |uid| format!("uid {uid}"));
    let started = UtcMillis::from_unix_ms(status.started_ms);
    writeln!(
        out,
        "sandboxd {}, running as {uid} since {started}",
        escape(&status.daemon_version)
    )?;
    for Part { name, ok, detail } in &status.parts {
        let ok = if *ok { "ok" } else { "NOT OK" };
        writeln!(out, "  {:<12} {ok:<6}  {}", escape(name), escape(detail))?;
    }
    if let Some(approvals) = approvals {
        writeln!(out, "{}", told_count(approvals))?;
    }
    writeln!(out, "Requests running: {}", status.requests_running)?;
    writeln!(
        out,
        "Sandboxes ready:  {} of {}",
        status.pool_ready, status.pool_size
    )?;
    match status.leases_unproven {
        0 => writeln!(out, "Every lease that ended is proven dead.")?,
        some => writeln!(
            out,
            "LEASES WHOSE END IS NOT PROVEN: {some} (running requests hold one each)"
        )?,
    }
    match newest {
        Some(newest) => writeln!(
            out,
            "Audit checkpoint: event {}, signed {} by {}",
            newest.head.seq, newest.time, newest.key
        )?,
        None => writeln!(out, "Audit checkpoint: none yet")?,
    }
    Ok(())
}

/// One object in the trail's own spelling: ASCII on one line.
fn json(daemon: &Daemon, standing: &Standing, approvals: Option<&[Approval]>) -> Value {
    let Standing { status, newest, .. } = standing;
    let pending = approvals.map(waiting);
    let parts: Vec<Fields> = status.parts.iter().map(part).collect();
    let checkpoint = newest.as_ref().map(|newest| {
        object([
            ("seq", newest.head.seq.0.into()),
            ("hash", newest.head.hash.to_string().into()),
            ("time", newest.time.to_string().into()),
            ("public_key", newest.key.to_string().into()),
        ])
    });
    let status = object([
        ("version", status.daemon_version.as_str().into()),
        ("uid", daemon.uid().into()),
        (
            "started",
            UtcMillis::from_unix_ms(status.started_ms)
                .to_string()
                .into(),
        ),
        ("parts", parts.into()),
        ("approvals_pending", pending.into()),
        ("requests_running", status.requests_running.into()),
        ("pool_ready", status.pool_ready.into()),
        ("pool_size", status.pool_size.into()),
        ("leases_unproven", status.leases_unproven.into()),
        ("checkpoint", checkpoint.into()),
    ]);
    status.into()
}

fn part(part: &Part) -> Fields {
    object([
        ("name", part.name.as_str().into()),
        ("ok", part.ok.into()),
        ("detail", part.detail.as_str().into()),
    ])
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Fields {
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
