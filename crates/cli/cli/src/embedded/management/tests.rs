use std::net::SocketAddr;

use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use nephele_controller::wall_clock;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::TlsConnector;

use super::*;

/// The address of the management API, and the TLS settings of an administrator.
async fn start(stop: &CancellationToken) -> (SocketAddr, ClientConfig) {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let management = Management::start("test", &wall_clock(), stop.clone()).expect("it starts");
    let kubeconfig = Kubeconfig::from_yaml(&management.kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .expect("a configuration");
    let authority = config.cluster_url.authority().expect("a host and a port");
    let mut tls = kube::client::ConfigExt::rustls_client_config(&config).expect("TLS");
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    (authority.as_str().parse().expect("an address"), tls)
}

async fn connect(address: SocketAddr, tls: ClientConfig) -> tokio_rustls::client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::IpAddress(address.ip().into());
    TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await
        .expect("TLS")
}

/// Sends a request and reads the answer, which ends with `ok`.
async fn ask(stream: &mut tokio_rustls::client::TlsStream<TcpStream>) -> bool {
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("it is open");
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\nok") {
        assert_ne!(stream.read_buf(&mut text).await.expect("it is open"), 0, "closed");
    }
    text.starts_with(b"HTTP/1.1 200 OK\r\n")
}

#[tokio::test]
async fn connections_without_a_certificate_fill_nothing() {
    let stop = CancellationToken::new();
    let (address, tls) = start(&stop).await;
    let mut first = connect(address, tls.clone()).await;
    assert!(ask(&mut first).await);
    let mut silent = Vec::new();
    for _ in 0..LIMITS.unauthenticated_max + 32 {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    let mut second = connect(address, tls).await;
    assert!(ask(&mut second).await);
    assert!(ask(&mut first).await);
    stop.cancel();
}

#[tokio::test]
async fn a_client_that_does_not_finish_the_head_of_its_request_is_cut() {
    let stop = CancellationToken::new();
    let (address, tls) = start(&stop).await;
    let mut stream = connect(address, tls).await;
    stream
        .write_all(b"GET /api HTTP/1.1\r\nHo")
        .await
        .expect("it is open");
    tokio::time::pause();
    let started = Instant::now();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    assert_eq!(text, b"");
    let elapsed = started.elapsed();
    assert!(
        elapsed < LIMITS.idle + LIMITS.drain + Duration::from_secs(1),
        "{elapsed:?}"
    );
    stop.cancel();
}
