//! `mcp-bridge`: MCP over stdio for sandboxd.
//!
//! An MCP client starts it, lists tools and calls them; each call goes to sandboxd over its agent
//! socket, and what comes back goes to the client. The bridge holds no credential, decides nothing and
//! keeps nothing but the last list of tools. The modules follow a line from standard input to the
//! daemon and back.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use tokio::time::timeout;

mod cli;
mod stdio;
mod line;
mod id_scan;
mod message;
mod session;
mod version;
mod identity;
mod catalog;
mod tools;
mod cache;
mod call;
mod daemon;
mod outcome;
mod refusal;
mod reply;
mod escape;
mod lifetime;
mod log;

use cache::Cache;
use call::Parts;
use catalog::Catalog;
use cli::Args;
use daemon::Daemon;
use lifetime::Lifetime;
use log::Log;
use session::Session;

/// How long storing the list of tools may keep us from exiting.
const LAST_WORK: Duration = Duration::from_secs(1);

/// How long a client may leave our last answers unread before we give up on it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Runs the bridge until its input ends and everything asked is answered.
///
/// The exit code is 0 then, and also when the client closes its end first; 1 when the bridge could
/// not start or its last answers could not be written; 2 for a wrong command line.
#[must_use]
pub fn run() -> ExitCode {
    let args = Args::parse();
    let log = Arc::new(Log::new(args.verbose));
    // One thread serves one client well, and costs a quarter of the memory of a pool.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let code = match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(serve(&args, &log));
            // A cache folder that hangs must not keep us.
            runtime.shutdown_background();
            code
        }
        Err(error) => Err(error),
    };
    let code = code.unwrap_or_else(|error| {
        log.warn(&format!("could not start: {error}"));
        ExitCode::FAILURE
    });
    log.flush(Duration::from_millis(200));
    code
}

async fn serve(args: &Args, log: &Arc<Log>) -> io::Result<ExitCode> {
    let (outbox, written) = stdio::write_lines()?;
    let lines = stdio::read_lines()?;
    let daemon = Daemon::new(&args.socket);
    let cache = Cache::for_socket(&args.socket, |name| std::env::var_os(name));
    let lifetime = Lifetime::default();
    let catalog = Catalog::start(daemon.clone(), cache, Arc::clone(log), &lifetime);

    let parts = Parts {
        daemon,
        catalog,
        outbox,
        log: Arc::clone(log),
        answer_within: args.answer_within(),
    };
    Session::new(parts).run(lines).await;

    lifetime.end(LAST_WORK).await;
    if timeout(LAST_WORDS, written).await.is_err() {
        log.warn("the client does not read, so its last answers are lost");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
