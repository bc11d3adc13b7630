//! Certificates of servers, over TLS.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::Request;
use kube::config::KubeConfigOptions;
use nephele_access::{Environment, Server};
use rcgen::CertifiedKey;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

/// A certificate for these names and addresses.
fn certificate(names: &[&str]) -> CertifiedKey<rcgen::KeyPair> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    rcgen::generate_simple_self_signed(names).expect("a certificate")
}

/// Serves with a certificate. Returns the port.
async fn serve(address: &str, own: &CertifiedKey<rcgen::KeyPair>) -> u16 {
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config
        .with_single_cert(vec![own.cert.der().clone()], key)
        .expect("they fit");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((address, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a whole head"));
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                .await
                .expect("the client waits");
        }
    });
    port
}

/// Whether the cluster of a kubeconfig answers.
async fn answers(cluster: &Value) -> bool {
    let kubeconfig = json!({
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab"}}],
    });
    let kubeconfig = serde_json::from_value(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let environment = Environment::default();
    let server = Server::of(kubeconfig, &options, &environment)
        .await
        .expect("usable");
    let client = server.client().expect("certificates");
    let request = Request::get("/version").body(Vec::new()).expect("a request");
    client.request_text(request).await.is_ok()
}

#[tokio::test]
async fn the_own_certificate_of_a_server_in_the_kubeconfig_is_trusted_and_no_other() {
    let own = certificate(&["localhost"]);
    let other = certificate(&["localhost"]);
    let port = serve("127.0.0.1", &own).await;
    for (authority, is_trusted) in [(&own, true), (&other, false)] {
        let cluster = json!({
            "server": format!("https://localhost:{port}"),
            "certificate-authority-data": BASE64.encode(authority.cert.pem()),
        });
        assert_eq!(answers(&cluster).await, is_trusted);
    }
}

#[tokio::test]
async fn a_server_behind_another_name_or_address_is_known_by_the_name_in_the_kubeconfig() {
    for (address, host, names, name, is_known) in [
        (
            "127.0.0.1",
            "127.0.0.1",
            ["api.example", "x.example"],
            None,
            false,
        ),
        (
            "127.0.0.1",
            "127.0.0.1",
            ["api.example", "x.example"],
            Some("api.example"),
            true,
        ),
        (
            "127.0.0.1",
            "127.0.0.1",
            ["api.example", "x.example"],
            Some("other.example"),
            false,
        ),
        (
            "127.0.0.1",
            "localhost",
            ["localhost", "x.example"],
            Some("api.example"),
            false,
        ),
        (
            "127.0.0.1",
            "localhost",
            ["10.0.0.1", "x.example"],
            Some("10.0.0.1"),
            true,
        ),
        ("::1", "[::1]", ["::1", "x.example"], None, true),
        ("::1", "[::1]", ["127.0.0.1", "x.example"], None, false),
        ("::1", "[::1]", ["fd00::1", "x.example"], Some("fd00::1"), true),
    ] {
        let own = certificate(&names);
        let mut cluster = json!({
            "server": format!("https://{host}:{}", serve(address, &own).await),
            "certificate-authority-data": BASE64.encode(own.cert.pem()),
        });
        if let Some(name) = name {
            cluster["tls-server-name"] = name.into();
        }
        assert_eq!(
            answers(&cluster).await,
            is_known,
            "{host} with {name:?} and a certificate for {names:?}"
        );
    }
}
