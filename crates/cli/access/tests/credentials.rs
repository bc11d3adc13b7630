//! Credentials of users, from plugins.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use http::Request;
use kube::config::KubeConfigOptions;
use nephele_access::{Environment, Server, read_file};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

fn kubeconfig(port: u16, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: lab\n\
         clusters: [{{name: lab, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         contexts: [{{name: lab, context: {{cluster: lab, user: me}}}}]\nusers:\n- name: me\n  user:\n{user}"
    )
}

/// What a server hears of a client that uses the kubeconfig with this user, in the lines after `user:`.
async fn heard(user: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    fs::write(&file, kubeconfig(port, user)).expect("written");
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a whole head"));
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            .await
            .expect("the client waits");
        String::from_utf8(head).expect("text")
    });
    let read = read_file(&file).expect("a kubeconfig");
    let usable = Server::of(read, &KubeConfigOptions::default(), &Environment::of_process())
        .await
        .expect("usable");
    let client = usable.client().expect("credentials");
    let request = Request::get("/version").body(Vec::new()).expect("a request");
    client.request_text(request).await.expect("answered");
    let head = server.await.expect("it ends");
    let header = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    header.unwrap_or_default().to_owned()
}

/// Prints the credential that it is asked for, in the version that it is asked for.
const PLUGIN: &str = "version=$(printf %s \"$KUBERNETES_EXEC_INFO\" | sed 's/.*\"apiVersion\":\"\\([^\"]*\\)\".*/\\1/')\n\
    printf '{\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"of-%s%s\"}}' \"$version\" \"$1\" \"$ZONE\"\n";

/// A plugin that asks for a line of standard input, and then prints a credential.
const READER: &str = "read -r input\n\
    printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"read-%s\"}}' \"$input\"\n";

/// A user whose plugin is this script.
fn plugin(script: &Path, mode: &str) -> String {
    format!(
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: sh\n      \
         args: ['{}']\n      {mode}\n",
        script.display()
    )
}

/// The variable of a process of this test whose standard input is not the plugin's.
const ALONE: &str = "NEPHELE_TEST_OF_STANDARD_INPUT";

#[tokio::test]
async fn a_credential_plugin_does_not_read_standard_input_that_is_no_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("plugin");
    fs::write(&script, READER).expect("written");
    if std::env::var_os(ALONE).is_none() {
        // In a process of its own, whose input has a line that is not the plugin's, and does not end.
        let mut test = Command::new(std::env::current_exe().expect("this program"));
        test.args([
            "--exact",
            "a_credential_plugin_does_not_read_standard_input_that_is_no_terminal",
        ]);
        let mut test = test
            .env(ALONE, "1")
            .stdin(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = test.stdin.take().expect("a pipe");
        input.write_all(b"mine\n").expect("written");
        let ended = tokio::task::spawn_blocking(move || test.wait());
        assert!(ended.await.expect("no panic").expect("it ended").success());
        drop(input);
        return;
    }
    for mode in ["", "interactiveMode: Never", "interactiveMode: IfAvailable"] {
        assert_eq!(heard(&plugin(&script, mode)).await, "Bearer read-", "{mode}");
    }
    let mut ours = String::new();
    std::io::stdin().read_line(&mut ours).expect("it is ours");
    assert_eq!(ours, "mine\n");
    let always = kubeconfig(1, &plugin(&script, "interactiveMode: Always"));
    let file = folder.path().join("config");
    fs::write(&file, always).expect("written");
    let read = read_file(&file).expect("a kubeconfig");
    let refused = Server::of(read, &KubeConfigOptions::default(), &Environment::of_process()).await;
    assert_eq!(
        refused.expect_err("there is no terminal").to_string(),
        "failed to use the credential plugin sh: it reads standard input, which is not a terminal or is read by nephele"
    );
}

#[tokio::test]
async fn a_credential_plugin_is_run_as_kubectl_and_clouds_write_it() {
    // `kubectl config set-credentials` writes null for what it is not given.
    for (version, rest) in [
        (
            "v1",
            "interactiveMode: IfAvailable\n      provideClusterInfo: false\n      env: null\n",
        ),
        (
            "v1",
            "interactiveMode: Never\n      provideClusterInfo: true\n      installHint: Install it.\n",
        ),
        (
            "v1beta1",
            "env:\n      - {name: ZONE, value: -north}\n      provideClusterInfo: false\n",
        ),
        ("v1beta1", "env: []\n      interactiveMode: IfAvailable\n"),
    ] {
        let user = format!(
            "    exec:\n      apiVersion: client.authentication.k8s.io/{version}\n      command: sh\n      \
             args: [-c, '. \"$0\"', PLUGIN, me]\n      {rest}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let plugin = folder.path().join("plugin");
        fs::write(&plugin, PLUGIN).expect("written");
        let user = user.replace("PLUGIN", plugin.to_str().expect("text"));
        let zone = if rest.contains("ZONE") { "-north" } else { "" };
        assert_eq!(
            heard(&user).await,
            format!("Bearer of-me{zone}"),
            "{version} {rest}"
        );
    }
}
