//! `cargo xtask upstream`: Cluster API's own end-to-end specifications with our providers, on a cluster with a node or in
//! `nephele up --cluster-api`, and with Cluster API's in-memory provider.
//!
//! ```text
//!  test data of their module ─▶ flavors in kinds of the provider ─▶ repository ┐
//!  e2e/upstream ─▶ suite ──────────────────────────────────────────────────────┴▶ specifications ─▶ table
//! ```
//!
//! Their module is read where Go keeps it, and nothing of it is copied into the repository.

mod flavors;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use jiff::{Zoned, civil::Date};
use serde::Deserialize;
use serde_json::json;

use self::flavors::Provider;
use crate::{
    cluster::{self, Cluster, Layout, Peer, Repository},
    command::{capture, show},
    figures::{self, Figures, Place, Ran, Specification},
    files::{self, write},
    paths,
    provider::{self, Profile},
    release,
    target::Target,
    up::Up,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Where to run them, and with which provider; repeatable.
    #[arg(long, value_enum, value_name = "PLACE", default_value = "node")]
    on: Vec<Place>,
    /// Run only specifications whose names match this expression.
    filter: Option<String>,
}

/// The suite, within the repository.
const SUITE: &str = "e2e/upstream";
/// The flavors, within their module.
const FLAVORS: &str = "e2e/data/infrastructure-docker/main";
/// The namespace of the test extension.
const EXTENSION: &str = "nephele-runtime-extension-system";
/// The feature gates of Cluster API's core that specifications need and are off by default.
const GATES: [&str; 3] = ["RuntimeSDK", "InPlaceUpdates", "MachineTaintPropagation"];

/// The same for `nephele up --cluster-api`, as variables of Cluster API's components.
const GATES_OF_UP: [(&str, &str); 2] = [
    ("EXP_MACHINE_TAINT_PROPAGATION", "true"),
    ("EXP_IN_PLACE_UPDATES", "true"),
];

/// Why specifications fail that are known to: most need what a simulated cloud does not have.
const WHY: [(&str, &str); 2] = [
    (
        "control-plane-remediation",
        "its machines run a script before kubeadm, which waits for a ConfigMap of the management cluster; simulated machines run nothing",
    ),
    (
        "node-drain",
        "it waits for pods of Deployments; no pods run in simulated clusters",
    ),
];

/// The same for the in-memory provider.
const WHY_PEER: [(&str, &str); 2] = [
    (
        "infrastructure-adoption",
        "its machines have no addresses in their status",
    ),
    (
        "machine-deployment-remediation",
        "a Node of its workload cluster cannot be patched",
    ),
];

/// The report of a suite (`types/types.go` of ginkgo).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Vec<Report>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    #[serde(default)]
    container_hierarchy_labels: Option<Vec<Vec<String>>>,
    leaf_node_type: String,
    state: String,
    /// How long it ran, in nanoseconds.
    run_time: u64,
    #[serde(default)]
    failure: Failure,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Failure {
    message: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let suite = suite()?;
    let places: BTreeSet<_> = args.on.iter().copied().collect();
    let specifications = |layout: &Layout, kubeconfig: &Path, place: Place| {
        lay_out(layout, place)?;
        specifications(layout, kubeconfig, place, &suite, args.filter.as_deref())
    };
    let mut passed = true;
    if places.contains(&Place::Up) {
        let programs = cluster::programs()?;
        let layout = Layout::of_programs()?;
        let repository = Repository::folder(&layout);
        release::lay_out(&repository, release::VERSION, nephele_components::IMAGE)?;
        let folder = paths::cache()?.join("upstream-up");
        let up = Up::start(
            &args.target.program(Profile::Dist)?,
            &programs,
            // A specification removes owners, and waits until nothing names them any more.
            &programs.control_plane,
            &folder,
            &GATES_OF_UP,
        )?;
        passed &= specifications(&layout, &up.kubeconfig, Place::Up)?;
    }
    if places.contains(&Place::Node) || places.contains(&Place::Peer) {
        args.target.work_beside(Profile::Dist, |cluster| {
            turn_on(cluster)?;
            let kubeconfig = cluster.layout.kubeconfig();
            if places.contains(&Place::Node) {
                passed &= specifications(&cluster.layout, &kubeconfig, Place::Node)?;
            }
            if places.contains(&Place::Peer) {
                passed &= cluster::beside(cluster, Peer::InMemory, |cluster| {
                    specifications(&cluster.layout, &kubeconfig, Place::Peer)
                })?;
            }
            Ok(())
        })?;
    }
    if !passed {
        bail!(
            "not all specifications passed; {} has more",
            artifacts(None)?.display()
        );
    }
    Ok(())
}

