//! The root `terraform/sixty`, for tests: 54 `ConfigMap`s, three Deployments, three Services.

/// Its files, without values and lock file.
pub const FILES: [(&str, &str); 4] = [
    ("main.tf", include_str!("../../../terraform/sixty/main.tf")),
    (
        "modules/app/main.tf",
        include_str!("../../../terraform/sixty/modules/app/main.tf"),
    ),
    (
        "modules/network/main.tf",
        include_str!("../../../terraform/sixty/modules/network/main.tf"),
    ),
    (
        "modules/settings/main.tf",
        include_str!("../../../terraform/sixty/modules/settings/main.tf"),
    ),
];

/// The names of its objects, each with its kind.
pub fn objects() -> Vec<(&'static str, String)> {
    let apps = ["catalog", "orders", "payments"].map(|app| format!("sixty-{app}"));
    let mut all = Vec::new();
    for app in apps {
        let parts = (0..18).map(|n| ("ConfigMap", format!("{app}-part-{n:02}")));
        all.extend(parts);
        all.push(("Deployment", app.clone()));
        all.push(("Service", app));
    }
    all
}
