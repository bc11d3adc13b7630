//! Errors that people meet first: the message and the exit code.

use std::{fmt::Write as _, net::TcpListener};

use axum::{Json, Router, http::StatusCode};
use serde_json::json;
use tempfile::TempDir;

use super::{expect, nephele, text};

/// Commands for a management cluster.
const COMMANDS: [&[&str]; 14] = [
    &["get", "clusters"],
    &["get", "clusters", "absent"],
    &["describe", "cluster", "absent"],
    &["connect", "--all"],
    &["connect", "absent"],
    &["page"],
    &["fault", "add", "notReady"],
    &["fault", "heal", "absent"],
    &["scenario", "run", "quota"],
    &["scenario", "stop", "absent"],
    &["doctor"],
    &["journal", "show"],
    &["install", "--image", "registry.example/nephele:v1"],
    &["uninstall"],
];

/// Runs commands, and writes down the exit code and the error output of each.
fn transcript(runs: &[Vec<&str>], hidden: &[(&str, &str)]) -> String {
    let mut transcript = String::new();
    for arguments in runs {
        let output = nephele(arguments);
        let mut shown = format!("$ nephele {}\n{}", arguments.join(" "), text(output.stderr));
        for (varying, name) in hidden {
            shown = shown.replace(varying, name);
        }
        assert!(
            !shown.contains("panicked") && !shown.contains("stack backtrace"),
            "{shown}"
        );
        writeln!(
            transcript,
            "{}\n? {}\n",
            shown.trim_end(),
            output.status.code().expect("an exit code")
        )
        .expect("memory");
    }
    transcript
}

/// The commands with a kubeconfig.
fn with_kubeconfig(kubeconfig: &str) -> Vec<Vec<&str>> {
    COMMANDS
        .iter()
        .map(|command| [command, &["--kubeconfig", kubeconfig][..]].concat())
        .collect()
}

/// A folder with the kubeconfig of a server.
fn kubeconfig(server: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    });
    std::fs::write(&path, content.to_string()).expect("written");
    let path = path.to_str().expect("text").to_owned();
    (folder, path)
}

/// An API server that gives one answer to everything.
async fn serve(code: StatusCode, reason: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "reason": reason, "message": format!("the server says {reason}"),
    });
    let router = Router::new().fallback(move || async move { (code, Json(status)) });
    tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    format!("http://{address}")
}

/// What all commands say when the server gives one answer to everything.
async fn against(code: StatusCode, reason: &'static str) -> String {
    let server = serve(code, reason).await;
    let (_folder, path) = kubeconfig(&server);
    let said = move || {
        transcript(
            &with_kubeconfig(&path),
            &[(&path, "KUBECONFIG"), (&server, "SERVER")],
        )
    };
    tokio::task::spawn_blocking(said).await.expect("it ran")
}

#[test]
fn wrong_usage_says_what_would_be_right() {
    let runs: [&[&str]; 14] = [
        &[],
        &["frobnicate"],
        &["get"],
        &["get", "pods"],
        &["get", "clusters", "--output", "xml"],
        &["up", "--stand-in"],
        &["up", "--time-limit", "soon"],
        &["connect", "--all", "name"],
        &["completion", "cmd"],
        &["journal", "replay"],
        &["fault", "add", "notready"],
        &["fault", "add", "freeze", "--machines", "a in (b)"],
        &["scenario", "run", "qouta"],
        &["scenario", "run", "./absent.yaml", "--make-cluster"],
    ];
    expect("wrong-usage.txt", &transcript(&runs.map(<[&str]>::to_vec), &[]));
}

#[test]
fn without_a_kubeconfig_the_flags_are_named() {
    expect(
        "no-kubeconfig.txt",
        &transcript(&COMMANDS.map(<[&str]>::to_vec), &[]),
    );
}

#[test]
fn a_missing_kubeconfig_is_named() {
    expect(
        "missing-kubeconfig.txt",
        &transcript(&with_kubeconfig("/nonexistent/kubeconfig"), &[]),
    );
}

#[test]
fn an_unreachable_server_is_exit_code_5() {
    // Nothing listens on a port that was just given back.
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port");
    let server = format!("http://{address}");
    let (_folder, path) = kubeconfig(&server);
    let said = transcript(
        &with_kubeconfig(&path),
        &[(&path, "KUBECONFIG"), (&server, "SERVER")],
    );
    expect("unreachable-server.txt", &said);
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    expect(
        "missing-permission.txt",
        &against(StatusCode::FORBIDDEN, "Forbidden").await,
    );
}

#[tokio::test]
async fn a_server_without_cluster_api_is_told_apart() {
    expect(
        "no-cluster-api.txt",
        &against(StatusCode::NOT_FOUND, "NotFound").await,
    );
}
