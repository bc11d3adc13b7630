//! The leader changes in each way that it can, with Faults of every operation in force. Clients of the clusters see that no API
//! server answers for a moment, and nothing else.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use futures::future::try_join_all;
use nephele_e2e::{
    Cluster, Look, Scope, Shape, Workload,
    management::{Kind, Management, kinds},
    manager::{self, Provider::Infrastructure},
    state, until,
    wait::LIMIT,
};
use nephele_model::Verb;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::installed::{
    clusterctl::Releases,
    life::{address_of_leader, delete, init},
};

/// How many clusters are asked, if not the number in this variable.
const CLUSTERS: (usize, &str) = (20, "NEPHELE_CLUSTERS");
/// The name of the volume for the state, and of its claim.
const VOLUME: &str = "nephele-e2e-state";
/// The manager's user in its image.
const USER: u32 = 65532;
/// How often a cluster is asked.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How long a cluster may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// How long an API server may stay silent when another manager waits for the lease.
const HAND_OVER: Duration = Duration::from_secs(3);
/// How long an API server may stay silent once the next manager leads.
const TAKES_OVER: Duration = Duration::from_secs(2);
/// How long the next leader is watched.
const WATCHED: Duration = Duration::from_secs(15);
/// The deletion that the cloud refuses is tried again and again.
const TRIED_AGAIN: &str = "deleteinstance";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    PodDeleted,
    Killed,
    ScaledToZero,
    TwoReplicas,
    RolledOut,
}

impl Change {
    const ALL: [Self; 5] = [
        Self::PodDeleted,
        Self::Killed,
        Self::ScaledToZero,
        Self::TwoReplicas,
        Self::RolledOut,
    ];
}

#[tokio::test]
async fn a_change_of_leader_shows_nothing_whatever_faults_are_in_force() -> anyhow::Result<()> {
    let releases = Releases::from_environment()?;
    let management = Management::connect().await?;
    init(&releases).await?;
    let scope = Scope::on(management.clone(), "leaders").await?;
    let number = std::env::var(CLUSTERS.1).map_or(Ok(CLUSTERS.0), |number| number.parse())?;
    let names: Vec<_> = (0..number).map(|number| format!("led-{number}")).collect();
    let clusters = try_join_all(names.iter().map(|name| scope.plain(name, Shape::new(1, 1)))).await?;
    try_join_all(clusters.iter().map(|cluster| cluster.settled(1, 1))).await?;
    trouble(&scope).await?;
    refuse_deletion(&scope, clusters.first().context("there is a cluster")?).await?;

    let probers = try_join_all(clusters.iter().map(Prober::start)).await?;
    let report = changed(&scope, &clusters, &probers)
        .await
        .context("without a state directory")?;
    println!("{number} clusters without a state directory: {report:#?}");
    let folder = state_folder()?;
    keep_state(&scope, &folder).await?;
    let report = changed(&scope, &clusters, &probers)
        .await
        .context("with a state directory")?;
    println!("with one: {report:#?}");
    for prober in probers {
        prober.end().await?;
    }

    for name in scope.management.names(kinds::FAULT, &scope.namespace).await? {
        scope
            .management
            .delete(kinds::FAULT, &scope.namespace, &name)
            .await?;
    }
    scope
        .management
        .delete(kinds::SIMULATED_CLOUD, &scope.namespace, "default")
        .await?;
    scope.finish().await?;
    delete(&releases).await?;
    management.delete(kinds::PERSISTENT_VOLUME, "", VOLUME).await?;
    fs::remove_dir_all(&folder).context("failed to remove the folder for the state")
}

/// Changes the leader in each way. The clusters are available. Returns how long none of them answered.
async fn changed(scope: &Scope, clusters: &[Cluster], probers: &[Prober]) -> anyhow::Result<Vec<String>> {
    let mut report = Vec::new();
    for change in Change::ALL {
        let before = Facts::look(scope, clusters).await?;
        let begun = Instant::now();
        let leads = carry_out(scope, change)
            .await
            .with_context(|| format!("{change:?}"))?;
        tokio::time::sleep(WATCHED).await;
        let away = probers
            .iter()
            .map(|prober| prober.away_since(begun))
            .max()
            .unwrap_or_default();
        let allowed = if change == Change::TwoReplicas {
            HAND_OVER
        } else {
            leads + TAKES_OVER
        };
        report.push(format!(
            "{change:?}: no answer for {away:.1?}, allowed are {allowed:.1?}"
        ));
        let after = Facts::look(scope, clusters).await?;
        before
            .same(&after)
            .with_context(|| format!("{change:?}, {report:#?}"))?;
        ensure!(away <= allowed, "{report:#?}");
    }
    Ok(report)
}

/// A folder of the node, for the manager's user, which lasts longer than pods. The node is this machine.
fn state_folder() -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("nephele-e2e-state-{}", std::process::id()));
    fs::create_dir(&folder).context("failed to create the folder for the state")?;
    chown(&folder, Some(USER), Some(USER)).context("failed to give the folder away")?;
    Ok(folder)
}

