//! A manager of one namespace, with exactly the permissions that the chart gives it.

use std::{fs, path::PathBuf};

use anyhow::{Context, ensure};
use nephele_e2e::{Bare, Look, Scope, Shape, bare::Manager, management::kinds, until, wait::LIMIT};
use serde_json::{Value, json};

/// The namespace of the release. Its clusters are in another namespace.
const RELEASE: &str = "nephele-of-one";
/// The providers whose managers watch all namespaces, which have to be removed.
const LABELS: [&str; 2] = ["infrastructure-in-memory", "ipam-in-cluster"];
/// The kinds of objects that grant permissions.
const PERMISSIONS: [&str; 5] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
];
/// Cluster-scoped kinds that the manager reads.
const CLUSTERWIDE: [&str; 2] = ["globalinclusterippools", "globalinclusterprefixpools"];
/// Ports that no other management cluster's manager has.
const PORTS: &str = "--workload-ports=18000-18099";

#[tokio::test]
async fn manager_with_a_role_of_the_charts_in_one_namespace_makes_clusters_there_and_is_never_refused()
-> anyhow::Result<()> {
    let bare = Bare::up("namespaced", None).await?;
    for label in LABELS {
        bare.kill_manager(label).await?;
        // Nothing serves the webhooks any more.
        let selector = format!("--selector=cluster.x-k8s.io/provider={label}");
        let webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        bare.kubectl(&["delete", webhooks, &selector]).await?;
    }
    let scope = Scope::on(bare.management.clone(), "of-one").await?;
    bare.management.create_namespace(RELEASE).await?;
    let values = json!({"watch": {"namespace": scope.namespace}, "rbac": {"namespaced": true}});
    let objects = bare.chart(RELEASE, &values).await?;
    let permissions: Vec<_> = objects
        .iter()
        .filter(|object| is_one_of(object, &PERMISSIONS))
        .cloned()
        .collect();
    are_of_the_namespace(&permissions, &scope.namespace)?;
    let file = bare.repository().join("permissions.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": permissions});
    fs::write(&file, list.to_string()).with_context(|| format!("failed to write {}", file.display()))?;
    bare.kubectl(&["apply", "--server-side", "--filename", &file.to_string_lossy()])
        .await?;

    let deployment = objects.iter().find(|object| is_one_of(object, &["Deployment"]));
    let pod = &deployment.context("the chart has a Deployment")?["spec"]["template"]["spec"];
    let texts = |list: &Value| -> Vec<String> {
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    };
    let mut args = texts(&pod["containers"][0]["args"]);
    ensure!(
        args.contains(&format!("--namespace={}", scope.namespace)),
        "{args:?}"
    );
    args.push(PORTS.to_owned());
    args.push(format!("--leader-election-id={RELEASE}/manager"));
    let account = pod["serviceAccountName"]
        .as_str()
        .context("the pod has an account")?;
    let mut manager = bare.manager(&credentials(&bare, account).await?, &args)?;
    until("the manager to be ready", LIMIT, async || {
        let is_ready = manager.is_ready().await?;
        Ok(Look::when(is_ready, || manager.log()))
    })
    .await?;

    // The cluster has addresses from a pool, so that both providers are tested.
    let pool = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool", "metadata": {"name": "nodes"},
        "spec": {"addresses": ["10.20.0.10-10.20.0.99"], "prefix": 24, "gateway": "10.20.0.1"},
    });
    scope.management.apply(&scope.namespace, &[pool]).await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 1), |object| {
            if object["kind"] == kinds::IN_MEMORY_MACHINE_TEMPLATE.2 {
                let pool =
                    json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "nodes"});
                object["spec"]["template"]["spec"]["network"] = json!({"addressesFromPools": [pool]});
            }
        })
        .await?;
    cluster.settled(1, 1).await?;
    let claims = scope.management.names(kinds::CLAIM, &scope.namespace).await?;
    ensure!(claims.len() == 2, "claims: {claims:?}");
    scope.finish().await?;
    never_refused(&manager).await?;
    drop(manager);
    bare.down().await
}

fn is_one_of(object: &Value, kinds: &[&str]) -> bool {
    object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

/// The manager's permissions for namespaced kinds are only in Roles in that namespace and in the release's own.
fn are_of_the_namespace(permissions: &[Value], namespace: &str) -> anyhow::Result<()> {
    let roles = |kind: &'static str| permissions.iter().filter(move |object| object["kind"] == kind);
    let is_managers = |role: &&Value| {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        role["metadata"]["namespace"] == *namespace && name.ends_with("manager")
    };
    let watched = roles("Role").filter(is_managers).count();
    ensure!(
        watched == 2,
        "{watched} Roles for two providers: {permissions:#?}"
    );
    for role in roles("ClusterRole") {
        let rules = role["rules"].as_array().into_iter().flatten();
        for resource in rules.flat_map(|rule| rule["resources"].as_array().cloned().unwrap_or_default()) {
            let resource = resource.as_str().unwrap_or_default();
            let of_cluster_api = ["machines", "clusters", "pools", "claims", "secrets", "inmemory"];
            let is_free = !of_cluster_api.iter().any(|part| resource.contains(part));
            let known = CLUSTERWIDE.iter().any(|known| resource.starts_with(known));
            ensure!(
                is_free || known,
                "{resource} everywhere, by {}",
                role["metadata"]["name"]
            );
        }
    }
    Ok(())
}

/// A kubeconfig of a service account.
async fn credentials(bare: &Bare, account: &str) -> anyhow::Result<PathBuf> {
    let token = bare
        .kubectl(&["create", "token", account, "--namespace", RELEASE])
        .await?;
    let config = bare
        .kubectl(&["config", "view", "--raw", "--output=json"])
        .await?;
    let mut config: Value = serde_json::from_str(&config).context("not JSON")?;
    config["users"][0]["user"] = json!({"token": token.trim()});
    config["contexts"][0]["context"]["namespace"] = json!(RELEASE);
    let file = bare.repository().join("one-namespace.kubeconfig");
    fs::write(&file, config.to_string()).with_context(|| format!("failed to write {}", file.display()))?;
    Ok(file)
}

/// No request was refused, by the manager's own metrics.
async fn never_refused(manager: &Manager) -> anyhow::Result<()> {
    let metrics = manager.metrics().await?;
    let counted = |permitted: &str| -> Vec<&str> {
        let label = format!("permitted=\"{permitted}\"");
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("nephele_management_requests_total{"));
        lines.filter(|line| line.contains(&label)).collect()
    };
    ensure!(
        counted("false").is_empty(),
        "{:#?}\n{}",
        counted("false"),
        manager.log()
    );
    for resource in ["inmemorymachines", "ipaddresses", "secrets"] {
        let named = format!("resource=\"{resource}\"");
        ensure!(
            counted("true").iter().any(|line| line.contains(&named)),
            "no request for {resource}: {metrics}"
        );
    }
    Ok(())
}
