//! `nephele scenario` against a real `nephele up`: what the library says runs there, and the rest is refused before anything is
//! created.

use std::{
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams},
};
use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario},
    core::{Cluster, Machine},
};
use nephele_scenario_library::{self as library, Entry, Needs};

use super::{PATIENCE, Up, client, path, text};

/// Each scenario waits for its cluster, and runs beside all others.
const LIMIT: &str = "3m";

/// A command that has ended.
struct Ended {
    code: Option<i32>,
    text: String,
    took: Duration,
}

/// Runs `nephele scenario` to its end.
fn scenario(kubeconfig: &str, arguments: &[&str]) -> Ended {
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_nephele"))
        .arg("scenario")
        .args(arguments)
        .args(["--kubeconfig", kubeconfig])
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .expect("it runs");
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let text = [stdout, stderr].concat();
    Ended {
        code: status.code(),
        text: String::from_utf8(text).expect("text"),
        took: started.elapsed(),
    }
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api = Api::<Namespace>::all(client.clone());
    api.create(&PostParams::default(), &namespace)
        .await
        .expect("created");
}

/// The numbers of control plane machines and of workers in a namespace.
async fn machines(client: &Client, namespace: &str) -> (usize, usize) {
    let api = Api::<Machine>::namespaced(client.clone(), namespace);
    let count = async |selector: &str| {
        let of = ListParams::default().labels(selector);
        api.list(&of).await.expect("listed").items.len()
    };
    let label = "cluster.x-k8s.io/control-plane";
    (count(label).await, count(&format!("!{label}")).await)
}

async fn check(client: &Client, entry: &Entry, ended: &Ended) {
    let Ended { code, text, took: _ } = ended;
    let name = entry.name;
    match &entry.needs {
        Needs::Up => {
            assert!(
                *code == Some(0) && text.ends_with("has passed\n"),
                "{name}: {text}"
            );
            let after = entry.about.after;
            let expected = (after.control_plane as usize, after.workers as usize);
            assert_eq!(
                machines(client, name).await,
                expected,
                "{name} leaves other machines"
            );
        }
        Needs::ClusterApi(needed) => {
            assert_eq!(*code, Some(1), "{name}: {text}");
            assert!(
                text.contains(needed) && text.contains("nephele up --cluster-api="),
                "{text}"
            );
            let clusters = Api::<Cluster>::namespaced(client.clone(), name);
            let scenarios = Api::<Scenario>::namespaced(client.clone(), name);
            let clusters = clusters.list(&ListParams::default()).await.expect("listed");
            let scenarios = scenarios.list(&ListParams::default()).await.expect("listed");
            assert!(
                clusters.items.is_empty() && scenarios.items.is_empty(),
                "{name} left something"
            );
        }
    }
}

/// Each in a namespace of its own, at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_the_library_run_on_up_or_say_that_they_need_cluster_api() {
    let mut up = Up::start_with(1024, &["--port-range", "28800-28899"]);
    let line = up.line();
    let kubeconfig = text(&line, "/management/kubeconfig");
    let client = client(kubeconfig).await;
    let entries = library::all().expect("readable");
    for entry in &entries {
        create_namespace(&client, entry.name).await;
    }
    let run = |entry: &Entry| {
        let arguments = [
            "run",
            entry.name,
            "--make-cluster",
            "-n",
            entry.name,
            "--timeout",
            LIMIT,
        ];
        scenario(kubeconfig, &arguments)
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = entries
            .iter()
            .map(|entry| scope.spawn(move || run(entry)))
            .collect();
        running
            .into_iter()
            .map(|run| run.join().expect("no panic"))
            .collect()
    });
    for (entry, ended) in entries.iter().zip(&ended) {
        println!("{} took {:.1?}, with its cluster", entry.name, ended.took);
        check(&client, entry, ended).await;
    }
    let (status, _) = up.end();
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scenario_checks_its_needs_and_is_stopped_and_run_again() {
    let mut up = Up::start(&["--port-range", "28900-28949"]);
    let line = up.line();
    let kubeconfig = text(&line, "/management/kubeconfig");
    let client = client(kubeconfig).await;

    let refused = scenario(kubeconfig, &["run", "quota"]);
    assert_eq!(refused.code, Some(1));
    for expected in [
        "there is no Cluster demo in namespace default",
        "nephele scenario run quota --make-cluster -n default",
    ] {
        assert!(refused.text.contains(expected), "{}", refused.text);
    }
    let nowhere = scenario(kubeconfig, &["run", "quota", "--make-cluster", "-n", "nowhere"]);
    assert_eq!(nowhere.code, Some(3), "{}", nowhere.text);
    assert!(
        nowhere.text.contains("kubectl create namespace nowhere"),
        "{}",
        nowhere.text
    );

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("long.yaml");
    let long = "apiVersion: cloud.nephele.dev/v1alpha1\nkind: Scenario\nmetadata: {name: long}\nspec:\n  steps:\n  \
                - fault: {name: any, spec: {effect: {freeze: {}}}}\n  - pause: 1h\n";
    std::fs::write(&file, long).expect("written");
    let early = scenario(kubeconfig, &["run", path(&file), "--timeout", "3s"]);
    assert!(early.text.contains("it continues"), "{}", early.text);
    let twice = scenario(kubeconfig, &["run", path(&file)]);
    assert!(
        twice.text.contains("nephele scenario rerun long"),
        "{}",
        twice.text
    );
    let faults = async || {
        let api = Api::<Fault>::namespaced(client.clone(), "default");
        api.list(&ListParams::default())
            .await
            .expect("listed")
            .items
            .len()
    };
    assert_eq!(faults().await, 1);
    let again = scenario(kubeconfig, &["rerun", "long", "--timeout", "3s"]);
    assert!(
        again.text.contains("default/long is created") && again.text.contains("it continues"),
        "{}",
        again.text
    );
    let stopped = scenario(kubeconfig, &["stop", "long"]);
    assert_eq!((stopped.code, faults().await), (Some(0), 0), "{}", stopped.text);
    assert_eq!(scenario(kubeconfig, &["stop", "long"]).code, Some(3));
    assert!(refused.took < PATIENCE);
    let (status, _) = up.end();
    assert!(status.success(), "{status}");
}
