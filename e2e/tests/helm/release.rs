//! A release from installation to removal.

use std::collections::BTreeSet;

use anyhow::Context;
use nephele_e2e::{
    Cluster, Look, Management, Scope, Shape,
    ipam::{Counts, GROUP},
    management::kinds,
    state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

use crate::helm::{
    chart::{Chart, NAMESPACE, RELEASE, helm, kubectl},
    notes,
    permissions::{self, Permission},
    pod::Pod,
    volume::{self, Volume},
};

/// The host of every workload cluster, from the chart's own Service.
const HOST: &str = "nephele-workload.nephele-system.svc";
/// The label of every object of the release.
const OF_RELEASE: &str = "app.kubernetes.io/instance=nephele";
const MANAGER_ROLE: &str = "nephele-system-manager";
/// A ConfigMap that a client writes to a workload cluster.
const KEPT: &str = "kept";

#[tokio::test]
async fn release_serves_clusters_through_upgrade_and_rescheduling_and_leaves_nothing_behind()
-> anyhow::Result<()> {
    let chart = Chart::from_environment()?;
    let management = Management::connect().await?;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    });
    management.apply("", &[namespace]).await?;
    beside_clusterctl_it_is_refused(&management, &chart).await?;
    // Without authentication, so that the test needs no token.
    let volume = Volume::create(&management).await?;
    let values = [&["metrics.authentication=false"][..], &volume::VALUES].concat();
    chart.apply("install", &values).await?;
    assert_eq!(volume.claim().await?, format!("{NAMESPACE}/nephele-state Bound"));
    let pod = Pod::other_than(&management, "").await?;
    Pod::is_restricted()?;
    // The lease is created once, so only this pod asks for that. The manager counts a request when it has the answer, and the
    // lease is there before.
    pod.leads(&management).await?;
    let mut asked = until("the creation of the lease to be counted", LIMIT, async || {
        let asked = permissions::asked(&pod.metrics().await?)?;
        let created = ["create", "coordination.k8s.io", "leases"]
            .map(str::to_owned)
            .into();
        Ok(if asked.contains(&created) {
            Look::Done(asked)
        } else {
            Look::NotYet(format!("{asked:?}"))
        })
    })
    .await?;

    let pod = missing_rule_is_told(&management, pod).await?;
    let scope = Scope::on(management.clone(), "helm").await?;
    let ((), (cluster, addressed)) =
        tokio::try_join!(notes::create_and_reach_a_cluster(), cluster_and_addressed(&scope))?;
    the_rest_of_it(&scope).await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(10, 2)).await?;
    assert_eq!(cluster.endpoint().await?.0, HOST);
    let nodes = nodes(&cluster, &pod).await?;
    let since = available_since(&cluster).await?;
    cluster
        .workload_at(&pod.address)
        .await?
        .create_config_map(KEPT)
        .await?;
    asked.extend(permissions::asked(&pod.metrics().await?)?);

    chart
        .apply("upgrade", &[&values[..], &["logging.level=4"]].concat())
        .await?;
    let pod = Pod::other_than(&management, &pod.name).await?;
    until("the Nodes to be back", LIMIT, async || {
        let now = self::nodes(&cluster, &pod).await?;
        Ok(Look::when(now == nodes, || format!("{now:?}")))
    })
    .await?;
    assert!(
        is_kept(&cluster, &pod).await?,
        "the upgrade lost what a client wrote"
    );
    // Cluster API still reaches the clusters. Otherwise it would not see a new machine's Node.
    addressed.scale_workers(2).await?;
    addressed.settled(1, 2).await?;
    assert_eq!(
        available_since(&cluster).await?,
        since,
        "it was not available all through the upgrade"
    );
    let fewer = json!({"spec": {"topology": {"workers": {"machinePools": [
        {"class": "default-worker", "name": "pool", "replicas": 1},
    ]}}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &fewer).await?;
    cluster.settled(1, 2).await?;
    asked.extend(permissions::asked(&pod.metrics().await?)?);

    let pod = pod.replaced(&management).await?;
    pod.ready(&management).await?;
    addressed.scale_workers(1).await?;
    addressed.settled(1, 1).await?;
    cluster.settled(1, 2).await?;
    assert!(
        is_kept(&cluster, &pod).await?,
        "the new pod lost what a client wrote"
    );

    helm("test", &["--timeout=1m"]).await?;
    addressed.delete().await?;
    scope.finish().await?;
    asked.extend(permissions::asked(&pod.metrics().await?)?);
    every_permission_is_used(&asked).await?;
    nothing_is_left(&management).await?;
    volume.remove(&management).await
}

/// A cluster of the class with a machine pool, and a cluster whose machines have addresses from a pool.
async fn cluster_and_addressed(scope: &Scope) -> anyhow::Result<(Cluster, Cluster)> {
    let pool = json!({"addresses": ["10.66.0.10-10.66.0.19"], "prefix": 24, "gateway": "10.66.0.1"});
    scope.pool(kinds::IP_POOL, "pool", pool).await?;
    let cluster = scope
        .of_class_with("cluster", Shape::new(1, 1), |object| {
            let pools = json!([{"class": "default-worker", "name": "pool", "replicas": 2}]);
            object["spec"]["topology"]["workers"]["machinePools"] = pools;
        })
        .await?;
    let from_pool =
        json!({"addressesFromPools": [{"apiGroup": GROUP, "kind": kinds::IP_POOL.2, "name": "pool"}]});
    let addressed = scope
        .plain_with("addressed", Shape::new(1, 1), |object| {
            if object["kind"] == "InMemoryMachineTemplate" {
                object["spec"]["template"]["spec"]["network"] = from_pool.clone();
            }
        })
        .await?;
    cluster.settled(1, 3).await?;
    addressed.settled(1, 1).await?;
    Ok((cluster, addressed))
}

/// Whether the workload cluster still has the ConfigMap that the test wrote to it.
async fn is_kept(cluster: &Cluster, pod: &Pod) -> anyhow::Result<bool> {
    cluster
        .workload_at(&pod.address)
        .await?
        .has_config_map(KEPT)
        .await
}

/// While clusterctl's inventory has one of our providers, the chart refuses to install.
async fn beside_clusterctl_it_is_refused(management: &Management, chart: &Chart) -> anyhow::Result<()> {
    let provider = json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {"name": "ipam-in-cluster"},
        "providerName": "in-cluster", "type": "IPAMProvider", "version": "v0.1.0",
    });
    management.apply(NAMESPACE, &[provider]).await?;
    let refused = chart
        .apply("install", &[])
        .await
        .expect_err("clusterctl has installed it")
        .to_string();
    let reason = format!("clusterctl has installed ipam-in-cluster in the namespace {NAMESPACE}");
    assert!(refused.contains(&reason), "{refused}");
    kubectl(&[
        "delete",
        "providers.clusterctl.cluster.x-k8s.io",
        "ipam-in-cluster",
        "--namespace",
        NAMESPACE,
    ])
    .await
    .map(drop)
}

