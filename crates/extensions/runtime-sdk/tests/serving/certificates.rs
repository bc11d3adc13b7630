//! Certificates of the server and of its clients, and their replacement.

use std::{fs, path::Path, time::Duration};

use nephele_runtime_sdk::{
    hooks::{BeforeClusterCreate, BeforeClusterCreateResponse},
    server::{Extension, Metrics, Service, Tls, TlsError, TlsFiles},
};
use prometheus::Registry;
use tokio::time::timeout;

use crate::{
    CREATE,
    world::{Authority, Client, Leaf, PATIENCE, PROTOCOLS, Protocol, start},
};

/// A folder that is removed with the test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("runtime-sdk-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces the certificate as a kubelet does: all files at once, by replacing a symbolic link.
    fn put(&self, leaf: &Leaf, authorities: Option<&str>) {
        let version = fs::read_dir(&self.0).unwrap().count();
        let data = self.0.join(format!("data-{version}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("tls.crt"), &leaf.certificate).unwrap();
        fs::write(data.join("tls.key"), &leaf.key).unwrap();
        fs::write(data.join("ca.crt"), authorities.unwrap_or_default()).unwrap();
        let link = self.0.join(format!("link-{version}"));
        std::os::unix::fs::symlink(&data, &link).unwrap();
        fs::rename(link, self.0.join("current")).unwrap();
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            interval: Duration::from_millis(5),
            ..TlsFiles::in_folder(self.path().join("current"))
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn service(registry: &Registry) -> Service {
    Extension::new()
        .metrics(Metrics::register(registry).unwrap())
        .on(BeforeClusterCreate, "before-create", |_, _| async {
            Ok(BeforeClusterCreateResponse::default())
        })
        .build()
        .unwrap()
}

fn reloads(registry: &Registry, result: &str) -> u64 {
    let families = registry.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "capi_runtime_extension_certificate_reloads_total");
    let metrics = family
        .map(|family| family.get_metric().to_vec())
        .unwrap_or_default();
    let of = |metric: &&prometheus::proto::Metric| metric.get_label()[0].value() == result;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it counts"
    )]
    metrics
        .iter()
        .find(of)
        .map_or(0, |metric| metric.get_counter().get_value() as u64)
}

async fn until(what: impl Fn() -> bool) {
    timeout(PATIENCE, async {
        while !what() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn another_certificate_is_served_to_new_connections_and_a_broken_one_to_none() {
    let folder = Folder::new("rotation");
    let old = Authority::new("old");
    let new = Authority::new("new");
    folder.put(&old.leaf(), None);
    let registry = Registry::new();
    let running = start(service(&registry), Tls::load(folder.files()).await.unwrap());
    let mut before = Client::connect(running.address, &old.pem, Some(Protocol::Http2)).await;
    assert_eq!(before.post(CREATE, "{}").await.json()["status"], "Success");

    folder.put(
        &Leaf {
            certificate: "nonsense".into(),
            key: old.leaf().key,
        },
        None,
    );
    until(|| reloads(&registry, "failed") > 0).await;
    for protocol in PROTOCOLS {
        let mut client = Client::connect(running.address, &old.pem, protocol).await;
        assert_eq!(client.post(CREATE, "{}").await.json()["status"], "Success");
    }
    assert_eq!(reloads(&registry, "taken"), 0);

    folder.put(&new.leaf(), None);
    until(|| reloads(&registry, "taken") == 1).await;
    for protocol in PROTOCOLS {
        let mut client = Client::connect(running.address, &new.pem, protocol).await;
        assert_eq!(client.post(CREATE, "{}").await.json()["status"], "Success");
    }
    assert!(
        Client::try_connect(running.address, &old.pem, None, None)
            .await
            .is_err()
    );
    assert_eq!(before.post(CREATE, "{}").await.json()["status"], "Success");
}

/// Whether a client gets an answer. With TLS 1.3 it learns that its certificate was refused only when it reads.
async fn served(address: std::net::SocketAddr, authority: &str, leaf: Option<&Leaf>) -> bool {
    use http_body_util::BodyExt as _;
    let Ok(mut client) = Client::try_connect(address, authority, None, leaf).await else {
        return false;
    };
    let body = http_body_util::Full::new("{}".into()).boxed();
    client
        .send(hyper::Method::POST, CREATE, body)
        .await
        .is_ok_and(|answer| answer.status == 200)
}

/// The server's part of TLS-1, TLS-2, TLS-3.
#[tokio::test]
async fn clients_have_to_show_a_certificate_of_the_authority_of_now() {
    let folder = Folder::new("clients");
    let server = Authority::new("server");
    let old = Authority::new("old clients");
    let new = Authority::new("new clients");
    let leaf = server.leaf();
    folder.put(&leaf, Some(&old.pem));
    let registry = Registry::new();
    let mut files = folder.files();
    files.client_authorities = Some(folder.path().join("current/ca.crt"));
    let running = start(service(&registry), Tls::load(files).await.unwrap());
    let of = async |client: Option<&Leaf>| served(running.address, &server.pem, client).await;
    assert!(of(Some(&old.leaf())).await);
    assert!(!of(Some(&new.leaf())).await);
    assert!(!of(None).await);

    folder.put(&leaf, Some(&format!("{}{}", old.pem, new.pem)));
    until(|| reloads(&registry, "taken") == 1).await;
    assert!(of(Some(&old.leaf())).await);
    assert!(of(Some(&new.leaf())).await);

    folder.put(&leaf, Some(&new.pem));
    until(|| reloads(&registry, "taken") == 2).await;
    assert!(!of(Some(&old.leaf())).await);
    assert!(of(Some(&new.leaf())).await);
    assert!(!of(None).await);
}

#[tokio::test]
async fn invalid_certificates_and_keys_are_errors_at_the_start() {
    let authority = Authority::new("authority");
    let leaf = authority.leaf();
    let other = authority.leaf();
    let of = |certificate: &str, key: &str, clients: Option<&str>| {
        Tls::from_pem(certificate, key, clients.map(Into::into))
            .err()
            .unwrap()
    };
    assert!(matches!(of("", &leaf.key, None), TlsError::Empty { .. }));
    assert!(matches!(of(&leaf.certificate, "", None), TlsError::Pem { .. }));
    assert!(matches!(
        of(&leaf.certificate, &other.key, None),
        TlsError::Certificate(_)
    ));
    assert!(matches!(
        of(&leaf.certificate, &leaf.key, Some("")),
        TlsError::Empty { .. }
    ));
    let missing = Tls::load(TlsFiles::in_folder("/nonexistent"))
        .await
        .err()
        .unwrap();
    assert!(matches!(missing, TlsError::Read { .. }));
}

#[tokio::test]
async fn a_certificate_from_elsewhere_takes_the_place_of_another() {
    let old = Authority::new("old");
    let new = Authority::new("new");
    let tls = old.tls();
    let running = start(service(&Registry::new()), tls.clone());
    assert!(served(running.address, &old.pem, None).await);
    let leaf = new.leaf();
    tls.replace(leaf.certificate.clone(), leaf.key, None).unwrap();
    assert!(served(running.address, &new.pem, None).await);
    assert!(!served(running.address, &old.pem, None).await);
    assert!(tls.replace(leaf.certificate, old.leaf().key, None).is_err());
    assert!(served(running.address, &new.pem, None).await);
}
