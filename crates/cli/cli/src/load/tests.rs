//! The command against an embedded management API, with the manager and the stand-in or without them.

use std::time::Duration;

use clap::Parser;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, PostParams},
};
use nephele_api::core::{Cluster, Machine};
use nephele_controller::wall_clock;
use nephele_fake_capi::{Plan, PlannedClusters};
use serde_json::{Value, json};

use super::*;
use crate::embedded::{self, Folder, ManagerSettings, Tasks};

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    load: Args,
}

fn args(arguments: &[&str]) -> Result<Args, clap::Error> {
    Only::try_parse_from(["load"].iter().chain(arguments)).map(|only| only.load)
}

/// A management API of a test.
struct TestApi {
    client: Client,
    folder: Folder,
    kubeconfig: String,
    stop: CancellationToken,
}

impl TestApi {
    fn start(name: &str) -> Self {
        // An error means that there is a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let stop = CancellationToken::new();
        let management = embedded::Management::start(name, &wall_clock(), stop.clone()).expect("it starts");
        let folder = Folder::open(None, "nephele-load-test").expect("a folder");
        let kubeconfig = folder
            .write("kubeconfig", &management.kubeconfig)
            .expect("written");
        let kubeconfig = kubeconfig.to_str().expect("text").to_owned();
        Self {
            client: management.client,
            folder,
            kubeconfig,
            stop,
        }
    }

    fn args(&self, arguments: &[&str]) -> Args {
        let all: Vec<_> = ["--kubeconfig", &self.kubeconfig]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        args(&all).expect("valid")
    }

    /// The names of everything that a run creates and that Cluster API makes of it.
    async fn left(&self) -> Vec<String> {
        let params = ListParams::default();
        let clusters = Api::<Cluster>::all(self.client.clone())
            .list(&params)
            .await
            .expect("listed");
        let machines = Api::<Machine>::all(self.client.clone())
            .list(&params)
            .await
            .expect("listed");
        let mut names: Vec<_> = clusters.iter().map(kube::ResourceExt::name_any).collect();
        names.extend(machines.iter().map(kube::ResourceExt::name_any));
        for (group, kind) in [
            ("cluster.x-k8s.io", "ClusterClass"),
            ("infrastructure.cluster.x-k8s.io", "InMemoryMachineTemplate"),
            ("controlplane.cluster.x-k8s.io", "KubeadmControlPlaneTemplate"),
        ] {
            let kind = kube::api::GroupVersionKind::gvk(group, "v1beta2", kind);
            let (resource, _) = kube::discovery::pinned_kind(&self.client, &kind)
                .await
                .expect("served");
            let listed = Api::<DynamicObject>::all_with(self.client.clone(), &resource)
                .list(&params)
                .await;
            names.extend(listed.expect("listed").iter().map(kube::ResourceExt::name_any));
        }
        names
    }

    fn end(self) {
        self.stop.cancel();
        self.folder.discard().expect("removed");
    }
}

