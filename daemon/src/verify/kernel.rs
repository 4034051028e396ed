//! Jobs run under gVisor: the kernel that a Job sees is gVisor's, and not the node's.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;

use super::ground::Ground;
use super::report::Tries;

/// The handler that the `RuntimeClass` must name: `runsc`, as containerd is set up to call gVisor.
const HANDLER: &str = "runsc";

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let class = &ground.config.sandbox.runtime_class;
    let admin = ground.admin()?.client();
    let classes: Api<RuntimeClass> = Api::all(admin.clone());
    let found = classes.get_opt(class).await?;
    tries.record(
        format!("read the RuntimeClass {class}"),
        match found.as_ref().map(|c| c.handler.as_str()) {
            Some(HANDLER) => Ok(format!("its handler is {HANDLER}")),
            Some(other) => Err(format!("its handler is {other}, not {HANDLER}")),
            None => Err("there is none".to_owned()),
        },
    );

    let (sandbox, open) = tokio::join!(ground.sandbox(), ground.open_pod());
    let (inside, node) = match sandbox {
        Ok(sandbox) => (&sandbox.kernel, &sandbox.pod.node),
        Err(e) => {
            tries.record(
                format!("start a Job under {class}"),
                Err::<String, _>(format!("{e:#}")),
            );
            return Ok(());
        }
    };
    let nodes: Api<Node> = Api::all(admin.clone());
    let info = nodes.get(node).await?.status.and_then(|s| s.node_info);
    let version = info
        .context("the node does not tell its kernel")?
        .kernel_version;
    tries.record(
        format!("read /proc/version in a Job under {class}, on a node with kernel {version}"),
        is_gvisors(inside, &version),
    );

    let said = open?.run(&["kernel"]).await?;
    tries.record(
        "read it in a pod without that RuntimeClass",
        if said.code == 0 && &said.text != inside && is_gvisors(&said.text, "").is_err() {
            Ok(said.text)
        } else {
            Err(format!(
                "{} (it should be another kernel than gVisor's, or the try above shows nothing)",
                said.text
            ))
        },
    );
    Ok(())
}

/// gVisor gives its version as `…-gvisor`, and its first releases already said that they were built then.
fn is_gvisors(text: &str, nodes: &str) -> Result<String, String> {
    let marked = text.contains("-gvisor ") || text.contains("#1 SMP Sun Jan 10 15:06:54 PST 2016");
    if !nodes.is_empty() && text.contains(nodes) {
        Err(format!("{text}: that is the node's own kernel"))
    } else if marked {
        Ok(text.to_owned())
    } else {
        Err(format!("{text}: that is not gVisor's"))
    }
}

#[cfg(test)]
mod tests {
    use super::is_gvisors;

    #[test]
    fn only_gvisors_own_kernel_passes_for_it() {
        let node = "6.18.44";
        let gvisor = "Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016";
        let older = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016";
        assert!(is_gvisors(gvisor, node).is_ok() && is_gvisors(older, node).is_ok());
        let host = is_gvisors("Linux version 6.18.44 (gcc) #1 SMP", node).unwrap_err();
        assert!(host.contains("the node's own"), "{host}");
        // Another machine's kernel, such as a virtual machine's, is not the node's and not gVisor's.
        assert!(is_gvisors("Linux version 6.12.1 (gcc) #1 SMP", node).is_err());
        assert!(is_gvisors("", node).is_err());
        assert!(is_gvisors("Linux version 6.18.44-gvisor #1", node).is_err());
    }
}