/// Makes the manager keep its state in this folder.
async fn keep_state(scope: &Scope, folder: &Path) -> anyhow::Result<()> {
    let management = &scope.management;
    let namespace = Infrastructure.namespace();
    let name = Infrastructure.deployment();
    let leader = manager::leader(management, Infrastructure).await?;
    let deployment = management.get(kinds::DEPLOYMENT, namespace, name).await?;
    // A namespace that is restricted takes a folder of the node only as a claim.
    let size = json!({"storage": "1Gi"});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": VOLUME},
        "spec": {
            "accessModes": ["ReadWriteMany"], "capacity": size, "hostPath": {"path": folder},
            "claimRef": {"namespace": namespace, "name": VOLUME},
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": VOLUME},
        "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": VOLUME,
            "resources": {"requests": size},
        },
    });
    management.apply(namespace, &[volume, claim]).await?;
    let mut pod = deployment["spec"]["template"]["spec"].clone();
    add(
        &mut pod["containers"][0]["args"],
        "--state-dir=/var/lib/nephele".into(),
    );
    let mount = json!({"name": "state", "mountPath": "/var/lib/nephele"});
    add(&mut pod["containers"][0]["volumeMounts"], mount);
    add(
        &mut pod["volumes"],
        json!({"name": "state", "persistentVolumeClaim": {"claimName": VOLUME}}),
    );
    let patch = json!({"spec": {"template": {"spec": pod}}});
    management
        .patch(kinds::DEPLOYMENT, namespace, name, &patch)
        .await?;
    manager::another_leads(management, Infrastructure, &leader)
        .await
        .map(drop)
}

/// A SimulatedCloud with a rate and a lag, and a Fault for each operation.
async fn trouble(scope: &Scope) -> anyhow::Result<()> {
    let cloud = json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "SimulatedCloud", "metadata": {"name": "default"},
        "spec": {"api": {"rate": 50, "readAfterWriteLag": "30s"}},
    });
    let faults = Verb::ALL.map(|operation| {
        // No cluster is available whose load balancer cannot be read.
        let callers: &[&str] = if operation.is_read() {
            &["machinePool"]
        } else {
            &["cluster", "machine"]
        };
        json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "Fault",
            "metadata": {"name": operation.as_str().to_lowercase()},
            "spec": {
                "match": {"operations": [operation], "callers": callers},
                "effect": {"fail": {"reason": "Throttled"}},
            },
        })
    });
    let objects: Vec<_> = std::iter::once(cloud).chain(faults).collect();
    scope.management.apply(&scope.namespace, &objects).await?;
    until("the Faults to be active", LIMIT, async || {
        let faults = scope.management.list(kinds::FAULT, &scope.namespace, "").await?;
        let active = faults
            .iter()
            .filter(|fault| fault["status"]["phase"] == "Active")
            .count();
        Ok(Look::when(active == Verb::ALL.len(), || {
            format!("{active} are active")
        }))
    })
    .await?;
    // All are read at once when their cloud changes, and the rate refuses some of that.
    until("the load balancers to be read", LIMIT, async || {
        let clusters = scope
            .management
            .list(kinds::IN_MEMORY_CLUSTER, &scope.namespace, "")
            .await?;
        let unread = clusters
            .iter()
            .filter(|cluster| !state::is(cluster, "Ready", "True"))
            .count();
        Ok(Look::when(unread == 0, || format!("{unread} are not")))
    })
    .await
}

/// Adds a value to a list, which may be missing.
fn add(list: &mut Value, value: Value) {
    let mut values = list.as_array().cloned().unwrap_or_default();
    values.push(value);
    *list = values.into();
}

/// A worker is deleted, and the cloud refuses that.
async fn refuse_deletion(scope: &Scope, cluster: &Cluster) -> anyhow::Result<()> {
    cluster.scale_workers(0).await?;
    until("a deletion to be refused", LIMIT, async || {
        let fault = scope
            .management
            .get(kinds::FAULT, &scope.namespace, TRIED_AGAIN)
            .await?;
        Ok(Look::when(fault["status"]["hits"].as_i64() > Some(0), || {
            fault["status"].to_string()
        }))
    })
    .await
}