/// A role loses a rule. The next manager names the missing permission, and is not ready until the rule is back.
async fn missing_rule_is_told(management: &Management, pod: Pod) -> anyhow::Result<Pod> {
    // The role for Scenarios lists them, too, but does not watch them.
    const LOST: &str = "permission to watch machinepools.cluster.x-k8s.io";
    let role: Value = serde_json::from_str(&kubectl(&["get", "clusterrole", MANAGER_ROLE, "-o=json"]).await?)
        .context("failed to read the role")?;
    let mut fewer = role["rules"].clone();
    for rule in fewer.as_array_mut().into_iter().flatten() {
        if rule["apiGroups"] == json!(["cluster.x-k8s.io"])
            && let Some(resources) = rule["resources"].as_array_mut()
        {
            resources.retain(|resource| resource != "machinepools");
        }
    }
    assert_ne!(fewer, role["rules"]);
    let set = async |rules: &Value| {
        let patch = json!({"rules": rules}).to_string();
        kubectl(&[
            "patch",
            "clusterrole",
            MANAGER_ROLE,
            "--type=merge",
            "--patch",
            &patch,
        ])
        .await
    };
    set(&fewer).await?;
    let pod = pod.replaced(management).await?;
    until("the manager to say what is missing", LIMIT, async || {
        let said = pod.readiness().await?;
        Ok(Look::when(
            said.contains(&format!("[-]{LOST} failed")) && said.contains(" 503 "),
            || said,
        ))
    })
    .await?;
    let log = kubectl(&["logs", "--namespace", NAMESPACE, &pod.name]).await?;
    assert!(
        log.contains(&format!("Missing {LOST}; not ready before a role grants it")),
        "{log}"
    );
    // The pod may have been ready while it waited for the lease, like a standby replica.
    until("the pod not to be ready", LIMIT, async || {
        let object = pod.object(management).await?;
        Ok(Look::when(state::is(&object, "Ready", "False"), || {
            state::line(&object)
        }))
    })
    .await?;
    set(&role["rules"]).await?;
    pod.ready(management).await?;
    let object = pod.object(management).await?;
    assert_eq!(object["status"]["containerStatuses"][0]["restartCount"], 0);
    // A new pod, whose requests were never refused.
    let pod = pod.replaced(management).await?;
    pod.ready(management).await?;
    Ok(pod)
}

