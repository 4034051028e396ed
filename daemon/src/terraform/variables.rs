//! Values of secret variables, from files of the daemon's own and from Vault.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::Root;
use super::source::NO_LINKS;
use crate::broker::{LoginError, VaultError};
use crate::config::{self, KvPath, SecretVar, VaultKv};
use crate::report::{Code, Failure, chain};
use crate::request::Parts;

/// The longest value of a secret variable, in bytes.
const MAX_SECRET: usize = 64 * 1024;

/// Those values of a root's variables that are in Vault, by variable.
pub(super) type FromVault = BTreeMap<String, SecretString>;

/// Asks Vault, for each secret once: fields of one secret are of one version.
pub(super) async fn from_vault(root: &Root, parts: &Parts) -> Result<FromVault, Failure> {
    let mut by_path: BTreeMap<&KvPath, Vec<(&String, &VaultKv)>> = BTreeMap::new();
    for (variable, from) in &root.settings.secret_vars {
        if let SecretVar::VaultKv(kv) = from {
            by_path
                .entry(&kv.vault_kv)
                .or_default()
                .push((variable, kv));
        }
    }
    let mut values = FromVault::new();
    for (path, variables) in by_path {
        let secret = parts.login.secret(path).await.map_err(|e| {
            tracing::error!(%path, error = chain(&e), "a secret of a variable was not read");
            let is_denied = matches!(
                e,
                LoginError::Vault(VaultError::Refused { status: 403, .. })
            );
            let why = if is_denied {
                let (mount, path) = (path.mount(), path.path());
                format!(
                    "permission denied; sandboxd's policy there must have read on {mount}/data/{path}"
                )
            } else {
                e.for_callers()
            };
            let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
            unreadable(e.code(), &names.join(", "), path, &why)
        })?;
        for (variable, kv) in variables {
            let value = secret.field(&kv.field).map_err(|why| {
                let why = format!("field {:?}: {why}", kv.field);
                unreadable(Code::VaultRefused, variable, path, &why)
            })?;
            values.insert(variable.clone(), value.clone());
        }
    }
    Ok(values)
}

fn unreadable(code: Code, variable: &str, path: &KvPath, why: &str) -> Failure {
    Failure::new(
        code,
        format!(
            "The value of the variable {variable} could not be read from Vault at {path}: {why}."
        ),
    )
}

/// One JSON object of every secret variable, in the order of their names.
pub(super) fn json(
    settings: &config::Root,
    from_vault: &FromVault,
) -> Result<Option<Zeroizing<Vec<u8>>>, Failure> {
    if settings.secret_vars.is_empty() {
        return Ok(None);
    }
    let mut json = Zeroizing::new(b"{".to_vec());
    for (name, from) in &settings.secret_vars {
        let value = match from {
            SecretVar::File(path) => of_file(path),
            SecretVar::VaultKv(_) => of_vault(from_vault, name),
        };
        let value = value.map_err(|problem| {
            Failure::new(
                Code::Internal,
                format!("The value of the variable {name} could not be read: {problem}."),
            )
        })?;
        if json.len() > 1 {
            json.push(b',');
        }
        // Names are letters, digits, '_' and '-', by the configuration's check.
        json.extend_from_slice(format!("\"{name}\":").as_bytes());
        let quoted = Zeroizing::new(serde_json::to_vec(value.as_str()).unwrap_or_default());
        json.extend_from_slice(&quoted);
    }
    json.push(b'}');
    Ok(Some(json))
}

fn of_vault(from_vault: &FromVault, name: &str) -> Result<Zeroizing<String>, String> {
    let value = from_vault.get(name).ok_or("Vault was not asked for it")?;
    #[expect(
        clippy::disallowed_methods,
        reason = "into the values that go to the sandbox that plans"
    )]
    let value = value.expose_secret();
    if value.len() > MAX_SECRET {
        return Err(format!("it is over {MAX_SECRET} bytes long"));
    }
    Ok(Zeroizing::new(value.to_owned()))
}

/// The value in a file that is the daemon's alone, without one line feed at its end.
pub(super) fn of_file(path: &Path) -> Result<Zeroizing<String>, String> {
    let file = File::options()
        .read(true)
        .custom_flags(NO_LINKS)
        .open(path)
        .map_err(|e| e.to_string())?;
    let meta = file.metadata().map_err(|e| e.to_string())?;
    if !meta.is_file() || meta.mode() & 0o077 != 0 {
        return Err(
            "its file must be a plain one and closed to everybody else (mode 0600)".to_owned(),
        );
    }
    if meta.len() > MAX_SECRET as u64 {
        return Err(format!("its file is over {MAX_SECRET} bytes long"));
    }
    let mut value = Zeroizing::new(String::new());
    file.take(MAX_SECRET as u64)
        .read_to_string(&mut value)
        .map_err(|e| e.to_string())?;
    if value.ends_with('\n') {
        value.pop();
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn settings(vars: &[(&str, &Path)]) -> config::Root {
        let mut root: config::Root = toml::from_str(
            "folder = '/srv/demo'\nnamespaces = ['demo-app']\nkinds = ['deployments.apps']\n",
        )
        .unwrap();
        root.secret_vars = vars
            .iter()
            .map(|(name, path)| ((*name).to_owned(), SecretVar::File(path.to_path_buf())))
            .collect();
        root
    }

    #[test]
    fn secret_values_are_one_object_and_their_files_must_be_closed() {
        let (folder, none) = (tempfile::tempdir().unwrap(), FromVault::new());
        let file = folder.path().join("password");
        std::fs::write(&file, "a\"b\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let values = json(&settings(&[("b", &file), ("a", &file)]), &none)
            .unwrap()
            .unwrap();
        assert_eq!(
            std::str::from_utf8(&values).unwrap(),
            r#"{"a":"a\"b","b":"a\"b"}"#
        );
        assert!(json(&settings(&[]), &none).unwrap().is_none());

        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let failure = json(&settings(&[("a", &file)]), &none).unwrap_err();
        assert!(failure.message.contains("0600") && !failure.message.contains("a\"b"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(json(&settings(&[("a", &link)]), &none).is_err());
        assert!(json(&settings(&[("a", &folder.path().join("gone"))]), &none).is_err());
    }
}
