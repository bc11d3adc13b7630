//! `nephele connect` against a management API on a socket, whose pods are processes of the test: each answers a line
//! with its name and the line.

use std::{path::Path, time::Duration};

use clap::Parser;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::*;
use crate::{
    exit::{Exit, Problem},
    forwarding_api::Management,
};

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    connect: ConnectArgs,
}

fn args(management: &Management, more: &[&str]) -> ConnectArgs {
    let kubeconfig = management.kubeconfig().display().to_string();
    let args = [&["connect", "--kubeconfig", &kubeconfig], more].concat();
    Only::try_parse_from(args).expect("valid flags").connect
}

async fn failure(management: &Management, more: &[&str]) -> (Exit, String) {
    let error = run(args(management, more), CancellationToken::new())
        .await
        .expect_err("a failure");
    let exit = error
        .downcast_ref::<Problem>()
        .map_or(Exit::Failed, |problem| problem.exit);
    (exit, nephele_controller::chain(error.as_ref()))
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<ExitCode>>,
}

fn start(management: &Management, more: &[&str]) -> Running {
    let stop = CancellationToken::new();
    let args = args(management, more);
    let task = tokio::spawn(run(args, stop.clone()));
    Running { stop, task }
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("success");
    }
}

/// Looks until there is a value, and returns it.
async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    nephele_testkit::eventually(what, async || look().ok_or(())).await
}

/// The port in a kubeconfig, as soon as there is one.
async fn port(file: &Path) -> u16 {
    eventually("a kubeconfig", || {
        let config = kube::config::Kubeconfig::read_from(file).ok()?;
        let server = config.clusters[0].cluster.as_ref()?.server.clone()?;
        server.strip_prefix("https://127.0.0.1:")?.parse().ok()
    })
    .await
}

struct Line(BufReader<TcpStream>);

impl Line {
    async fn open(port: u16) -> Self {
        Self(BufReader::new(
            TcpStream::connect(("127.0.0.1", port)).await.expect("a listener"),
        ))
    }

    async fn ask(&mut self, text: &str) -> String {
        self.0
            .write_all(format!("{text}\n").as_bytes())
            .await
            .expect("written");
        let mut answer = String::new();
        timeout(Duration::from_secs(20), self.0.read_line(&mut answer))
            .await
            .expect("in time")
            .expect("an answer");
        answer.trim_end().to_owned()
    }

    async fn ends(&mut self) -> bool {
        let ended = timeout(Duration::from_secs(20), self.0.read(&mut [0; 8])).await;
        matches!(ended, Ok(Ok(0) | Err(_)))
    }
}

#[tokio::test]
async fn connections_reach_the_pod_that_serves_and_wait_while_it_is_replaced() {
    let management = Management::start().await;
    management.cluster("demo").await;
    management.pod("a", "Running").await;
    management.serve("a").await;
    let folder = management.folder().join("kubeconfigs");
    let running = start(&management, &["demo", "--folder", &folder.display().to_string()]);
    let file = folder.join("default-demo.kubeconfig");
    let port = port(&file).await;
    let mut first = Line::open(port).await;
    let mut second = Line::open(port).await;
    assert_eq!(first.ask("hello").await, "a: hello");
    assert_eq!(second.ask("hello").await, "a: hello");
    assert_eq!(first.ask("again").await, "a: again");

    management.delete_pod("a").await;
    assert!(first.ends().await && second.ends().await);
    let mut during = Line::open(port).await;
    let answered = tokio::spawn(async move { during.ask("hello").await });
    sleep(Duration::from_millis(300)).await;
    // It runs, but it does not listen yet: the connection is refused in the pod.
    management.pod("b", "Running").await;
    sleep(Duration::from_millis(800)).await;
    assert!(!answered.is_finished());
    management.serve("b").await;
    assert_eq!(answered.await.expect("no panic"), "b: hello");

    running.stop().await;
    assert!(!folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}

#[tokio::test]
async fn all_clusters_are_followed_as_they_come_and_go() {
    let management = Management::start().await;
    management.pod("a", "Running").await;
    let file = management.folder().join("config");
    std::fs::write(&file, "current-context: mine\n").expect("written");
    let running = start(&management, &["--all", &format!("--merge={}", file.display())]);
    let contexts = || -> Vec<String> {
        let config = kube::config::Kubeconfig::read_from(&file).expect("a kubeconfig");
        config.contexts.into_iter().map(|context| context.name).collect()
    };
    management.cluster("one").await;
    management.cluster("two").await;
    eventually("two contexts", || (contexts().len() == 2).then_some(())).await;
    management.delete_cluster("one").await;
    eventually("one context", || (contexts() == ["default-two"]).then_some(())).await;
    running.stop().await;
    assert_eq!(contexts(), [""; 0]);
    assert!(
        std::fs::read_to_string(&file)
            .expect("a file")
            .contains("current-context: mine")
    );
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let management = Management::start().await;
    let (exit, message) = failure(&management, &["demo"]).await;
    assert_eq!(
        (exit, message.contains("no running pod of Nephele's manager")),
        (Exit::NotFound, true),
        "{message}"
    );

    management.pod("a", "Running").await;
    let (exit, message) = failure(&management, &["team/demo"]).await;
    assert_eq!(
        (exit, message.contains("no cluster team/demo")),
        (Exit::NotFound, true),
        "{message}"
    );

    management.cluster("demo").await;
    management.forbid();
    let folder = management.folder().display().to_string();
    let (exit, message) = failure(&management, &["demo", "--folder", &folder]).await;
    assert_eq!(
        (exit, message.contains("create pods/portforward")),
        (Exit::Forbidden, true),
        "{message}"
    );

    management.stop();
    let (exit, message) = failure(&management, &["demo"]).await;
    assert_eq!(
        (exit, message.contains("does not answer")),
        (Exit::Unreachable, true),
        "{message}"
    );
}

#[tokio::test]
async fn cluster_without_endpoint_is_waited_for() {
    let management = Management::start().await;
    management.pod("a", "Running").await;
    management.serve("a").await;
    management.create_cluster("demo", &json!({})).await;
    let folder = management.folder().join("kubeconfigs");
    let running = start(&management, &["demo", "--folder", &folder.display().to_string()]);
    eventually("a folder", || folder.exists().then_some(())).await;
    management.delete_cluster("demo").await;
    management.cluster("demo").await;
    let port = port(&folder.join("default-demo.kubeconfig")).await;
    assert_eq!(Line::open(port).await.ask("hello").await, "a: hello");
    running.stop().await;
}
