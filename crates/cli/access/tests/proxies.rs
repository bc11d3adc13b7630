//! Requests through proxies that the tests play.

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nephele_access::{Environment, Server, config_without_proxy};
use nephele_error_chain::chain;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

/// Only a proxy knows where this is.
const HOST: &str = "management.example";

/// An API server that answers each request with its path. Returns its port.
async fn api_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let head = read_head(&mut stream).await;
                let path = head.split(' ').nth(1).expect("a path");
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
                stream
                    .write_all(answer.as_bytes())
                    .await
                    .expect("the client waits");
            });
        }
    });
    port
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a whole head"));
    }
    String::from_utf8(head).expect("text")
}

/// What a proxy does with its only connection. It knows that every host is this machine.
#[derive(Clone, Copy)]
enum Played {
    Http,
    HttpRefusing,
    Socks,
    SocksRefusing,
}

/// A proxy for one connection. Returns its port, and what the client wanted.
async fn proxy(played: Played) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let wanted = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let (wanted, port, answer) = match played {
            Played::Http | Played::HttpRefusing => http(&mut client).await,
            Played::Socks | Played::SocksRefusing => socks(&mut client).await,
        };
        match played {
            Played::Http | Played::Socks => {
                client.write_all(&answer).await.expect("the client waits");
                let mut server = TcpStream::connect(("127.0.0.1", port))
                    .await
                    .expect("the server is up");
                tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
            }
            Played::HttpRefusing => {
                client
                    .write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                    .await
                    .expect("it waits");
            }
            // Not allowed by the rules of the proxy.
            Played::SocksRefusing => {
                client
                    .write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0])
                    .await
                    .expect("it waits");
            }
        }
        wanted
    });
    (port, wanted)
}

async fn http(client: &mut TcpStream) -> (String, u16, Vec<u8>) {
    let head = read_head(client).await;
    let credentials = head
        .lines()
        .find_map(|line| line.strip_prefix("Proxy-Authorization: "));
    let target = head.split(' ').nth(1).expect("a target").to_owned();
    let port = target
        .rsplit_once(':')
        .expect("a port")
        .1
        .parse()
        .expect("a number");
    let host = target.rsplit_once(':').expect("a port").0;
    let wanted = format!("{host} by {}", credentials.unwrap_or("anybody"));
    (
        wanted,
        port,
        b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
    )
}

/// RFC 1928 and, for a name and a password, RFC 1929.
async fn socks(client: &mut TcpStream) -> (String, u16, Vec<u8>) {
    let mut greeting = [0; 3];
    client.read_exact(&mut greeting).await.expect("a greeting");
    client.write_all(&[5, greeting[2]]).await.expect("it waits");
    let mut user = "anybody".to_owned();
    if greeting[2] == 2 {
        assert_eq!(client.read_u8().await.expect("a version"), 1);
        let mut texts = Vec::new();
        for _ in 0..2 {
            let mut text = vec![0; client.read_u8().await.expect("a length").into()];
            client.read_exact(&mut text).await.expect("a text");
            texts.push(String::from_utf8(text).expect("text"));
        }
        user = texts.join("/");
        client.write_all(&[1, 0]).await.expect("it waits");
    }
    let mut request = [0; 5];
    client.read_exact(&mut request).await.expect("a request");
    assert_eq!(request[..4], [5, 1, 0, 3], "a connection to a name");
    let mut host = vec![0; request[4].into()];
    client.read_exact(&mut host).await.expect("a host");
    let port = client.read_u16().await.expect("a port");
    let host = String::from_utf8(host).expect("text");
    (
        format!("{host} by {user}"),
        port,
        vec![5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    )
}

fn kubeconfig(server: &str, proxy_url: Option<&str>) -> Kubeconfig {
    let mut cluster = json!({"server": server});
    if let Some(url) = proxy_url {
        cluster["proxy-url"] = url.into();
    }
    let config = json!({
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    });
    serde_json::from_value(config).expect("a kubeconfig")
}

/// The answer to a request, or why there is none.
async fn ask(kubeconfig: Kubeconfig, variables: &[(&str, String)]) -> Result<String, String> {
    let environment = Environment::read(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    });
    let server = Server::of(kubeconfig, &KubeConfigOptions::default(), &environment).await;
    let client = server
        .map_err(|error| chain(&error))?
        .client()
        .map_err(|error| chain(&error))?;
    let request = Request::get("/version").body(Vec::new()).expect("a request");
    client.request_text(request).await.map_err(|error| chain(&error))
}

#[tokio::test]
async fn requests_go_through_the_proxy_of_kubeconfig_or_environment_which_resolves_the_name() {
    let port = api_server().await;
    let server = format!("http://{HOST}:{port}");
    let rows = [
        (Played::Http, "http://", "anybody"),
        (Played::Http, "http://me:p%40ss@", "Basic bWU6cEBzcw=="),
        (Played::Socks, "socks5://", "anybody"),
        (Played::Socks, "socks5://me:p%40ss@", "me/p@ss"),
    ];
    for (played, start, user) in rows {
        for by_kubeconfig in [true, false] {
            let (proxy, wanted) = proxy(played).await;
            let url = format!("{start}127.0.0.1:{proxy}");
            let answer = match by_kubeconfig {
                true => ask(kubeconfig(&server, Some(&url)), &[]).await,
                false => ask(kubeconfig(&server, None), &[("HTTP_PROXY", url)]).await,
            };
            assert_eq!(answer.as_deref(), Ok("/version"), "{start} {by_kubeconfig}");
            assert_eq!(
                wanted.await.expect("the proxy worked"),
                format!("{HOST} by {user}")
            );
        }
    }
}

#[tokio::test]
async fn what_fails_at_a_proxy_names_it_and_where_it_comes_from() {
    let server = format!("http://{HOST}:1");
    for (played, scheme) in [(Played::HttpRefusing, "http"), (Played::SocksRefusing, "socks5")] {
        let (port, wanted) = proxy(played).await;
        let url = format!("{scheme}://me:secret@127.0.0.1:{port}");
        let failed = ask(kubeconfig(&server, Some(&url)), &[])
            .await
            .expect_err("refused");
        let named = format!("through the proxy {scheme}://127.0.0.1:{port} (proxy-url in the kubeconfig): ");
        assert!(failed.contains(&named) && !failed.contains("secret"), "{failed}");
        wanted.await.expect("the proxy was asked");
    }
    // A port that nothing listens on.
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port")
        .local_addr()
        .expect("bound");
    let environment = [("HTTP_PROXY", format!("http://{closed}"))];
    let failed = ask(kubeconfig(&server, None), &environment)
        .await
        .expect_err("nothing there");
    let named = format!("through the proxy http://{closed} (the variable HTTP_PROXY): ");
    assert!(
        failed.contains(&named) && failed.contains("Connection refused"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_asked_for_this_machine() {
    let port = api_server().await;
    for host in ["127.0.0.1", "localhost"] {
        let environment = [
            ("HTTP_PROXY", "http://127.0.0.1:9".to_owned()),
            ("NO_PROXY", "///".to_owned()),
        ];
        let answer = ask(kubeconfig(&format!("http://{host}:{port}"), None), &environment).await;
        assert_eq!(answer.as_deref(), Ok("/version"), "{host}");
    }
    let config = config_without_proxy(kubeconfig("https://127.0.0.1", Some("http://127.0.0.1:9"))).await;
    assert_eq!(config.expect("usable").proxy_url, None);
}
