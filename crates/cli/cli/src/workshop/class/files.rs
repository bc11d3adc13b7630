//! The files of a class. They hold tokens, so that only their owner can read them.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kube::Config;
use serde_json::{Value, json};

use super::{
    plan::{ACCOUNT, Class, Person},
    sheet::sheet,
    token::Token,
};

/// The folder of a class.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn create(path: PathBuf) -> anyhow::Result<Self> {
        let created = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        created.with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Writes what a person gets.
    pub(super) fn write(
        &self,
        person: &Person,
        server: &Config,
        usual: &Token,
        diagnostics: &Token,
    ) -> anyhow::Result<()> {
        let namespace = &person.namespace;
        let kubeconfig = serde_yaml_ng::to_string(&kubeconfig(namespace, server, &usual.text))?;
        self.put(&format!("{namespace}.kubeconfig"), &kubeconfig)?;
        self.put(&format!("{namespace}.token"), &diagnostics.text)
    }

    /// Writes the sheet, which has no token.
    pub(super) fn write_sheet(&self, class: &Class, until: Option<Timestamp>) -> anyhow::Result<()> {
        self.put("sheet.html", &sheet(class, until).into_string())
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("failed to write {}", path.display()))
    }
}

/// The kubeconfig of a person. Of the server it has the address and what its certificate is checked by, and nothing of the
/// credentials that the teacher has.
fn kubeconfig(namespace: &str, server: &Config, token: &str) -> Value {
    let mut cluster = json!({ "server": server.cluster_url.to_string() });
    if let Some(authorities) = &server.root_cert {
        cluster["certificate-authority-data"] = STANDARD.encode(pem(authorities)).into();
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

/// Certificates as PEM.
fn pem(certificates: &[Vec<u8>]) -> String {
    let one = |certificate: &Vec<u8>| {
        let text = STANDARD.encode(certificate);
        let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
        format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            lines.collect::<Vec<_>>().join("\n")
        )
    };
    certificates.iter().map(one).collect()
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
        let folder = Folder::create(parent.path().join("class")).expect("it is created");
        let person = Person {
            namespace: "monday-01".into(),
        };
        let token = |text: &str| Token {
            text: text.to_owned(),
            until: None,
        };
        folder
            .write(&person, &server(), &token("a"), &token("b"))
            .expect("it is written");
        let mode = |name: &str| {
            let metadata = std::fs::metadata(folder.path.join(name)).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(
            [mode("."), mode("monday-01.kubeconfig"), mode("monday-01.token")],
            [0o700, 0o600, 0o600]
        );
    }
}