/// The folder of what specifications leave, of all places or of one.
fn artifacts(place: Option<Place>) -> anyhow::Result<PathBuf> {
    let all = paths::cache()?.join("upstream");
    Ok(match place {
        None => all,
        Some(Place::Node) => all.join("node"),
        Some(Place::Up) => all.join("up"),
        Some(Place::Peer) => all.join("peer"),
    })
}

/// Which specifications run in a place, as an expression of their labels. Those that are left out need the test extension as
/// a Service, machine pools, or pods.
fn labels(place: Place) -> &'static str {
    match place {
        Place::Node => "",
        Place::Up => "!extension && !pods",
        Place::Peer => "!pools && !pods",
    }
}

/// Builds the suite.
fn suite() -> anyhow::Result<PathBuf> {
    let program = paths::cache()?.join("tools/upstream.test");
    let mut go = Command::new("go");
    go.args(["test", "-tags", "e2e", "-c", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(paths::repository().join(SUITE));
    show(&mut go)?;
    Ok(program)
}

/// Puts their flavors, in the kinds of a provider, beside ours.
fn lay_out(layout: &Layout, place: Place) -> anyhow::Result<()> {
    let provider = match place {
        Place::Node | Place::Up => Provider::Ours,
        Place::Peer => Provider::Peer,
    };
    let module = cluster::sources(&paths::repository().join(SUITE), "sigs.k8s.io/cluster-api/test")?;
    let to = Repository::folder(layout)
        .join(release::LABEL)
        .join(release::VERSION);
    let from = module.join(FLAVORS);
    for name in files::names(&from)? {
        let place = from.join(&name);
        let is_template = name.starts_with("cluster-template") || name.starts_with("clusterclass-");
        let text = match (is_template, place.is_dir()) {
            (false, _) => continue,
            (true, true) => rendered(layout, &place)?,
            (true, false) => files::read(&place)?,
        };
        let text =
            flavors::translated(&text, provider).with_context(|| format!("failed to translate {name}"))?;
        write(&to.join(format!("{}.yaml", name.trim_end_matches(".yaml"))), text)?;
    }
    Ok(())
}

/// What a folder renders; of one without a kustomization, what its folders render, in their order.
fn rendered(layout: &Layout, folder: &Path) -> anyhow::Result<String> {
    if !folder.join("kustomization.yaml").exists() {
        let steps = files::names(folder)?;
        let steps = steps.iter().map(|step| rendered(layout, &folder.join(step)));
        return Ok(steps.collect::<anyhow::Result<Vec<_>>>()?.join("---\n"));
    }
    let mut kubectl = Command::new(layout.at("bin/kubectl"));
    // A flavor takes files of a folder beside it.
    kubectl.args(["kustomize", "--load-restrictor=LoadRestrictionsNone"]);
    capture(kubectl.arg(folder))
}

/// Turns on the feature gates, and installs the test extension.
fn turn_on(cluster: &Cluster) -> anyhow::Result<()> {
    for (namespace, name) in [
        ("capi-system", "capi-controller-manager"),
        (
            "capi-kubeadm-bootstrap-system",
            "capi-kubeadm-bootstrap-controller-manager",
        ),
        (
            "capi-kubeadm-control-plane-system",
            "capi-kubeadm-control-plane-controller-manager",
        ),
    ] {
        let found = cluster.kubectl.items(&["deployments", "-n", namespace, name])?;
        let args = found[0]["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
        let args: Vec<_> = (args.context("a manager without arguments")?.iter())
            .filter_map(|arg| arg.as_str())
            .map(|arg| {
                GATES.iter().fold(arg.to_owned(), |arg, gate| {
                    arg.replace(&format!("{gate}=false"), &format!("{gate}=true"))
                })
            })
            .collect();
        let patch =
            json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]);
        cluster.kubectl.run(&[
            "patch",
            "deployment",
            "-n",
            namespace,
            name,
            "--type=json",
            "-p",
            &patch.to_string(),
        ])?;
        cluster
            .kubectl
            .wait_for_deployments(Some(namespace), provider::AVAILABLE_LIMIT)?;
    }
    if !cluster::is_installed(&cluster.kubectl, release::RUNTIME_EXTENSION_LABEL) {
        let init = ["init", "--runtime-extension", "nephele"];
        cluster::clusterctl(&cluster.layout, cluster.tools.program("clusterctl"), &init)?;
    }
    cluster
        .kubectl
        .wait_for_deployments(Some(EXTENSION), provider::AVAILABLE_LIMIT)?;
    // Each specification registers the extension for its own namespaces, with a certificate authority in a Secret that is
    // named after the Service.
    let registered = ["delete", "extensionconfig", "nephele", "--ignore-not-found"];
    cluster.kubectl.run(&registered)?;
    let secret = [
        "secrets",
        "-n",
        EXTENSION,
        "nephele-runtime-extension-certificate",
    ];
    let secret = cluster.kubectl.items(&secret)?;
    let copy = json!({
        "apiVersion": "v1", "kind": "Secret", "type": secret[0]["type"], "data": secret[0]["data"],
        "metadata": {"name": "nephele-runtime-extension-service-cert", "namespace": EXTENSION},
    });
    cluster.kubectl.apply(&copy.to_string())
}

/// Runs the specifications, prints a table, and says whether all passed.
fn specifications(
    layout: &Layout,
    kubeconfig: &Path,
    place: Place,
    suite: &Path,
    filter: Option<&str>,
) -> anyhow::Result<bool> {
    let artifacts = artifacts(Some(place))?;
    if artifacts.exists() {
        fs::remove_dir_all(&artifacts).context("failed to remove the artifacts of an earlier run")?;
    }
    fs::create_dir_all(&artifacts).context("failed to create the folder of artifacts")?;
    let report = artifacts.join("report.json");
    let provider = release::LABEL.trim_start_matches("infrastructure-");
    let mut command = Command::new(suite);
    command
        .args(["-test.timeout=0", "-ginkgo.timeout=4h", "-ginkgo.silence-skips"])
        .arg(format!("-ginkgo.json-report={}", report.display()))
        .arg(format!("-ginkgo.label-filter={}", labels(place)))
        .env("KUBECONFIG", kubeconfig)
        .env("UPSTREAM_CLUSTERCTL_CONFIG", Repository::config_file(layout))
        .env("UPSTREAM_PROVIDER", format!("{provider}:{}", release::VERSION))
        .env("UPSTREAM_ARTIFACTS", &artifacts)
        .envs(flavors::VARIABLES)
        .current_dir(&artifacts);
    if place == Place::Peer {
        command.env("UPSTREAM_PEER", "true");
    }
    if let Some(filter) = filter {
        command.arg(format!("-ginkgo.focus={filter}"));
    }
    let log = fs::File::create(artifacts.join("log")).context("failed to create the log")?;
    let errors = log.try_clone().context("failed to share the log")?;
    let status = command
        .stdout(log)
        .stderr(errors)
        .status()
        .context("failed to run the suite")?;
    let text = files::read(&report).context("the suite left no report")?;
    let suites: Vec<Suite> = serde_json::from_str(&text).context("failed to read the report")?;
    let found = found(&suites, place, Zoned::now().date());
    print(place, &found);
    let mut figures = Figures::read()?;
    for (name, (function, ran)) in found {
        let specification = figures.upstream.entry(name).or_insert_with(|| Specification {
            function,
            ran: BTreeMap::new(),
        });
        specification.ran.insert(place, ran);
    }
    figures.write()?;
    figures::fill_tables()?;
    Ok(status.success())
}

/// The functions of the specifications that ran, and what they have found, by name.
fn found(suites: &[Suite], place: Place, date: Date) -> BTreeMap<String, (String, Ran)> {
    let reports = suites.iter().flat_map(|suite| &suite.spec_reports);
    // One that was interrupted has found nothing.
    let is_over = |state: &str| ["passed", "failed", "panicked", "timedout"].contains(&state);
    let ran = reports.filter(|report| report.leaf_node_type == "It" && is_over(&report.state));
    ran.filter_map(|report| {
        let name = report.container_hierarchy_texts.as_deref()?.first()?;
        let function = report.container_hierarchy_labels.as_deref()?.first()?.first()?;
        let ran = Ran {
            date,
            seconds: report.run_time / 1_000_000_000,
            failure: (report.state != "passed").then(|| reason(place, name, &report.failure.message)),
        };
        Some((name.clone(), (function.clone(), ran)))
    })
    .collect()
}

/// Why a specification failed: the known reason, or the first lines of its message.
fn reason(place: Place, name: &str, message: &str) -> String {
    let known = match place {
        Place::Node | Place::Up => WHY,
        Place::Peer => WHY_PEER,
    };
    if let Some((_, why)) = known.iter().find(|(known, _)| *known == name) {
        return (*why).to_owned();
    }
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(2).collect::<Vec<_>>().join(" ").replace('|', "/")
}

fn print(place: Place, found: &BTreeMap<String, (String, Ran)>) {
    println!("\n| Specification ({place:?}) | |\n|---|---|");
    for (name, (_, ran)) in found {
        println!("| {name} | {ran} |");
    }
}
