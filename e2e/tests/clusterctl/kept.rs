//! A manager with a state directory is killed.

use std::fs;

use anyhow::Context;
use nephele_e2e::{Bare, Cluster, Look, Scope, Shape, kubectl, until};
use serde_json::{Value, json};

/// clusterctl's name of the provider.
const PROVIDER: &str = "infrastructure-in-memory";
const NAMESPACE: &str = "nephele-system";
const DEPLOYMENT: &str = "deployment/nephele-controller-manager";

/// Objects that a client creates: first a definition, then an object of its kind.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team, finalizers: [example.com/held]}
data: {mode: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "example.com/web:v1"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#;
const THING: &str = r#"
apiVersion: example.com/v1
kind: Thing
metadata: {name: one, namespace: team}
spec: {size: 3}
"#;

/// Objects that have to be equal, down to their versions.
const KEPT: [&[&str]; 5] = [
    &[
        "get",
        "configmaps,deployments.apps,things.example.com",
        "-n",
        "team",
        "-o",
        "json",
    ],
    &["get", "namespace", "team", "-o", "json"],
    &[
        "get",
        "customresourcedefinition",
        "things.example.com",
        "-o",
        "json",
    ],
    &["get", "nodes", "-o", "json"],
    &["get", "pods", "-n", "kube-system", "-o", "json"],
];

#[tokio::test]
async fn what_clients_wrote_survives_the_death_of_the_manager() -> anyhow::Result<()> {
    let bare = Bare::up("kept", None).await?;
    let folder = bare
        .repository()
        .parent()
        .context("the cluster has no folder")?
        .join("kept-state");
    keep_state_in(&bare, &folder.display().to_string()).await?;
    let scope = Scope::on(bare.management.clone(), "kept").await?;
    let cluster = scope.of_class("kept", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;

    apply(&cluster, OBJECTS).await?;
    apply(&cluster, THING).await?;
    let kubeconfig = cluster.kubeconfig().await?;
    kubectl::run(&kubeconfig, &["label", "nodes", "--all", "example.com/team=blue"]).await?;
    // The ConfigMap has a finalizer, so it stays.
    let delete = ["delete", "configmap", "settings", "-n", "team", "--wait=false"];
    kubectl::run(&kubeconfig, &delete).await?;
    let before = kept(&cluster).await?;
    kubectl::run(&kubeconfig, &["create", "configmap", "last", "-n", "default"]).await?;
    bare.kill_manager(PROVIDER).await?;
    bare.follow_deployments().await?;

    until(
        "the cluster to answer again",
        nephele_e2e::wait::LIMIT,
        async || {
            Ok(
                match kubectl::run(&kubeconfig, &["get", "configmap", "last", "-n", "default"]).await {
                    Ok(_) => Look::Done(()),
                    Err(error) => Look::NotYet(format!("{error:#}")),
                },
            )
        },
    )
    .await?;
    assert_eq!(kept(&cluster).await?, before);
    cluster.settled(1, 1).await?;
    let release = [
        "patch",
        "configmap",
        "settings",
        "-n",
        "team",
        "--type=json",
        "-p",
    ];
    let release = [
        &release[..],
        &[r#"[{"op": "remove", "path": "/metadata/finalizers"}]"#],
    ]
    .concat();
    kubectl::run(&kubeconfig, &release).await?;
    let left = kubectl::run(&kubeconfig, &["get", "configmaps", "-n", "team", "-o", "name"]).await?;
    assert_eq!(left, "");

    scope.finish().await?;
    bare.down().await
}

/// Makes the manager keep its state in this folder.
async fn keep_state_in(bare: &Bare, folder: &str) -> anyhow::Result<()> {
    let flag = json!([{
        "op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": format!("--state-dir={folder}"),
    }]);
    let patch = flag.to_string();
    bare.kubectl(&["patch", DEPLOYMENT, "-n", NAMESPACE, "--type=json", "-p", &patch])
        .await?;
    bare.kill_manager(PROVIDER).await?;
    bare.follow_deployments().await
}

async fn apply(cluster: &Cluster, objects: &str) -> anyhow::Result<()> {
    let file = std::env::temp_dir().join(format!("nephele-e2e-kept-{}.yaml", std::process::id()));
    fs::write(&file, objects).with_context(|| format!("failed to write {}", file.display()))?;
    let path = file.display().to_string();
    kubectl::run(&cluster.kubeconfig().await?, &["apply", "-f", &path]).await?;
    fs::remove_file(&file).with_context(|| format!("failed to remove {}", file.display()))
}

/// The complete objects.
async fn kept(cluster: &Cluster) -> anyhow::Result<Vec<Value>> {
    let kubeconfig = cluster.kubeconfig().await?;
    let mut found = Vec::new();
    for args in KEPT {
        let text = kubectl::run(&kubeconfig, args).await?;
        let value: Value = serde_json::from_str(&text).context("kubectl printed no JSON")?;
        found.push(value);
    }
    Ok(found)
}
