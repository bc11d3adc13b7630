//! In-place updates: machines change, and are not replaced.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use nephele_e2e::{
    Bare, Cluster, Look, Scope, Shape,
    management::{Kind, kinds},
    state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

use crate::runtime::script::{EXTENSION_CONFIG, LABEL, Script, registered};

/// The annotation of a Node with the digests of files, by path.
const FILES: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/files";

/// The template of workers' KubeadmConfigs.
const BOOTSTRAP_TEMPLATE: Kind = ("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfigTemplate");

/// clusterctl's name of the provider that runs the machines.
const INFRASTRUCTURE: &str = "infrastructure-in-memory";

/// A management cluster where an in-place update takes this long.
async fn management(name: &str, duration: &str) -> anyhow::Result<Bare> {
    let bare = Bare::with_runtime_extension(name).await?;
    registered(&bare).await?;
    pace(&bare, duration).await?;
    Ok(bare)
}

/// Sets how long later updates take.
async fn pace(bare: &Bare, duration: &str) -> anyhow::Result<()> {
    let settings = json!({"spec": {"settings": {"inPlaceUpdateDuration": duration}}});
    bare.management
        .patch(kinds::EXTENSION_CONFIG, "", EXTENSION_CONFIG, &settings)
        .await?;
    // Cluster API calls with the settings from the last discovery.
    until("the settings to be taken over", LIMIT, async || {
        let config = bare
            .management
            .get(kinds::EXTENSION_CONFIG, "", EXTENSION_CONFIG)
            .await?;
        let discovered = state::condition(&config, "Discovered");
        let seen = discovered.map(|condition| condition["observedGeneration"].clone());
        Ok(Look::when(
            seen.as_ref() == Some(&config["metadata"]["generation"]),
            || state::line(&config),
        ))
    })
    .await
}

/// Names and uids of the Machines and of their infrastructure.
async fn identities(cluster: &Cluster) -> anyhow::Result<BTreeSet<(String, String)>> {
    let mut found = BTreeSet::new();
    for kind in [kinds::MACHINE, kinds::IN_MEMORY_MACHINE, kinds::KUBEADM_CONFIG] {
        for object in cluster.of_kind(kind).await? {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            found.insert((text("name"), text("uid")));
        }
    }
    Ok(found)
}

