//! The approver's program contains nothing that talks to Vault or Kubernetes.

use std::process::Command;

#[test]
fn nothing_that_talks_to_vault_or_kubernetes_can_be_reached() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "approver",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--offline",
            "--locked",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).unwrap();
    let reached: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(reached.contains(&"sandbox-proto"), "{tree}");
    for banned in [
        "sandboxd",
        "kube",
        "kube-client",
        "k8s-openapi",
        "vaultrs",
        "rustify",
        "reqwest",
        "rusqlite",
    ] {
        assert!(!reached.contains(&banned), "the approver reaches {banned}");
    }
}
