//! The files of a class. They hold tokens, so that only their owner can read them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::Config;
use nephele_pki::certificate_pem;
use serde_json::{Value, json};

use super::{
    plan::{ACCOUNT, Person},
    token::Token,
};
use crate::embedded::Folder;

/// Writes what a person gets.
pub(super) fn write(
    folder: &Folder,
    person: &Person,
    server: &Config,
    usual: &Token,
    diagnostics: &Token,
) -> anyhow::Result<()> {
    let namespace = &person.namespace;
    let kubeconfig = serde_yaml_ng::to_string(&kubeconfig(namespace, server, &usual.text))?;
    folder.write(&format!("{namespace}.kubeconfig"), &kubeconfig)?;
    folder.write(&format!("{namespace}.token"), &diagnostics.text)?;
    Ok(())
}

/// The kubeconfig of a person. Of the server it has the address and what its certificate is checked by, and nothing of the
/// credentials that the teacher has.
fn kubeconfig(namespace: &str, server: &Config, token: &str) -> Value {
    let mut cluster = json!({ "server": server.cluster_url.to_string() });
    if let Some(authorities) = &server.root_cert {
        let pem: String = authorities
            .iter()
            .map(|authority| certificate_pem(authority))
            .collect();
        cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
    }
    if let Some(name) = &server.tls_server_name {
        cluster["tls-server-name"] = name.clone().into();
    }
    if server.accept_invalid_certs {
        cluster["insecure-skip-tls-verify"] = true.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": namespace,
        "clusters": [{ "name": "management", "cluster": cluster }],
        "users": [{ "name": ACCOUNT, "user": { "token": token } }],
        "contexts": [{
            "name": namespace,
            "context": { "cluster": "management", "user": ACCOUNT, "namespace": namespace },
        }],
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use kube::config::{KubeConfigOptions, Kubeconfig};

    use super::*;

    fn server() -> Config {
        let mut server = Config::new("https://cluster.example:6443".parse().expect("a URL"));
        server.root_cert = Some(vec![vec![7; 100]]);
        server.auth_info.token = Some("secret of the teacher".to_owned().into());
        server
    }

    #[tokio::test]
    async fn a_person_reads_the_kubeconfig_and_finds_the_server_and_no_secret_of_the_teacher() {
        let value = kubeconfig("monday-01", &server(), "own");
        assert!(!value.to_string().contains("teacher"));
        let text = serde_yaml_ng::to_string(&value).expect("YAML");
        let read = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .expect("it is used");
        assert_eq!(
            (
                config.cluster_url.to_string(),
                config.default_namespace,
                config.root_cert
            ),
            (
                "https://cluster.example:6443/".to_owned(),
                "monday-01".to_owned(),
                server().root_cert
            )
        );
    }

    #[test]
    fn only_their_owner_reads_the_files() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(Some(&parent.path().join("class")), "").expect("it is created");
        let person = Person {
            namespace: "monday-01".into(),
        };
        let token = |text: &str| Token {
            text: text.to_owned(),
            until: None,
        };
        write(&folder, &person, &server(), &token("a"), &token("b")).expect("it is written");
        let mode = |name: &str| {
            let metadata = std::fs::metadata(folder.path(name)).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(
            [mode("."), mode("monday-01.kubeconfig"), mode("monday-01.token")],
            [0o700, 0o600, 0o600]
        );
    }
}
