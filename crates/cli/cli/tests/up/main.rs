//! `nephele up --json` as another program uses it: start the process, read one line, use the kubeconfigs, close
//! standard input.

mod action;
mod page;
mod scenarios;
mod seed;

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
    runtime::{WatchStreamExt as _, wait::await_condition, watcher},
};
use nephele_api::core::Cluster;
use serde_json::{Value, json};
use tokio::time::timeout;

/// Far more than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `nephele up`. Its standard input is closed when it is dropped, so it never outlives the test.
struct Up {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Up {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(32, arguments)
    }

    /// The same with another soft limit of open files, which the process raises.
    fn start_with(open_files: u32, arguments: &[&str]) -> Self {
        let command = format!("ulimit -Sn {open_files}; exec \"$0\" up --json \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &command, env!("CARGO_BIN_EXE_nephele")])
            .args(arguments)
            .env_remove("RUST_LOG")
            // No server of it is behind a proxy.
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .env("NO_PROXY", "management.example")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdout }
    }

    /// The line of JSON. The process has a time limit of its own, so this returns.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}; {}", self.errors()))
    }

    /// What the process wrote to standard error until its end.
    fn errors(&mut self) -> String {
        drop(self.child.stdin.take());
        let mut errors = String::new();
        let stderr = self.child.stderr.take();
        stderr.expect("piped").read_to_string(&mut errors).expect("text");
        errors
    }

    /// Closes standard input. Returns how the process ended, and what else it printed.
    fn end(mut self) -> (ExitStatus, String) {
        drop(self.child.stdin.take());
        self.wait()
    }

    /// Waits until the process ends. Returns how, and what else it printed.
    fn wait(&mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("ours to wait for") {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        (status, rest)
    }
}

fn file(name: &str) -> String {
    let path = Path::new("tests/up").join(name);
    path.to_str().expect("text").to_owned()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

async fn client(kubeconfig: &str) -> Client {
    // An error means that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("usable")).expect("a client")
}

/// Waits until a cluster has this number of ready Nodes.
async fn nodes(client: &Client, wanted: usize) {
    let is_ready = |node: &Node| {
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref());
        conditions.is_some_and(|list| {
            list.iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        })
    };
    let (store, writer) = kube::runtime::reflector::store::<Node>();
    let events = watcher(Api::<Node>::all(client.clone()), watcher::Config::default());
    let mut changes = events.default_backoff().reflect(writer).boxed();
    let seen = async {
        while changes.try_next().await.expect("a watch").is_some() {
            if store.state().iter().filter(|node| is_ready(node)).count() == wanted {
                return;
            }
        }
    };
    let names = || {
        store
            .state()
            .iter()
            .map(|node| node.name_any())
            .collect::<Vec<_>>()
    };
    assert!(
        timeout(PATIENCE, seen).await.is_ok(),
        "not {wanted} ready Nodes: {:?}",
        names()
    );
}

/// Waits until an object of the cluster `large` has a field in the version `v1beta1`.
async fn older_has(client: &Client, group: &str, kind: &str, field: &str, wanted: &Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta1", kind));
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), "team", &resource);
    let of_cluster = ListParams::default().labels("cluster.x-k8s.io/cluster-name=large");
    let listed = api.list(&of_cluster).await.expect("listed").items;
    let name = listed.first().unwrap_or_else(|| panic!("no {kind}")).name_any();
    let has = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data.pointer(field) == Some(wanted))
    };
    let seen = timeout(PATIENCE, await_condition(api, &name, has)).await;
    assert!(
        seen.is_ok_and(|seen| seen.is_ok()),
        "{kind} has not {field} {wanted}: {listed:?}"
    );
}