/// The state of the Nodes: uid, version of the kubelet, and files.
async fn nodes(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, (String, String, Value)>> {
    let nodes = cluster.workload().await?.nodes().await?;
    let shown = nodes.iter().map(|node| {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let version = info.map(|info| info.kubelet_version.clone()).unwrap_or_default();
        let files = node
            .annotations()
            .get(FILES)
            .and_then(|files| serde_json::from_str(files).ok());
        let uid = node.uid().unwrap_or_default();
        (node.name_any(), (uid, version, files.unwrap_or_default()))
    });
    Ok(shown.collect())
}

/// Waits until this number of Nodes has this version, and this digest of `/etc/motd`.
async fn shown(cluster: &Cluster, count: usize, version: &str, content: &str) -> anyhow::Result<()> {
    until(
        &format!("{count} Nodes to show {version} and {content}"),
        LIMIT,
        async || {
            let found = nodes(cluster).await?;
            let show = |(_, seen, files): &&(String, String, Value)| {
                seen == version && files["/etc/motd"] == content
            };
            let holds = found.values().filter(show).count() == count;
            Ok(Look::when(holds, || format!("{found:?}")))
        },
    )
    .await
}

/// Waits until no Machine is being updated and all are up to date.
async fn quiet(cluster: &Cluster) -> anyhow::Result<()> {
    until("no machine to be updated", LIMIT, async || {
        let machines = cluster.machines(None).await?;
        let is_quiet = |machine: &Value| {
            state::is(machine, "Updating", "False") && state::is(machine, "UpToDate", "True")
        };
        let lines = || machines.iter().map(state::line).collect::<Vec<_>>().join("\n");
        Ok(Look::when(machines.iter().all(is_quiet), lines))
    })
    .await
}

/// A cluster that creates no additional machines for updates.
async fn without_surge(scope: &Scope, name: &str, shape: Shape) -> anyhow::Result<Cluster> {
    let cluster = scope
        .plain_with(name, shape, |object| {
            let rolling = match object["kind"].as_str() {
                // Cluster API requires surge for control planes of less than three machines.
                Some("KubeadmControlPlane") if shape.control_plane >= 3 => json!({"maxSurge": 0}),
                Some("MachineDeployment") => json!({"maxSurge": 0, "maxUnavailable": 1}),
                _ => return,
            };
            object["spec"]["rollout"]["strategy"] =
                json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        })
        .await?;
    cluster
        .settled(shape.control_plane as usize, shape.workers as usize)
        .await?;
    Ok(cluster)
}

fn motd(content: &str) -> Value {
    json!([{"path": "/etc/motd", "content": content, "owner": "root:root"}])
}

/// Sets the content of `/etc/motd` on the control plane.
async fn give_control_plane(cluster: &Cluster, content: &str) -> anyhow::Result<()> {
    let patch = json!({"spec": {"kubeadmConfigSpec": {"files": motd(content)}}});
    cluster
        .patch(kinds::CONTROL_PLANE, &cluster.control_plane(), &patch)
        .await
}

/// Sets the version and the content of `/etc/motd` on the workers, with another template.
async fn give_workers(cluster: &Cluster, version: &str, content: &str) -> anyhow::Result<()> {
    let template = cluster.object(BOOTSTRAP_TEMPLATE, &cluster.workers()).await?;
    let name = format!("{}-{content}", cluster.workers());
    let mut other = json!({
        "apiVersion": template["apiVersion"], "kind": template["kind"],
        "metadata": {"name": name}, "spec": template["spec"],
    });
    other["spec"]["template"]["spec"]["files"] = motd(content);
    cluster.management.apply(&cluster.namespace, &[other]).await?;
    let patch = json!({"spec": {"template": {"spec": {
        "version": version, "bootstrap": {"configRef": {"name": name}},
    }}}});
    cluster
        .patch(kinds::MACHINE_DEPLOYMENT, &cluster.workers(), &patch)
        .await
}

// sha256sum of `one`, `two` and `three`.
const ONE: &str = "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
const TWO: &str = "sha256:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
const THREE: &str = "sha256:8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f";

#[tokio::test]
async fn control_planes_and_workers_get_files_and_versions_in_place_and_none_is_replaced()
-> anyhow::Result<()> {
    let bare = management("runtime-in-place", "2s").await?;
    let scope = Scope::on(bare.management.clone(), "place").await?;
    let cluster = without_surge(&scope, "placed", Shape::new(3, 2)).await?;
    let machines = identities(&cluster).await?;
    let before = nodes(&cluster).await?;
    assert!(
        before
            .values()
            .all(|(_, version, files)| version == "v1.36.3" && files.is_null()),
        "{before:?}"
    );

    // New files of the control plane, machine by machine.
    give_control_plane(&cluster, "one").await?;
    shown(&cluster, 3, "v1.36.3", ONE).await?;
    quiet(&cluster).await?;
    cluster.settled(3, 2).await?;
    assert_eq!(identities(&cluster).await?, machines);

    // A new patch version of all machines, together with new files.
    give_control_plane(&cluster, "two").await?;
    let version = json!({"spec": {"version": "v1.36.4"}});
    cluster
        .patch(kinds::CONTROL_PLANE, &cluster.control_plane(), &version)
        .await?;
    give_workers(&cluster, "v1.36.4", "two").await?;
    shown(&cluster, 5, "v1.36.4", TWO).await?;
    quiet(&cluster).await?;
    cluster.settled(3, 2).await?;
    assert_eq!(identities(&cluster).await?, machines);
    let after = nodes(&cluster).await?;
    let uids = |nodes: &BTreeMap<String, (String, String, Value)>| -> BTreeSet<(String, String)> {
        nodes
            .iter()
            .map(|(name, (uid, ..))| (name.clone(), uid.clone()))
            .collect()
    };
    assert_eq!(uids(&after), uids(&before));
    for machine in cluster.machines(None).await? {
        assert_eq!(
            machine["status"]["nodeInfo"]["kubeletVersion"], "v1.36.4",
            "{machine}"
        );
    }
    scope.finish().await?;
    bare.down().await
}

#[tokio::test]
async fn the_machine_reports_an_update_that_fails_and_one_under_way_outlives_its_manager()
-> anyhow::Result<()> {
    let bare = management("runtime-in-place-fails", "1s").await?;
    let scope = Scope::on(bare.management.clone(), "fails").await?;
    let cluster = without_surge(&scope, "failing", Shape::new(1, 1)).await?;
    let machines = identities(&cluster).await?;

    let script = Script::of(&scope, "failing");
    script
        .say(
            "UpdateMachine",
            r#"{"Status": "Failure", "Message": "no space left"}"#,
        )
        .await?;
    give_workers(&cluster, "v1.36.4", "one").await?;
    says(
        &cluster,
        kinds::MACHINE,
        "InPlaceUpdateFailed",
        "UpdateMachine hook failed",
    )
    .await?;
    says(
        &cluster,
        kinds::IN_MEMORY_MACHINE,
        "InPlaceUpdateFailed",
        "no space left",
    )
    .await?;
    let found = nodes(&cluster).await?;
    assert!(
        found
            .values()
            .all(|(_, version, files)| version == "v1.36.3" && files.is_null()),
        "{found:?}"
    );
    script.say("UpdateMachine", r#"{"Status": "Success"}"#).await?;
    shown(&cluster, 1, "v1.36.4", ONE).await?;
    quiet(&cluster).await?;

    // Longer than managers take to restart, so that the update is in progress before and after the restart.
    pace(&bare, "1m").await?;
    give_workers(&cluster, "v1.36.5", "three").await?;
    says(&cluster, kinds::IN_MEMORY_MACHINE, "InPlaceUpdating", "v1.36.5").await?;
    let asked = asked_at(&cluster).await?;
    bare.kill_manager(INFRASTRUCTURE).await?;
    bare.kill_manager(LABEL).await?;
    bare.follow_deployments().await?;
    says(
        &cluster,
        kinds::MACHINE,
        "InPlaceUpdating",
        "In-place update in progress",
    )
    .await?;
    shown(&cluster, 1, "v1.36.5", THREE).await?;
    quiet(&cluster).await?;
    // The update continued, and was not started again.
    assert_eq!(asked_at(&cluster).await?, asked);
    assert_eq!(identities(&cluster).await?, machines);
    cluster.settled(1, 1).await?;
    scope.finish().await?;
    bare.down().await
}

/// Waits until an object of a kind reports an update with this reason and this text in its message.
async fn says(cluster: &Cluster, kind: Kind, reason: &str, message: &str) -> anyhow::Result<()> {
    until(
        &format!("{} to say {reason}: {message}", cluster.name),
        LIMIT,
        async || {
            let found = cluster.of_kind(kind).await?;
            let holds = found.iter().any(|object| {
                state::condition(object, "Updating").is_some_and(|condition| {
                    let told = condition["message"].as_str().unwrap_or_default();
                    condition["reason"] == reason && told.contains(message)
                })
            });
            Ok(Look::when(holds, || {
                found.iter().map(state::line).collect::<Vec<_>>().join("\n")
            }))
        },
    )
    .await
}

/// The times of the requests of updates, for all machines with an update.
async fn asked_at(cluster: &Cluster) -> anyhow::Result<Vec<Value>> {
    let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
    let asked = machines
        .iter()
        .map(|machine| machine["spec"]["instance"]["update"]["askedAt"].clone());
    Ok(asked.filter(|at| !at.is_null()).collect())
}