/// Nodes with their uids, read at the address of the pod, because only pods can resolve the name of the endpoint.
async fn nodes(cluster: &Cluster, pod: &Pod) -> anyhow::Result<Vec<(String, String)>> {
    cluster.workload_at(&pod.address).await?.node_identities().await
}

/// The time since which the cluster has been available. Any interruption would make it later.
async fn available_since(cluster: &Cluster) -> anyhow::Result<String> {
    let object = cluster.get().await?;
    let condition = state::condition(&object, "Available").context("no condition")?;
    assert_eq!(condition["status"], "True", "{}", state::line(&object));
    Ok(condition["lastTransitionTime"]
        .as_str()
        .context("no time")?
        .to_owned())
}

async fn every_permission_is_used(asked: &BTreeSet<Permission>) -> anyhow::Result<()> {
    let read = async |kinds: &str| -> anyhow::Result<Value> {
        let text = kubectl(&["get", kinds, "--all-namespaces", "-l", OF_RELEASE, "-o=json"]).await?;
        serde_json::from_str(&text).with_context(|| format!("failed to read {kinds}"))
    };
    let roles = read("clusterroles,roles").await?;
    let bindings = read("clusterrolebindings,rolebindings").await?;
    permissions::compare(asked, &permissions::granted(&roles, &bindings, "nephele-manager"))
}

/// Uses the objects that clusters do not use: pools of every kind, and a cloud.
async fn the_rest_of_it(scope: &Scope) -> anyhow::Result<()> {
    let pool = |third: u8| json!({"addresses": [format!("10.66.{third}.10-10.66.{third}.19")], "prefix": 24});
    let prefixes =
        |third: u8| json!({"prefixes": [format!("fd66:{third}::/60")], "allocationPrefixLength": 64});
    let name = &scope.namespace;
    for (kind, spec) in [
        (kinds::GLOBAL_IP_POOL, pool(1)),
        (kinds::PREFIX_POOL, prefixes(2)),
        (kinds::GLOBAL_PREFIX_POOL, prefixes(3)),
    ] {
        scope.pool(kind, name, spec).await?;
        let claim = kind.2.to_lowercase();
        scope.claim(&claim, kind, name).await?;
        scope.bound(&claim).await?;
    }
    // The ClusterFault selects namespaces with this label.
    kubectl(&["label", "namespace", name, "example.com/workshop=true"]).await?;
    for (sample, object) in [
        ("simulated_cloud.yaml", "simulatedcloud/north"),
        ("fault.yaml", "fault/zone-is-full"),
        ("cluster_fault.yaml", "clusterfault/no-room"),
    ] {
        let sample = format!("{}/../../config/samples/{sample}", env!("CARGO_MANIFEST_DIR"));
        kubectl(&["apply", "--namespace", name, "--filename", &sample]).await?;
        until(&format!("{object} to say how it is"), LIMIT, async || {
            let output = "--output=jsonpath={.status.conditions}";
            let said = kubectl(&["get", object, "--namespace", name, output]).await?;
            Ok(Look::when(!said.is_empty(), || "nothing".to_owned()))
        })
        .await?;
        kubectl(&["delete", "--namespace", name, "--filename", &sample]).await?;
    }
    an_extension_is_given_its_authority(&scope.management).await
}

