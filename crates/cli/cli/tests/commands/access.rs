//! Which kubeconfig and which proxy lead to a management cluster.

use std::{net::TcpListener, process::Command};

use serde_json::json;

use super::text;

/// The exit code of `nephele get clusters` with these variables, and its error.
fn get_clusters(variables: &[(&str, &str)]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nephele"))
        .args(["get", "clusters"])
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts");
    (output.status.code().expect("an exit code"), text(output.stderr))
}

/// The address of a port on which nothing listens, because it was just given back.
fn closed() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a port").to_string()
}

fn kubeconfig(server: &str, proxy_url: &str) -> String {
    let cluster = json!({"server": server, "proxy-url": proxy_url});
    let config = json!({
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "current-context": "lab",
    });
    config.to_string()
}

#[test]
fn a_proxy_that_does_not_answer_is_named_with_where_it_comes_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    let path = file.to_str().expect("text");
    let address = closed();
    for scheme in ["http", "socks5"] {
        let url = format!("{scheme}://{address}");
        let by_kubeconfig = kubeconfig("https://management.example", &url);
        let by_environment = kubeconfig("https://management.example", "");
        let rows = [
            (by_kubeconfig, "HTTP_PROXY", "proxy-url in the kubeconfig"),
            (by_environment, "HTTPS_PROXY", "the variable HTTPS_PROXY"),
        ];
        for (content, variable, origin) in rows {
            std::fs::write(&file, content).expect("written");
            let (code, said) =
                get_clusters(&[("KUBECONFIG", path), (variable, &url), ("NO_PROXY", "127.0.0.1")]);
            let named = format!("failed to connect through the proxy {url} ({origin})");
            assert!(code == 5 && said.contains(&named), "{code}: {said}");
        }
    }
}

#[test]
fn files_that_are_not_there_are_skipped_or_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let [there, unset] = ["there", "unset"].map(|name| folder.path().join(name).display().to_string());
    let server = format!("http://{}", closed());
    std::fs::write(&there, kubeconfig(&server, "")).expect("written");
    std::fs::write(&unset, "clusters: null\ncurrent-context: ''\n").expect("written");
    for list in [
        format!("/nonexistent/a:{there}"),
        format!("{unset}:{there}:/nonexistent/a"),
    ] {
        // It finds the server, which does not answer.
        let (code, said) = get_clusters(&[("KUBECONFIG", &list), ("http_proxy", "http://127.0.0.1:9")]);
        assert!(code == 5 && !said.contains("proxy"), "{list}: {code}: {said}");
    }
    let (code, said) = get_clusters(&[("KUBECONFIG", "/nonexistent/a:/nonexistent/b")]);
    let named = "prints the path of its own): no kubeconfig is there: /nonexistent/a, /nonexistent/b\n";
    assert!(code == 5 && said.ends_with(named), "{code}: {said}");
}
