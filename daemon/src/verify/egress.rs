//! A Job reaches the API server and nothing else, and nothing reaches it.
//!
//! A refused connection shows something only where the same one works without the policy, so each is tried
//! from a pod under no policy as well. A new pod's policy takes a moment to bite, and until then either
//! everything or nothing passes: so the API server must answer first, and the probe then fall silent.

use std::time::Duration;

use tokio::time::Instant;

use super::ground::Ground;
use super::report::Tries;
use crate::sandbox::trial::{Said, TrialPod, inspect_network, probe_address};

/// How long a new pod may take until its network is as it should be.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// For one connection, in milliseconds: a neighbour answers in one.
const DIAL_MS: &str = "400";
/// Where clouds keep a machine's credentials.
const METADATA: &str = "169.254.169.254:80";
/// Where the Job listens for the way in to be tried.
const LISTEN_PORT: &str = "7777";

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let kubernetes = &ground.config.kubernetes;
    let (sandbox, open) = tokio::join!(ground.sandbox(), ground.open_pod());
    let (job, open) = (&sandbox?.pod, open?);
    let probe = probe_address(&ground.daemon, kubernetes).await?;
    let (endpoints, problems) = inspect_network(ground.daemon.client(), kubernetes).await?;

    let baseline = until(open, &probe, |said| said.code == 0).await?;
    tries.record(
        format!("dial the egress probe {probe} from a pod under no policy"),
        match baseline.code {
            0 => Ok(heard(&baseline)),
            _ => Err(format!(
                "{} (so that it is blocked for a Job shows nothing)",
                heard(&baseline)
            )),
        },
    );
    for (ip, port) in endpoints {
        let api_server = address(&ip, port);
        let said = until(job, &api_server, |said| said.code != 1).await?;
        tries.record(
            format!("dial the API server {api_server} from a Job"),
            match said.code {
                // It waits for a TLS greeting, which is tried below.
                0 | 2 => Ok("connected".to_owned()),
                _ => Err(heard(&said)),
            },
        );
    }
    let said = until(job, &probe, |said| said.code == 1).await?;
    tries.record(
        format!("dial the egress probe {probe} from the Job"),
        blocked(&said),
    );
    let kubelet = address(&job.node_ip, 10250);
    for (what, target) in [
        ("its node's kubelet", kubelet.as_str()),
        ("the metadata address", METADATA),
    ] {
        blocked_beside(job, open, what, target, tries).await?;
    }
    way_in(job, open, tries).await?;
    prove(ground, job, tries).await?;
    let namespace = &kubernetes.sandbox_namespace;
    tries.record(
        format!("compare the NetworkPolicies of {namespace} with what they should be"),
        if problems.is_empty() {
            Ok("default-deny and allow-api-server, unchanged, and no other".to_owned())
        } else {
            Err(problems.join("; "))
        },
    );
    Ok(())
}

async fn blocked_beside(
    job: &TrialPod,
    open: &TrialPod,
    what: &str,
    target: &str,
    tries: &mut Tries,
) -> anyhow::Result<()> {
    let (inside, beside) = tokio::join!(dial(job, target), dial(open, target));
    let (inside, beside) = (inside?, beside?);
    let compared = match beside.code {
        1 => "; from the pod under no policy nothing answers there either",
        _ => "; the pod under no policy gets through",
    };
    tries.record(
        format!("dial {what} {target} from the Job"),
        blocked(&inside).map(|said| said + compared),
    );
    Ok(())
}

/// Has the Job listen, as a caller inside it can tell, and dials it from outside.
async fn way_in(job: &TrialPod, open: &TrialPod, tries: &mut Tries) -> anyhow::Result<()> {
    let listener = job.exec(&["pong", "--port", LISTEN_PORT]).await?;
    let inside = until(job, &format!("127.0.0.1:{LISTEN_PORT}"), |said| {
        said.code == 0
    })
    .await?;
    let outside = address(&job.ip, LISTEN_PORT.parse()?);
    let said = dial(open, &outside).await?;
    tries.record(
        format!("dial the Job itself at {outside} from the pod under no policy"),
        match inside.code {
            0 => blocked(&said).map(|said| said + "; inside the Job it answers PONG"),
            _ => Err(format!(
                "nothing listened there, so nothing was tried: {}",
                inside.text
            )),
        },
    );
    drop(listener);
    Ok(())
}

/// The proof that the daemon has each runner give before it hands anything over.
async fn prove(ground: &Ground, job: &TrialPod, tries: &mut Tries) -> anyhow::Result<()> {
    let proof = job.prove(&ground.daemon, &ground.config.kubernetes).await;
    tries.record(
        "have the runner prove, as before a request, that only the API server answers it, by TLS",
        proof.map(|proof| proof.egress).map_err(|e| e.to_string()),
    );
    Ok(())
}

/// Dials until what comes back is `enough`, or for too long; gives the last that came back.
async fn until(
    pod: &TrialPod,
    target: &str,
    enough: impl Fn(&Said) -> bool,
) -> anyhow::Result<Said> {
    let limit = Instant::now() + SETTLE_LIMIT;
    loop {
        let said = dial(pod, target).await?;
        if enough(&said) || Instant::now() > limit {
            return Ok(said);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn dial(pod: &TrialPod, target: &str) -> anyhow::Result<Said> {
    Ok(pod.run(&["ping", target, "--timeout-ms", DIAL_MS]).await?)
}

/// The runner's exit code is 1 where nothing was reached.
fn blocked(said: &Said) -> Result<String, String> {
    match said.code {
        1 => Ok(format!("blocked ({})", heard(said))),
        _ => Err(format!("reached ({})", heard(said))),
    }
}

/// What came back, without the address that stands before it.
fn heard(said: &Said) -> String {
    let text = said
        .text
        .split_once(": ")
        .map_or(said.text.as_str(), |(_, heard)| heard);
    match text {
        "" => format!("exit code {}", said.code),
        text => text.to_owned(),
    }
}

fn address(ip: &str, port: i32) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_failed_is_blocked() {
        let said = |code, text: &str| {
            blocked(&Said {
                code,
                text: text.to_owned(),
            })
        };
        assert_eq!(
            said(1, "10.0.0.1:7777: no answer in 400 ms"),
            Ok("blocked (no answer in 400 ms)".to_owned())
        );
        assert_eq!(
            said(0, "[fd00::1]:7777: PONG"),
            Err("reached (PONG)".to_owned())
        );
        assert!(said(2, "10.0.0.1:80: connected, but nothing came back").is_err());
        // The runner did not even run.
        assert_eq!(said(64, ""), Err("reached (exit code 64)".to_owned()));
    }
}
