//! Certificates of servers, over TLS.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Request;
use kube::config::KubeConfigOptions;
use nephele_access::{Environment, Server};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[tokio::test]
async fn the_own_certificate_of_a_server_in_the_kubeconfig_is_trusted_and_no_other() {
    let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (own, other) = (made(), made());
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![own.cert.der().clone()], key).expect("they fit");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
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
    for (authority, is_trusted) in [(&own, true), (&other, false)] {
        let cluster = json!({
            "server": format!("https://localhost:{port}"),
            "certificate-authority-data": BASE64.encode(authority.cert.pem()),
        });
        let kubeconfig = json!({
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab"}}],
        });
        let kubeconfig = serde_json::from_value(kubeconfig).expect("a kubeconfig");
        let (options, environment) = (KubeConfigOptions::default(), Environment::default());
        let server = Server::of(kubeconfig, &options, &environment).await.expect("usable");
        let client = server.client().expect("certificates");
        let request = Request::get("/version").body(Vec::new()).expect("a request");
        let answer = client.request_text(request).await;
        assert_eq!(answer.is_ok(), is_trusted, "{answer:?}");
    }
}
