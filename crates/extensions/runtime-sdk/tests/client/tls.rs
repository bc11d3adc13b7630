//! Calls over real TLS.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::Version;
use nephele_runtime_sdk::{
    catalog::Catalog,
    client::{
        Circuit, CircuitSettings, Client, ClientConfig, Handler, OnError, Registration, Registry, Retries,
        ServiceReference, chain,
        transport::{Https, HttpsSettings, Identity, IdentityFiles},
    },
    hooks::{BeforeClusterCreate, BeforeClusterCreateResponse},
    wire,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType};
use rustls::ServerConfig;
use serde_json::json;

use crate::{
    script::{ONE, one, request, subject},
    tls_server::{Authority, HOST, Leaf, Reply, SOON, Server, https, params, settings, success, tls},
};

const BOTH: [&str; 2] = ["h2", "http/1.1"];

/// The extension as a Service of a cluster.
fn registered(ca_bundle: &str, on_error: OnError) -> Registration {
    let service = ServiceReference {
        namespace: "test".into(),
        name: "extension".into(),
        ..ServiceReference::default()
    };
    let mut registered = one(on_error);
    registered.client_config = ClientConfig {
        service: Some(service),
        ca_bundle: wire::Bytes(ca_bundle.as_bytes().to_vec()),
        ..ClientConfig::default()
    };
    registered
}

fn caller(transport: &Arc<Https>, registration: Registration) -> Client {
    Client::builder(Catalog::cluster_api())
        .registry(Registry::of([registration]).unwrap())
        .transport(transport.clone())
        .retries(Retries {
            times: 0,
            wait: Duration::ZERO,
        })
        .circuit(CircuitSettings::never())
        .build()
}

async fn call(client: &Client) -> Result<BeforeClusterCreateResponse, String> {
    let called = client
        .call::<BeforeClusterCreate>(ONE, &subject(), &request())
        .await;
    called.map_err(|error| {
        let prefix = "failed to call extension handler \"valid-extension.ext\": ";
        chain(&error).strip_prefix(prefix).unwrap().to_owned()
    })
}

/// The result of calling a server with these TLS settings, with this CA bundle.
async fn called(config: Arc<ServerConfig>, ca_bundle: &str) -> Result<BeforeClusterCreateResponse, String> {
    let server = Server::http(config, |_| success()).await;
    call(&caller(
        &Arc::new(https(server.address)),
        registered(ca_bundle, OnError::Fail),
    ))
    .await
}

