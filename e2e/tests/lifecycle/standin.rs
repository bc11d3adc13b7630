//! The stand-in for Cluster API of `nephele up` beside Cluster API: the objects that a controller can see.

use std::{collections::BTreeMap, env, fs};

use anyhow::Context as _;
use nephele_e2e::{
    Cluster, Look, Management, Scope,
    fields::{Fields, Known, differences, fields, known},
    management::{Kind, kinds},
    shell::Shell,
    templates, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

const KINDS: [Kind; 8] = [
    kinds::CLUSTER,
    kinds::CONTROL_PLANE,
    kinds::MACHINE_DEPLOYMENT,
    kinds::MACHINE_SET,
    kinds::MACHINE,
    kinds::MACHINE_HEALTH_CHECK,
    kinds::IN_MEMORY_CLUSTER,
    kinds::IN_MEMORY_MACHINE,
];
const NAME: &str = "same";
#[tokio::test]
async fn objects_of_the_stand_in_differ_from_those_of_cluster_api_only_where_the_book_says()
-> anyhow::Result<()> {
    let scope = Scope::new("standin").await?;
    let mut objects = templates::class()?;
    objects.push(cluster());
    scope.management.apply(&scope.namespace, &objects).await?;

    let program = env::var("NEPHELE_PROGRAM").context("run cargo xtask e2e")?;
    let shell = Shell::new("standin")?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scope.namespace}});
    let mut cluster = cluster();
    cluster["metadata"]["namespace"] = json!(scope.namespace);
    let text = format!("{namespace}\n---\n{cluster}\n");
    fs::write(shell.folder().join("objects.yaml"), text).context("failed to write the objects")?;
    let mut up = shell.start(&format!("'{program}' up --folder up -f objects.yaml"))?;
    let kubeconfig = shell.folder().join("up/management.kubeconfig");
    let stand_in = until("nephele up to serve", LIMIT, async || {
        up.still_runs()?;
        Ok(match Management::of(&kubeconfig).await {
            Ok(management) => Look::Done(management),
            Err(error) => Look::NotYet(format!("{error:#}")),
        })
    })
    .await?;

    let known = known()?;
    let real = Cluster {
        management: scope.management.clone(),
        namespace: scope.namespace.clone(),
        name: NAME.to_owned(),
    };
    real.available().await?;
    let played = Cluster {
        management: stand_in,
        namespace: scope.namespace.clone(),
        name: NAME.to_owned(),
    };
    until(
        "both to have the same objects, but for known differences",
        LIMIT,
        async || {
            up.still_runs()?;
            let (real, played) = match (all(&real).await, all(&played).await) {
                (Ok(real), Ok(played)) => (real, played),
                (Err(error), _) | (_, Err(error)) => return Ok(Look::NotYet(format!("{error:#}"))),
            };
            let wrong = wrong(&known, &differences(&real, &played));
            Ok(Look::when(wrong.is_empty(), || wrong.join("\n")))
        },
    )
    .await?;
    up.interrupt().await?;
    scope.finish().await
}

/// Differences that are not known, and known ones that are not there.
fn wrong(known: &[Known], found: &BTreeMap<String, [String; 2]>) -> Vec<String> {
    let unknown = found
        .iter()
        .filter(|(path, _)| !known.iter().any(|known| known.has(path)));
    let unknown = unknown.map(|(path, [real, played])| format!("{path}: {real} | {played}"));
    let gone = known.iter().flat_map(|known| known.gone(found));
    unknown
        .chain(gone.map(|path| format!("{path} does not differ")))
        .collect()
}

async fn all(cluster: &Cluster) -> anyhow::Result<Fields> {
    let management = &cluster.management;
    let namespace = &cluster.namespace;
    let mut all = Fields::new();
    for kind in KINDS {
        let objects = management.list(kind, namespace, "").await?;
        all.extend(fields(kind.2, namespace, &objects));
    }
    let nodes = cluster.workload().await?.nodes().await?;
    let nodes = nodes
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<Vec<_>, _>>()?;
    all.extend(fields("Node", namespace, &nodes));
    Ok(all)
}

/// A cluster with all that a topology says of MachineDeployments.
fn cluster() -> Value {
    let unhealthy = json!([{"type": "Ready", "status": "False", "timeoutSeconds": 300}]);
    let startup =
        json!({"name": "workerBehaviour", "value": {"vm": {"provisioning": {"startupDuration": "1s"}}}});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": NAME, "labels": {"team": "blue"}},
        "spec": {
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                "services": {"cidrBlocks": ["10.128.0.0/12"]},
                "serviceDomain": "cluster.local",
            },
            "topology": {
                "classRef": {"name": "in-memory"},
                "version": templates::VERSION,
                // As many as control plane machines: Cluster API draws between zones that have the same number.
                "variables": [{"name": "zones", "value": [{"name": "zone-a"}, {"name": "zone-b"}, {"name": "zone-c"}]}],
                "controlPlane": {
                    "replicas": 3,
                    "metadata": {"labels": {"role": "control"}, "annotations": {"note": "control"}},
                    "healthCheck": {"checks": {"unhealthyNodeConditions": unhealthy}},
                },
                "workers": {"machineDeployments": [
                    {
                        "class": "default-worker", "name": "labelled", "replicas": 2, "failureDomain": "zone-a",
                        "metadata": {"labels": {"node-role.kubernetes.io/edge": "", "tier": "front"}},
                    },
                    {
                        "class": "default-worker", "name": "checked", "replicas": 1, "failureDomain": "zone-b",
                        "metadata": {"annotations": {"note": "checked"}},
                        "healthCheck": {
                            "checks": {"unhealthyNodeConditions": unhealthy, "nodeStartupTimeoutSeconds": 600},
                            "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "50%"}},
                        },
                    },
                    {
                        "class": "default-worker", "name": "overridden", "replicas": 1,
                        "variables": {"overrides": [startup]},
                    },
                ]},
            },
        },
    })
}