fn is_code(code: ExitCode, expected: u8) -> bool {
    format!("{code:?}") == format!("{:?}", ExitCode::from(expected))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_come_up_are_reported_and_leave_nothing() {
    let api = TestApi::start("load");
    let mut tasks = Tasks::new(api.stop.clone());
    let journal = api.folder.path("journal.jsonl");
    let settings = ManagerSettings {
        port_range: "28500-28599".to_owned(),
        journal,
        name: "load",
        seed: "load".to_owned(),
        webhooks: None,
        has_stand_in: true,
    };
    let _routes = tasks
        .add_manager(api.client.clone(), settings)
        .expect("it starts");
    tasks.add_standin(api.client.clone(), PlannedClusters::new(Plan::default()));
    let (report, page) = (api.folder.path("report.json"), api.folder.path("report.html"));
    let flags = [
        "--clusters",
        "5",
        "--workers",
        "2",
        "--time-limit",
        "90s",
        "--report",
    ];
    let flags = [
        &flags[..],
        &[
            report.to_str().expect("text"),
            "--report",
            page.to_str().expect("text"),
        ],
    ]
    .concat();
    let code = run(api.args(&flags), CancellationToken::new())
        .await
        .expect("a success");
    assert!(is_code(code, 0));

    let report: Value = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
    assert_eq!(report["outcome"]["available"], 5, "{report}");
    let steps: Vec<_> = report["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| (&step["name"], &step["count"]))
        .collect();
    let expected = [
        (&json!("infrastructure provisioned"), &json!(5)),
        (&json!("control plane initialized"), &json!(5)),
        (&json!("control plane available"), &json!(5)),
        (&json!("available"), &json!(5)),
        (&json!("running"), &json!(15)),
        (&json!("ready"), &json!(15)),
    ];
    assert_eq!(steps, expected);
    assert!(report["outcome"]["deletionSeconds"].is_number(), "{report}");
    assert!(std::fs::read_to_string(page).expect("a page").contains("<svg"));
    assert_eq!(api.left().await, [""; 0]);
    tasks.finish().await;
    api.end();
}

/// Nothing plays Cluster API here, so nothing comes up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_limit_leaves_nothing() {
    let api = TestApi::start("load-late");
    let late = run(
        api.args(&["--clusters", "3", "--time-limit", "1s"]),
        CancellationToken::new(),
    )
    .await;
    let message = format!("{:#}", late.expect_err("a failure"));
    let expected =
        "3 of 3 clusters are not available within 1s (--time-limit): load-001: Cluster API has not reported";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(api.left().await, [""; 0]);
    api.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interruption_leaves_nothing() {
    let api = TestApi::start("load-interrupted");
    let shutdown = CancellationToken::new();
    let interrupting = async {
        let clusters = Api::<Cluster>::namespaced(api.client.clone(), "default");
        while clusters.get_opt("load-0003").await.expect("read").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.cancel();
    };
    let (code, ()) = tokio::join!(
        run(api.args(&["--clusters", "1000"]), shutdown.clone()),
        interrupting
    );
    assert!(is_code(code.expect("an orderly end"), INTERRUPTED));
    assert_eq!(api.left().await, [""; 0]);
    api.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taken_names_are_refused_before_anything_is_created() {
    let api = TestApi::start("load-taken");
    let taken: Cluster =
        serde_json::from_value(json!({"metadata": {"name": "load-002"}, "spec": {}})).expect("a Cluster");
    let clusters = Api::<Cluster>::namespaced(api.client.clone(), "default");
    clusters
        .create(&PostParams::default(), &taken)
        .await
        .expect("created");
    let refused = run(api.args(&["--clusters", "3"]), CancellationToken::new())
        .await
        .expect_err("refused");
    assert!(
        refused
            .to_string()
            .contains("exist already in namespace default: load-002;"),
        "{refused}"
    );
    assert_eq!(api.left().await, ["load-002"]);
    api.end();
}

#[test]
fn mistakes_in_flags_are_refused() {
    for mistake in [
        &["--clusters", "0"][..],
        &["--clusters", "10001"],
        &[],
        &["--clusters", "1", "--name-prefix", "Load"],
        &["--clusters", "1", "--name-prefix", "a\"b"],
        &["--clusters", "1", "--kubernetes-version", "latest"],
        &["--clusters", "1", "--control-plane", "0"],
    ] {
        assert!(args(mistake).is_err(), "{mistake:?}");
    }
    let checked = |arguments: &[&str]| {
        args(arguments)
            .expect("valid")
            .checked("team", Timestamp::UNIX_EPOCH)
    };
    let error = checked(&["--clusters", "10000", "--workers", "10"])
        .expect_err("too many")
        .to_string();
    assert!(
        error.starts_with("110000 machines are more than 100000"),
        "{error}"
    );
    let error = checked(&["--clusters", "1", "--report", "r.txt"])
        .expect_err("unknown")
        .to_string();
    assert_eq!(error, "the report r.txt has neither the ending .json nor .html");
    let valid = checked(&[
        "--clusters",
        "2",
        "--kubernetes-version",
        "1.36.3",
        "--report",
        "a.json",
        "--report",
        "b.html",
    ]);
    let valid = valid.expect("valid");
    assert_eq!(valid.shape.kubernetes_version, "v1.36.3");
    assert_eq!(
        (valid.shape.namespace.as_str(), valid.shape.run.as_str()),
        ("team", "load-0")
    );
    let reports = [("a.json", Format::Json), ("b.html", Format::Html)];
    assert_eq!(
        valid.reports,
        reports.map(|(path, format)| (PathBuf::from(path), format))
    );
}