/// Applies the sample extension. Its object reports the missing Secret, then gets the authority from the Secret. Then
/// the extension is called, but nothing answers.
async fn an_extension_is_given_its_authority(management: &Management) -> anyhow::Result<()> {
    const OWNER: &str = "quota-system";
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../config/samples/cloud_extension_config.yaml"
    );
    let is = async |reason: &str| {
        until(&format!("the extension to be {reason}"), LIMIT, async || {
            let output = "--output=jsonpath={.status.conditions[?(@.type=='Discovered')].reason}";
            let said = kubectl(&["get", "cloudextensionconfigs", "quota", output]).await?;
            Ok(Look::when(said == reason, || said.clone()))
        })
        .await
    };
    kubectl(&["apply", "--filename", sample]).await?;
    is("CABundleNotInjected").await?;
    kubectl(&["create", "namespace", OWNER]).await?;
    let roots = "--output=jsonpath={.data.ca\\.crt}";
    let roots = kubectl(&[
        "get",
        "configmaps",
        "kube-root-ca.crt",
        "--namespace=default",
        roots,
    ])
    .await?;
    let roots = format!("--from-literal=ca.crt={roots}");
    kubectl(&[
        "create",
        "secret",
        "generic",
        "quota-webhook-certificate",
        "--namespace",
        OWNER,
        &roots,
    ])
    .await?;
    is("NotDiscovered").await?;
    kubectl(&["delete", "--filename", sample]).await?;
    management.delete(kinds::NAMESPACE, "", OWNER).await
}

/// Uninstalls, and checks that only the objects that the chart's README names are left: definitions, until they are
/// deleted too, and the manager's own objects, which are deleted with the namespace.
async fn nothing_is_left(management: &Management) -> anyhow::Result<()> {
    let notes = super::chart::notes().await?;
    helm("uninstall", &["--wait", "--timeout=2m"]).await?;
    let left = async || -> anyhow::Result<String> {
        let mut kinds = Vec::new();
        for scope in ["true", "false"] {
            let flag = format!("--namespaced={scope}");
            kinds.push(kubectl(&["api-resources", "--verbs=list,delete", &flag, "--output=name"]).await?);
        }
        let kinds = kinds.concat();
        let kinds: Vec<_> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
        kubectl(&[
            "get",
            &kinds.join(","),
            "--all-namespaces",
            "-l",
            OF_RELEASE,
            "-o=name",
        ])
        .await
    };
    // Pods are deleted after their Deployment, when they have stopped.
    until("nothing but definitions to be left", LIMIT, async || {
        let left = left().await?;
        let others: Vec<_> = left
            .lines()
            .filter(|name| !name.starts_with("customresourcedefinition"))
            .collect();
        Ok(Look::when(others.is_empty(), || others.join("\n")))
    })
    .await?;
    notes::tidy_up(&notes).await?;
    for provider in ["infrastructure-in-memory", "ipam-in-cluster"] {
        let label = format!("cluster.x-k8s.io/provider={provider},{OF_RELEASE}");
        kubectl(&["delete", "customresourcedefinitions", "--wait", "-l", &label]).await?;
    }
    assert_eq!(left().await?, "");
    let made = kubectl(&["get", "secrets,leases", "--namespace", NAMESPACE, "-o=name"]).await?;
    let made: BTreeSet<_> = made.lines().collect();
    assert_eq!(
        made,
        ["lease.coordination.k8s.io/controller-leader-election-nephele"].into()
    );
    management.delete(kinds::NAMESPACE, "", NAMESPACE).await?;
    until("the namespace to be gone", LIMIT, async || {
        let found = management.find(kinds::NAMESPACE, "", NAMESPACE).await?;
        Ok(Look::when(found.is_none(), || {
            format!("{RELEASE}'s namespace is there")
        }))
    })
    .await
}