/// Waits until a file is there, or gone.
async fn file_exists(path: &Path, wanted: bool) {
    let started = Instant::now();
    while path.exists() != wanted {
        assert!(
            started.elapsed() < PATIENCE,
            "{} exists: {}",
            path.display(),
            !wanted
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_of_a_file_come_up_follow_their_topology_and_end_with_standard_input() {
    let mut up = Up::start(&["-f", &file("two-clusters.yaml"), "--port-range", "28000-28099"]);
    let line = up.line();
    let folder = PathBuf::from(text(&line, "/folder"));
    assert!(
        folder.is_dir() && text(&line, "/journal").starts_with(text(&line, "/folder")),
        "{line}"
    );
    let names = [
        text(&line, "/clusters/0/name"),
        text(&line, "/clusters/1/namespace"),
    ];
    assert_eq!(names, ["small", "team"]);

    let small = client(text(&line, "/clusters/0/kubeconfig")).await;
    let listed = Api::<Node>::all(small.clone())
        .list(&ListParams::default())
        .await
        .expect("Nodes");
    assert_eq!(listed.items.len(), 2);
    nodes(&client(text(&line, "/clusters/1/kubeconfig")).await, 6).await;

    let shown = Command::new(env!("CARGO_BIN_EXE_nephele"))
        .args([
            "journal",
            "show",
            text(&line, "/journal"),
            "--cluster",
            "small",
            "--operation",
            "CreateInstance",
        ])
        .output()
        .expect("it runs");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert_eq!(shown.matches("CreateInstance by machine\n").count(), 2, "{shown}");

    // Clients of the older version find its fields.
    let management = client(text(&line, "/management/kubeconfig")).await;
    for (group, kind, field, wanted) in [
        (
            "cluster.x-k8s.io",
            "Cluster",
            "/spec/topology/class",
            json!("in-memory"),
        ),
        (
            "cluster.x-k8s.io",
            "Cluster",
            "/status/infrastructureReady",
            json!(true),
        ),
        (
            "cluster.x-k8s.io",
            "Cluster",
            "/status/controlPlaneReady",
            json!(true),
        ),
        (
            "cluster.x-k8s.io",
            "MachineHealthCheck",
            "/spec/maxUnhealthy",
            json!("40%"),
        ),
        (
            "cluster.x-k8s.io",
            "MachineHealthCheck",
            "/spec/nodeStartupTimeout",
            json!("10m0s"),
        ),
        (
            "controlplane.cluster.x-k8s.io",
            "KubeadmControlPlane",
            "/status/readyReplicas",
            json!(3),
        ),
        (
            "controlplane.cluster.x-k8s.io",
            "KubeadmControlPlane",
            "/status/initialized",
            json!(true),
        ),
        (
            "cluster.x-k8s.io",
            "MachineDeployment",
            "/status/updatedReplicas",
            json!(2),
        ),
        (
            "cluster.x-k8s.io",
            "MachineSet",
            "/status/fullyLabeledReplicas",
            json!(2),
        ),
        (
            "cluster.x-k8s.io",
            "Machine",
            "/status/nodeRef/kind",
            json!("Node"),
        ),
        (
            "cluster.x-k8s.io",
            "MachinePool",
            "/spec/template/spec/infrastructureRef/apiVersion",
            json!("infrastructure.cluster.x-k8s.io/v1beta2"),
        ),
        (
            "infrastructure.cluster.x-k8s.io",
            "InMemoryCluster",
            "/status/ready",
            json!(true),
        ),
    ] {
        older_has(&management, group, kind, field, &wanted).await;
    }

    // A user scales the cluster.
    let clusters = Api::<Cluster>::namespaced(management.clone(), "default");
    let workers =
        json!({"machineDeployments": [{"class": "default-worker", "name": "workers", "replicas": 2}]});
    let patch = json!({"spec": {"topology": {"workers": workers}}});
    clusters
        .patch("small", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .expect("patched");
    nodes(&small, 3).await;

    // A cluster that is created later gets a file, until it is deleted.
    let later: Cluster =
        serde_json::from_value(json!({"metadata": {"name": "later"}, "spec": {}})).expect("a Cluster");
    clusters
        .create(&Default::default(), &later)
        .await
        .expect("created");
    let topology = json!({"spec": {"topology": {"classRef": {"name": "in-memory"}, "version": "v1.35.0"}}});
    clusters
        .patch("later", &PatchParams::default(), &Patch::Merge(&topology))
        .await
        .expect("patched");
    let kubeconfig = folder.join("default-later.kubeconfig");
    file_exists(&kubeconfig, true).await;
    nodes(&client(kubeconfig.to_str().expect("text")).await, 1).await;
    clusters
        .delete("later", &Default::default())
        .await
        .expect("deleted");
    file_exists(&kubeconfig, false).await;

    let (status, rest) = up.end();
    assert!(status.success() && rest.is_empty(), "{status}: {rest}");
    assert!(!folder.exists());
}

/// Clusters without machines, and connections to them and to the management API: each server has places for as many that have
/// not said yet who they are. A soft limit of 1,024 is that of a service under systemd and of a container.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_has_more_open_files_than_the_usual_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    const USUAL: usize = 1024;
    const CLUSTERS: u16 = 12;
    let limit = getrlimit(Resource::Nofile);
    let enough = 4 * USUAL as u64;
    assert!(
        limit.maximum.is_none_or(|most| most >= enough),
        "this test needs {enough} open files"
    );
    // This end of the connections.
    let raised = Rlimit {
        current: Some(enough),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("below the maximum");

    let mut up = Up::start_with(1024, &["--port-range", "28600-28699"]);
    let line = up.line();
    let client = client(text(&line, "/management/kubeconfig")).await;
    let clusters = Api::<Cluster>::namespaced(client.clone(), "default");
    for number in 0..CLUSTERS {
        let name = format!("c{number}");
        let cluster = json!({"metadata": {"name": name}, "spec": {}});
        let cluster = serde_json::from_value(cluster).expect("a Cluster");
        clusters
            .create(&Default::default(), &cluster)
            .await
            .expect("created");
        let topology =
            json!({"classRef": {"name": "in-memory"}, "version": "v1.36.3", "controlPlane": {"replicas": 0}});
        let patch = json!({"spec": {"topology": topology}});
        clusters
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .expect("patched");
    }
    let server = text(&line, "/management/server");
    let (_, management) = server.rsplit_once(':').expect("a port");
    // All listen before the first connection that counts, because a server waits some seconds for what a client says.
    let ports = 28600..28600 + CLUSTERS;
    for port in ports.clone() {
        drop(connected(port).await);
    }
    let places = ports
        .map(|port| (port, 64))
        .chain([(management.parse().expect("a port"), 256)]);
    let mut open = Vec::new();
    for (port, count) in places {
        for _ in 0..count {
            open.push(connected(port).await);
        }
    }
    let files = format!("/proc/{}/fd", up.child.id());
    let started = Instant::now();
    loop {
        let count = std::fs::read_dir(&files).expect("it runs").count();
        if count > USUAL {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{count} open files");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(open);
    let (status, _) = up.end();
    assert!(status.success(), "{status}");
}

/// A connection to a port on which a server listens, or soon will.
#[cfg(target_os = "linux")]
async fn connected(port: u16) -> tokio::net::TcpStream {
    let started = Instant::now();
    loop {
        match tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
            Ok(stream) => return stream,
            Err(error) => assert!(started.elapsed() < PATIENCE, "{port}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn another_run_can_attach_to_the_management_api_of_a_first_one() {
    let mut first = Up::start(&["--port-range", "28100-28199"]);
    let line = first.line();
    assert_eq!(line["clusters"], json!([]));
    let kubeconfig = text(&line, "/management/kubeconfig");
    let mut second = Up::start(&["--attach", kubeconfig, "--port-range", "28200-28299"]);
    let attached = second.line();
    assert_eq!(attached["management"], line["management"]);
    assert_ne!(attached["folder"], line["folder"]);
    for (up, name) in [(second, "the second"), (first, "the first")] {
        let (status, _) = up.end();
        assert!(status.success(), "{name}: {status}");
    }
}

/// A suite pays for its clusters once: what is in them is there again, behind the same endpoints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_begins_with_the_clusters_that_another_one_saved() {
    const PORTS: &str = "28700-28709";
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("saved.json");
    let mut first = Up::start(&[
        "-f",
        &file("two-clusters.yaml"),
        "--port-range",
        PORTS,
        "--save",
        path(&saved),
    ]);
    let made = first.line();
    let nodes_of = async |report: &Value| {
        let client = client(text(report, "/clusters/0/kubeconfig")).await;
        let listed = Api::<Node>::all(client).list(&ListParams::default()).await;
        let mut names: Vec<_> = listed.expect("listed").iter().map(Node::name_any).collect();
        names.sort();
        names
    };
    let nodes = nodes_of(&made).await;
    assert!(first.end().0.success());
    let mut second = Up::start(&["--port-range", PORTS, "--from", path(&saved)]);
    let restored = second.line();
    for field in ["/clusters/0/namespace", "/clusters/0/name", "/clusters/0/server"] {
        assert_eq!(text(&restored, field), text(&made, field));
    }
    assert!(!nodes.is_empty());
    assert_eq!(nodes_of(&restored).await, nodes);
    assert!(second.end().0.success());
    let mut third = Up::start(&["--from", path(&folder.path().join("gone.json"))]);
    assert!(!third.wait().0.success());
    assert!(third.errors().contains("failed to read"));
}

/// A script that prepares clusters needs no signal to end the run.
#[test]
fn a_run_that_is_to_end_at_once_saves_its_clusters_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("saved.json");
    let output = Command::new(env!("CARGO_BIN_EXE_nephele"))
        .args([
            "up",
            "--once",
            "-f",
            &file("two-clusters.yaml"),
            "--port-range",
            "28710-28719",
        ])
        .args(["--save", path(&saved)])
        .stdin(Stdio::null())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    let (took, saving) = said.split_once(" s. ").expect("two sentences");
    assert!(
        output.status.success() && took.starts_with("Everything is up after "),
        "{output:?}"
    );
    assert_eq!(saving, format!("The clusters are saved in {}.\n", path(&saved)));
    assert!(saved.exists());
}

#[test]
fn standard_input_that_ends_before_the_report_is_an_error_that_names_it() {
    let mut up = Up::start(&["-f", &file("two-clusters.yaml"), "--port-range", "28400-28499"]);
    let errors = up.errors();
    let (status, stdout) = up.wait();
    assert!(
        status.code() == Some(1) && stdout.is_empty(),
        "{status}: {stdout}"
    );
    assert!(
        errors.contains("standard input has ended") && errors.contains("leave out --json"),
        "{errors}"
    );
}

#[test]
fn mistakes_in_files_end_the_process_with_an_error_that_names_them() {
    let folder = std::env::temp_dir().join(format!("nephele-up-mistakes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mistake = folder.join("mistake.yaml");
    let kept = folder.join("kept");
    let arguments = [
        "-f",
        path(&mistake),
        "--folder",
        path(&kept),
        "--port-range",
        "28300-28399",
    ];
    let object =
        |kind: &str, spec: &str| format!("apiVersion: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n");
    let cluster = |topology: &str| {
        object(
            "cluster.x-k8s.io/v1beta2\nkind: Cluster",
            &format!("{{topology: {topology}}}"),
        )
    };
    let pool = object("ipam.cluster.x-k8s.io/v1alpha2\nkind: InClusterIPPool", "{}");
    for (content, expected) in [
        (
            object("example.com/v1\nkind: Thing", "{}"),
            "failed to create Thing a (document 1 of ",
        ),
        (
            format!("{pool}---\n{pool}"),
            "failed to create InClusterIPPool a (document 2 of ",
        ),
        (
            cluster("{classRef: {name: x}, version: latest}"),
            "\"latest\" is not a version such as v1.36.3",
        ),
        (
            cluster("{classRef: {name: x}, version: v1.36.3, controlPlane: {replicas: -1}}"),
            "replicas is -1",
        ),
        ("a: [".to_owned(), "failed to read document 1 of "),
    ] {
        std::fs::write(&mistake, content).expect("written");
        let mut up = Up::start(&arguments);
        let (status, stdout) = up.wait();
        let errors = up.errors();
        assert!(
            errors.contains(expected) && stdout.is_empty(),
            "{expected}: {errors}{stdout}"
        );
        assert!(!status.success(), "{expected}");
    }
    std::fs::remove_dir_all(folder).expect("ours to remove");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}