#[tokio::test]
async fn the_protocol_is_the_best_that_the_extension_speaks_and_connections_are_kept() {
    let authority = Authority::new("ca");
    for (protocols, version) in [
        (&BOTH[..], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let server = Server::http(tls(&authority.leaf(), protocols, None), |_| success()).await;
        let client = caller(
            &Arc::new(https(server.address)),
            registered(&authority.pem, OnError::Fail),
        );
        for _ in 0..20 {
            assert_eq!(call(&client).await, Ok(BeforeClusterCreateResponse::default()));
        }
        let hits = server.hits();
        assert!(hits.iter().all(|hit| hit.version == version), "{protocols:?}");
        assert_eq!((hits.len(), server.connections()), (20, 1));
        let path = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/valid-extension?timeout=10s";
        assert_eq!(hits[0].target, path);
        assert_eq!(hits[0].content_type.as_deref(), Some("application/json"));
        assert_eq!(hits[0].body["kind"], json!("BeforeClusterCreateRequest"));
    }
}

#[tokio::test]
async fn an_extension_is_believed_only_with_a_certificate_of_its_bundle_for_its_name() {
    let authority = Authority::new("ca");
    let other = Authority::new("other");
    let failure = |text: &str| Err(format!("http call failed: failed to connect: {text}"));
    let of = |params: CertificateParams| tls(&authority.leaf_of(&params), &BOTH, None);
    let good = tls(&authority.leaf(), &BOTH, None);

    assert_eq!(
        called(good.clone(), &authority.pem).await,
        Ok(BeforeClusterCreateResponse::default())
    );
    let both = format!("{}{}", other.pem, authority.pem);
    assert_eq!(
        called(good.clone(), &both).await,
        Ok(BeforeClusterCreateResponse::default())
    );
    assert_eq!(
        called(good, &other.pem).await,
        failure("invalid peer certificate: UnknownIssuer")
    );

    let elsewhere = called(of(params(&["elsewhere.test.svc"])), &authority.pem).await;
    assert!(
        elsewhere
            .as_ref()
            .unwrap_err()
            .contains("not valid for name \"extension.test.svc\""),
        "{elsewhere:?}"
    );
    // The common name is HOST, but as in Go the common name is ignored.
    let nameless = called(of(params(&[])), &authority.pem).await;
    assert!(
        nameless
            .as_ref()
            .unwrap_err()
            .contains("not valid for name \"extension.test.svc\""),
        "{nameless:?}"
    );

    let mut expired = params(&[HOST]);
    expired.not_after = rcgen::date_time_ymd(2000, 1, 1);
    let text = "invalid peer certificate: expired at 946684800 seconds since 1970";
    assert_eq!(called(of(expired), &authority.pem).await, failure(text));
    let mut early = params(&[HOST]);
    early.not_before = rcgen::date_time_ymd(4000, 1, 1);
    let text = "invalid peer certificate: not valid before 64060588800 seconds since 1970";
    assert_eq!(called(of(early), &authority.pem).await, failure(text));
}

/// As cert-manager's self-signed issuer makes it: a certificate that is its own authority, though it is not marked
/// as a CA.
#[tokio::test]
async fn a_self_signed_certificate_is_its_own_bundle() {
    let key = KeyPair::generate().unwrap();
    let certificate = params(&[HOST]).self_signed(&key).unwrap().pem();
    let leaf = Leaf {
        certificate,
        key: key.serialize_pem(),
    };
    let config = tls(&leaf, &BOTH, None);
    assert_eq!(
        called(config, &leaf.certificate).await,
        Ok(BeforeClusterCreateResponse::default())
    );

    // A server certificate that is marked as a CA is refused (RFC 5280, as webpki reads it). Go accepts it.
    let mut authority = params(&[HOST]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap().pem();
    let leaf = Leaf {
        certificate,
        key: key.serialize_pem(),
    };
    let refused = called(tls(&leaf, &BOTH, None), &leaf.certificate).await;
    assert!(refused.unwrap_err().contains("CaUsedAsEndEntity"));
}

#[tokio::test]
async fn an_extension_may_be_at_an_address() {
    let authority = Authority::new("ca");
    let mut at_address = params(&[]);
    at_address
        .subject_alt_names
        .push(SanType::IpAddress("127.0.0.1".parse().unwrap()));
    let server = Server::http(tls(&authority.leaf_of(&at_address), &BOTH, None), |_| success()).await;
    let mut registered = registered(&authority.pem, OnError::Fail);
    registered.client_config.service = None;
    registered.client_config.url = format!("https://127.0.0.1:{}/", server.address.port());
    let client = caller(&Arc::new(Https::new(HttpsSettings::default())), registered);
    assert_eq!(call(&client).await, Ok(BeforeClusterCreateResponse::default()));
}

/// An invalid bundle is the caller's error. The failure policy does not apply.
#[tokio::test]
async fn a_bundle_that_is_none_is_an_error_though_the_policy_is_ignore() {
    let server = Server::http(tls(&Authority::new("ca").leaf(), &BOTH, None), |_| success()).await;
    let cut = &Authority::new("ca").pem[..200];
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (bundle, expected) in [
        (
            "no pem",
            "failed to set up TLS: there is no certificate in the CA bundle",
        ),
        (cut, "failed to set up TLS: failed to read the CA bundle"),
        (
            nonsense,
            "failed to set up TLS: failed to use a certificate of the CA bundle",
        ),
    ] {
        let client = caller(
            &Arc::new(https(server.address)),
            registered(bundle, OnError::Ignore),
        );
        let error = call(&client).await.unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

/// Without a bundle the system's authorities are used, which do not include the authority of the test.
#[tokio::test]
async fn without_a_bundle_the_systems_authorities_are_asked() {
    let error = called(tls(&Authority::new("ca").leaf(), &BOTH, None), "")
        .await
        .unwrap_err();
    assert!(
        error.contains("UnknownIssuer") || error.contains("certificate authorities of the system"),
        "{error}"
    );
}

/// TLS-6.
#[tokio::test]
async fn redirects_are_not_followed() {
    let authority = Authority::new("ca");
    let elsewhere = Server::http(tls(&authority.leaf(), &BOTH, None), |_| success()).await;
    let to = format!("https://{HOST}:{}/", elsewhere.address.port());
    let server = Server::http(tls(&authority.leaf(), &BOTH, None), move |_| {
        Reply::Redirect(to.clone())
    })
    .await;
    let client = caller(
        &Arc::new(https(server.address)),
        registered(&authority.pem, OnError::Fail),
    );
    assert_eq!(
        call(&client).await,
        Err("http call failed: got response with status code 302 != 200: \"\"".to_owned())
    );
    assert_eq!(elsewhere.connections(), 0);
}

/// CLI-6, and responses with status 200, to which upstream's limit does not apply.
#[tokio::test]
async fn long_bodies_are_not_read() {
    let authority = Authority::new("ca");
    let long = Bytes::from(vec![b' '; 64 << 10]);
    let limit = 1 << 20;
    let too_large = format!("http call failed: the response is longer than {limit} bytes");
    let unwanted = format!(
        "http call failed: got response with status code 500 != 200: \"{}...\"",
        " ".repeat(512)
    );
    for protocols in [&["h2"], &["http/1.1"]] {
        for (reply, expected) in [
            (Reply::Pieces(200, long.clone(), 320), &too_large),
            // A body without an end.
            (Reply::Pieces(200, long.clone(), usize::MAX), &too_large),
            (Reply::Body(200, vec![b' '; (1 << 20) + 1].into()), &too_large),
            (Reply::Body(500, vec![b' '; (20 << 20) + 1].into()), &unwanted),
            (Reply::Pieces(500, long.clone(), usize::MAX), &unwanted),
        ] {
            let server = Server::http(tls(&authority.leaf(), protocols, None), move |_| reply.clone()).await;
            let transport = Https::new(HttpsSettings {
                response_limit: limit,
                ..settings(server.address)
            });
            let client = caller(&Arc::new(transport), registered(&authority.pem, OnError::Fail));
            assert_eq!(call(&client).await.as_ref(), Err(expected));
        }
        // A response of exactly the allowed length is read.
        let mut body = vec![b' '; limit];
        body[..21].copy_from_slice(b"{\"status\":\"Success\" }");
        let body = Bytes::from(body);
        let server = Server::http(tls(&authority.leaf(), protocols, None), move |_| {
            Reply::Body(200, body.clone())
        })
        .await;
        let transport = Https::new(HttpsSettings {
            response_limit: limit,
            ..settings(server.address)
        });
        let client = caller(&Arc::new(transport), registered(&authority.pem, OnError::Fail));
        assert_eq!(call(&client).await, Ok(BeforeClusterCreateResponse::default()));
    }
}

#[tokio::test]
async fn a_response_that_is_no_http_or_ends_too_soon_is_an_error() {
    let authority = Authority::new("ca");
    for bytes in [
        &b""[..],
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{\"status\":\"Success\"",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n14\r\n{\"status\":\"Success\"}\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    ] {
        let server = Server::raw(tls(&authority.leaf(), &["http/1.1"], None), bytes).await;
        let transport = Arc::new(https(server.address));
        let error = call(&caller(&transport, registered(&authority.pem, OnError::Fail)))
            .await
            .unwrap_err();
        assert!(
            error.starts_with("http call failed: failed to send the request or read the response: "),
            "{error}"
        );
        let ignored = call(&caller(&transport, registered(&authority.pem, OnError::Ignore))).await;
        assert_eq!(ignored, Ok(BeforeClusterCreateResponse::default()));
    }
    let complete = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"status\":\"Success\"}";
    let server = Server::raw(tls(&authority.leaf(), &["http/1.1"], None), complete).await;
    let client = caller(
        &Arc::new(https(server.address)),
        registered(&authority.pem, OnError::Fail),
    );
    assert_eq!(call(&client).await, Ok(BeforeClusterCreateResponse::default()));
}

/// The deadline covers the connection, TLS, the head of the answer and its body.
#[tokio::test]
async fn a_slow_extension_is_waited_for_as_long_as_it_said() {
    let authority = Authority::new("ca");
    let soon = |mut registration: Registration| {
        registration.handlers = vec![Handler {
            timeout: SOON,
            ..registration.handlers.remove(0)
        }];
        registration
    };
    let slow = async |protocols: &[&str], reply: Reply| {
        let server = Server::http(tls(&authority.leaf(), protocols, None), move |_| reply.clone()).await;
        let transport = Arc::new(https(server.address));
        let client = caller(&transport, soon(registered(&authority.pem, OnError::Fail)));
        assert_eq!(call(&client).await, Err("no answer came in 1s".to_owned()));
        assert!(server.hits()[0].target.ends_with("?timeout=1s"));
    };
    // Accepts connections and sends nothing.
    let silent = async || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let transport = Arc::new(https(listener.local_addr().unwrap()));
        let client = caller(&transport, soon(registered(&authority.pem, OnError::Fail)));
        assert_eq!(call(&client).await, Err("no answer came in 1s".to_owned()));
    };
    let stalls = Reply::Stalls(Bytes::from_static(b"{\"status\":\"Succ"));
    tokio::join!(
        slow(&["h2"], Reply::Nothing),
        slow(&["h2"], stalls.clone()),
        slow(&["http/1.1"], Reply::Nothing),
        slow(&["http/1.1"], stalls),
        silent(),
    );
}

#[tokio::test]
async fn an_extension_that_is_not_there_or_speaks_no_tls_is_an_error() {
    let authority = Authority::new("ca");
    let unused = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = caller(
        &Arc::new(https(unused)),
        registered(&authority.pem, OnError::Fail),
    );
    let error = call(&client).await.unwrap_err();
    assert!(
        error.starts_with("http call failed: failed to connect: "),
        "{error}"
    );
    assert!(error.contains("refused"), "{error}");

    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        stream
    });
    let client = caller(
        &Arc::new(https(address)),
        registered(&authority.pem, OnError::Fail),
    );
    let error = call(&client).await.unwrap_err();
    assert!(
        error.starts_with("http call failed: failed to connect: "),
        "{error}"
    );
    answering.await.unwrap();
}

/// An extension that was killed and restarted is called again, on a new connection.
#[tokio::test]
async fn a_kept_connection_that_was_ended_is_made_again() {
    let authority = Authority::new("ca");
    for protocols in [&["h2"], &["http/1.1"]] {
        let config = tls(&authority.leaf(), protocols, None);
        let server = Server::http(config.clone(), |_| success()).await;
        let client = caller(
            &Arc::new(https(server.address)),
            registered(&authority.pem, OnError::Fail),
        );
        call(&client).await.unwrap();
        server.restart(config).await;
        // The end of the connection is noticed when its task next runs.
        eventually(async || call(&client).await.is_ok()).await;
        assert_eq!(server.connections(), 2);
    }
}

/// Retries until the condition holds.
async fn eventually(mut so: impl AsyncFnMut() -> bool) {
    let trying = async {
        while !so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), trying)
        .await
        .expect("it came to be so");
}

/// TLS-4, TLS-5.
#[tokio::test]
async fn settings_of_tls_are_kept_by_host_and_bundle() {
    let authority = Authority::new("ca");
    let server = Server::http(tls(&authority.leaf(), &BOTH, None), |_| success()).await;
    let mut at = settings(server.address);
    at.hosts_at.insert("other.test.svc".to_owned(), server.address);
    at.hosts = 2;
    let transport = Arc::new(Https::new(at));
    let mut hosts = Vec::new();
    let other_bundle = Authority::new("other").pem;
    for (host, bundle) in [
        ("extension", &authority.pem),
        ("extension", &authority.pem),
        ("other", &authority.pem),
        ("extension", &other_bundle),
    ] {
        let mut registered = registered(bundle, OnError::Fail);
        registered.client_config.service.as_mut().unwrap().name = host.to_owned();
        let _ = call(&caller(&transport, registered)).await;
        hosts.push(transport.hosts());
    }
    assert_eq!(hosts, [1, 1, 2, 2], "the oldest of three goes");
}

fn identity(leaf: &Leaf) -> Identity {
    Identity::from_pem(leaf.certificate.as_bytes(), leaf.key.as_bytes()).unwrap()
}

/// TLS-1 to TLS-3.
#[tokio::test]
async fn an_extension_that_asks_for_it_is_shown_the_callers_identity() {
    let authority = Authority::new("ca");
    let first = Authority::new("first");
    let second = Authority::new("second");
    let config = |clients: &Authority| tls(&authority.leaf(), &BOTH, Some(clients));
    let server = Server::http(config(&first), |_| success()).await;
    let transport = Arc::new(https(server.address));
    let client = caller(&transport, registered(&authority.pem, OnError::Fail));
    assert!(call(&client).await.is_err(), "there is no identity");
    transport.set_identity(Some(identity(&first.leaf())));
    call(&client).await.unwrap();

    // The caller changes first.
    transport.set_identity(Some(identity(&second.leaf())));
    assert!(call(&client).await.is_err());
    server.restart(config(&second)).await;
    eventually(async || call(&client).await.is_ok()).await;

    // The extension changes first.
    server.restart(config(&first)).await;
    assert!(call(&client).await.is_err());
    transport.set_identity(Some(identity(&first.leaf())));
    call(&client).await.unwrap();
    transport.set_identity(None);
    assert!(call(&client).await.is_err());
}

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn an_identity_is_read_again_when_its_files_change() {
    let folder = Folder(std::env::temp_dir().join(format!("runtime-sdk-identity-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let paths = ["tls.crt", "tls.key"].map(|name| folder.0.join(name));
    let write = |leaf: &Leaf| {
        fs::write(&paths[0], &leaf.certificate).unwrap();
        fs::write(&paths[1], &leaf.key).unwrap();
    };
    let mut files = IdentityFiles::new(&paths[0], &paths[1]);
    let absent = chain(&files.changed().unwrap_err());
    assert!(
        absent.starts_with(&format!("failed to read {}", paths[0].display())),
        "{absent}"
    );

    let authority = Authority::new("ca");
    let clients = Authority::new("clients");
    write(&clients.leaf());
    assert!(files.changed().unwrap().is_some());
    assert!(files.changed().unwrap().is_none());
    fs::write(&paths[1], "no key").unwrap();
    assert!(files.changed().is_err());

    let server = Server::http(tls(&authority.leaf(), &BOTH, Some(&clients)), |_| success()).await;
    let transport = Arc::new(https(server.address));
    let client = caller(&transport, registered(&authority.pem, OnError::Fail));
    let keeping = tokio::spawn(files.keep(transport.clone(), Duration::from_millis(5)));
    assert!(call(&client).await.is_err());
    write(&clients.leaf());
    eventually(async || call(&client).await.is_ok()).await;
    keeping.abort();
}

/// The circuit opens on a dead extension and closes when it is back.
#[tokio::test]
async fn a_dead_extension_is_left_alone_and_called_when_it_is_back() {
    let authority = Authority::new("ca");
    let config = tls(&authority.leaf(), &BOTH, None);
    let server = Server::http(config.clone(), |_| success()).await;
    let address = server.address;
    let client = Client::builder(Catalog::cluster_api())
        .registry(Registry::of([registered(&authority.pem, OnError::Fail)]).unwrap())
        .transport(Arc::new(https(address)))
        .retries(Retries {
            times: 0,
            wait: Duration::ZERO,
        })
        .circuit(CircuitSettings {
            failures: 1,
            wait: Duration::from_millis(1),
            wait_max: Duration::from_millis(1),
            jitter: 0.0,
        })
        .build();
    call(&client).await.unwrap();
    drop(server);
    eventually(async || call(&client).await.is_err()).await;
    assert!(client.registry().circuit("ext").unwrap().is_open());
    let server = Server::http_at(address, config, |_| success()).await;
    eventually(async || call(&client).await.is_ok()).await;
    assert_eq!(client.registry().circuit("ext"), Some(Circuit::Closed));
    drop(server);
}