/// Changes the leader. Returns how long it took until the next one led.
async fn carry_out(scope: &Scope, change: Change) -> anyhow::Result<Duration> {
    let management = &scope.management;
    if change == Change::TwoReplicas {
        manager::scale(management, Infrastructure, 2).await?;
    }
    let leader = manager::leader(management, Infrastructure).await?;
    let begun = Instant::now();
    match change {
        Change::PodDeleted | Change::TwoReplicas => {
            management
                .delete(kinds::POD, Infrastructure.namespace(), &leader.pod)
                .await?;
            manager::another_leads(management, Infrastructure, &leader).await?;
        }
        Change::Killed => {
            manager::kill(leader.id)?;
            // The container keeps the name of its pod, by which it has the lease.
            until("the manager to be back", LIMIT, async || {
                let now = manager::leader(management, Infrastructure).await?;
                let answers = now.id != leader.id && is_ready(scope, &now.pod).await?;
                Ok(Look::when(answers, || format!("{now:?}")))
            })
            .await?;
        }
        Change::ScaledToZero => {
            let patch = json!({"spec": {"replicas": 0}});
            let namespace = Infrastructure.namespace();
            let name = Infrastructure.deployment();
            management
                .patch(kinds::DEPLOYMENT, namespace, name, &patch)
                .await?;
            until("the manager to be gone", LIMIT, async || {
                let left = manager::processes(Infrastructure)?;
                Ok(Look::when(left.is_empty(), || format!("{left:?}")))
            })
            .await?;
            manager::scale(management, Infrastructure, 1).await?;
        }
        Change::RolledOut => {
            // As with a new image, the next pod starts beside this one.
            let annotations = json!({"replaces": leader.pod});
            let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
            let namespace = Infrastructure.namespace();
            let name = Infrastructure.deployment();
            management
                .patch(kinds::DEPLOYMENT, namespace, name, &patch)
                .await?;
            manager::another_leads(management, Infrastructure, &leader).await?;
        }
    }
    let leads = begun.elapsed();
    if change == Change::TwoReplicas {
        manager::scale(management, Infrastructure, 1).await?;
    }
    Ok(leads)
}

async fn is_ready(scope: &Scope, pod: &str) -> anyhow::Result<bool> {
    let pod = scope
        .management
        .get(kinds::POD, Infrastructure.namespace(), pod)
        .await?;
    Ok(state::is(&pod, "Ready", "True"))
}

/// What a change of leader must not change.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    /// The conditions of our objects and the statuses of Faults, but for the one that is tried again.
    statuses: BTreeMap<String, Value>,
    /// The Clusters that are available.
    available: Vec<String>,
    /// How often the deletion was refused.
    refused: i64,
}

impl Facts {
    async fn look(scope: &Scope, clusters: &[Cluster]) -> anyhow::Result<Self> {
        let mut statuses = BTreeMap::new();
        for (kind, field) in [
            (kinds::IN_MEMORY_CLUSTER, "conditions"),
            (kinds::IN_MEMORY_MACHINE, "conditions"),
            (kinds::FAULT, "hits"),
        ] {
            for object in scope.management.list(kind, &scope.namespace, "").await? {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let key = format!("{} {name}", kind_name(kind));
                statuses.insert(key, object["status"][field].clone());
            }
        }
        let tried_again = statuses.remove(&format!("{} {TRIED_AGAIN}", kind_name(kinds::FAULT)));
        let refused = tried_again
            .as_ref()
            .and_then(Value::as_i64)
            .context("the deletion was refused")?;
        // What Cluster API sees of an API server that does not answer for a moment comes and goes.
        let available = try_join_all(clusters.iter().map(|cluster| async {
            cluster.available().await?;
            anyhow::Ok(cluster.name.clone())
        }))
        .await?;
        Ok(Self {
            statuses,
            available,
            refused,
        })
    }

    fn same(&self, after: &Self) -> anyhow::Result<()> {
        ensure!(
            self.available == after.available,
            "available: {:?}, {:?}",
            self.available,
            after.available
        );
        ensure!(
            self.refused <= after.refused,
            "refused: {}, {}",
            self.refused,
            after.refused
        );
        for (key, before) in &self.statuses {
            let now = after.statuses.get(key);
            if now != Some(before) {
                bail!("{key} had {before:#}\nand has {now:#?}");
            }
        }
        Ok(())
    }
}

fn kind_name((_, _, kind): Kind) -> &'static str {
    kind
}

/// The API server of a cluster at the address of the pod that leads, because only pods can resolve the name of the endpoint.
async fn at_leader(cluster: &Cluster) -> anyhow::Result<Workload> {
    cluster
        .workload_at(&address_of_leader(&cluster.management).await?)
        .await
}

/// Asks a cluster all the time.
struct Prober {
    stop: CancellationToken,
    /// When answers came.
    answers: Arc<Mutex<Vec<Instant>>>,
    task: JoinHandle<()>,
}

impl Prober {
    async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let answers = Arc::<Mutex<Vec<_>>>::default();
        let stopped = stop.clone();
        let noted = Arc::clone(&answers);
        let cluster = cluster.clone();
        let mut workload = at_leader(&cluster).await?;
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                let asked = tokio::time::timeout(ANSWER_LIMIT, workload.answers()).await;
                if asked.is_ok_and(|answer| answer.is_ok()) {
                    noted.lock().push(Instant::now());
                } else if let Ok(found) = at_leader(&cluster).await {
                    // A name server would tell another address now.
                    workload = found;
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        });
        Ok(Self { stop, answers, task })
    }

    /// The longest time without an answer since then.
    fn away_since(&self, begun: Instant) -> Duration {
        let answers = self.answers.lock();
        let mut times: Vec<_> = answers.iter().copied().filter(|at| *at >= begun).collect();
        times.insert(0, begun);
        times.push(Instant::now());
        times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default()
    }

    async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await.context("the prober panicked")
    }
}
