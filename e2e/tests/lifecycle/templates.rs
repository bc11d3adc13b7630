//! Templates are immutable. Cluster API can nevertheless find out the effect of a change with a dry run, and roll
//! machines over to another template.

use anyhow::ensure;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use nephele_e2e::{
    Cluster, Look, Scope, Shape,
    cluster::Role,
    management::{Kind, kinds},
    state,
};
use serde_json::{Value, json};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const WORKER: &str = "in-memory-worker";
const WHAT_TO_DO: &str = "make a template of another name with the change, and refer to that";

/// A change of the machines' spec in a template.
fn slower() -> Value {
    json!({"vm": {"provisioning": {"startupDuration": "1s"}}})
}

#[tokio::test]
async fn template_in_use_is_not_changed_and_machines_are_rolled_over_to_another_one() -> anyhow::Result<()> {
    let scope = Scope::new("templates").await?;
    let cluster = scope.of_class("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;

    // The templates that the topology controller made for the cluster, and the templates of the class.
    let in_use = cluster.of_kind(kinds::IN_MEMORY_MACHINE_TEMPLATE).await?;
    ensure!(in_use.len() == 2, "{} templates are in use", in_use.len());
    let changed = json!({"spec": {"template": {"spec": {"behaviour": slower()}}}});
    let named = "spec.template.spec.behaviour: is immutable";
    for template in in_use.iter().map(state::name).chain([WORKER]) {
        refused(
            &scope,
            kinds::IN_MEMORY_MACHINE_TEMPLATE,
            template,
            &changed,
            named,
        )
        .await?;
        refused(
            &scope,
            (GROUP, "v1beta1", kinds::IN_MEMORY_MACHINE_TEMPLATE.2),
            template,
            &changed,
            named,
        )
        .await?;
    }
    let changed = json!({"spec": {"template": {"spec": {"template": {"behaviour": slower()}}}}});
    refused(
        &scope,
        kinds::IN_MEMORY_MACHINE_POOL_TEMPLATE,
        WORKER,
        &changed,
        "spec.template.spec.template.behaviour: is immutable",
    )
    .await?;
    let changed = json!({"spec": {"template": {"spec": {"failureDomains": [{"name": "a"}]}}}});
    let named = "spec.template.spec.failureDomains: is immutable";
    refused(
        &scope,
        kinds::IN_MEMORY_CLUSTER_TEMPLATE,
        "in-memory-cluster",
        &changed,
        named,
    )
    .await?;

    // Everything but the spec of the created objects may change.
    let marked = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    for (kind, name) in [
        (kinds::IN_MEMORY_MACHINE_TEMPLATE, WORKER),
        (kinds::IN_MEMORY_MACHINE_POOL_TEMPLATE, WORKER),
        (kinds::IN_MEMORY_CLUSTER_TEMPLATE, "in-memory-cluster"),
    ] {
        scope
            .management
            .patch(kind, &scope.namespace, name, &marked)
            .await?;
    }
    rolled_over_to_another_template(&scope, &cluster).await?;
    scope.finish().await
}

/// Changes the class to another template, as users do, and waits until the worker is created from that template.
async fn rolled_over_to_another_template(scope: &Scope, cluster: &Cluster) -> anyhow::Result<()> {
    let before = worker(cluster).await?;
    let next = "in-memory-worker-2";
    let template = json!({
        "apiVersion": format!("{GROUP}/v1beta2"), "kind": kinds::IN_MEMORY_MACHINE_TEMPLATE.2, "metadata": {"name": next},
        "spec": {"template": {"spec": {"behaviour": slower()}}},
    });
    scope.management.apply(&scope.namespace, &[template]).await?;
    let mut class = scope
        .management
        .get(kinds::CLUSTER_CLASS, &scope.namespace, "in-memory")
        .await?;
    let workers = &mut class["spec"]["workers"]["machineDeployments"];
    workers[0]["infrastructure"]["templateRef"]["name"] = json!(next);
    let rebased = json!({"spec": {"workers": {"machineDeployments": workers.take()}}});
    scope
        .management
        .patch(kinds::CLUSTER_CLASS, &scope.namespace, "in-memory", &rebased)
        .await?;
    cluster
        .until("the worker to be made from the other template", async || {
            let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
            let is_new = |machine: &&Value| machine["spec"]["behaviour"] == slower();
            let is_gone = !machines.iter().any(|machine| state::name(machine) == before);
            let new = machines.iter().filter(is_new).count();
            Ok(Look::when(is_gone && new == 1, || {
                format!("{new} new of {}", machines.len())
            }))
        })
        .await?;
    cluster.settled(1, 1).await
}

async fn worker(cluster: &Cluster) -> anyhow::Result<String> {
    let machines = cluster.machines(Some(Role::Worker)).await?;
    ensure!(machines.len() == 1, "{} workers", machines.len());
    Ok(state::name(&machines[0]).to_owned())
}

#[tokio::test]
async fn only_a_dry_run_of_the_topology_controller_may_change_a_template() -> anyhow::Result<()> {
    let scope = Scope::new("template-dry-run").await?;
    let template = |kind: Kind, spec: &Value, annotations: Value| {
        json!({
            "apiVersion": format!("{GROUP}/v1beta2"), "kind": kind.2,
            "metadata": {"name": "template", "annotations": annotations},
            "spec": {"template": {"spec": spec}},
        })
    };
    for (kind, changed) in [
        (kinds::IN_MEMORY_MACHINE_TEMPLATE, json!({"behaviour": slower()})),
        (
            kinds::IN_MEMORY_MACHINE_POOL_TEMPLATE,
            json!({"template": {"behaviour": slower()}}),
        ),
        (
            kinds::IN_MEMORY_CLUSTER_TEMPLATE,
            json!({"failureDomains": [{"name": "a"}]}),
        ),
    ] {
        scope
            .management
            .apply(&scope.namespace, &[template(kind, &json!({}), json!({}))])
            .await?;
        let api: Api<DynamicObject> = Api::namespaced_with(
            scope.management.client(),
            &scope.namespace,
            &ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2)),
        );
        for (dry_run, is_marked) in [(true, true), (true, false), (false, true), (false, false)] {
            let annotations = match is_marked {
                true => json!({"topology.cluster.x-k8s.io/dry-run": ""}),
                false => json!({}),
            };
            // The topology controller sends such requests.
            let params = PatchParams::apply("capi-topology").force();
            let params = PatchParams { dry_run, ..params };
            let asked = template(kind, &changed, annotations);
            match api.patch("template", &params, &Patch::Apply(&asked)).await {
                Ok(object) => {
                    ensure!(
                        dry_run && is_marked,
                        "{} was changed: {dry_run} {is_marked}",
                        kind.2
                    );
                    assert_eq!(object.data["spec"]["template"]["spec"], changed, "{}", kind.2);
                }
                Err(error) => {
                    ensure!(!(dry_run && is_marked), "{}: {error}", kind.2);
                    ensure!(error.to_string().contains(WHAT_TO_DO), "{}: {error}", kind.2);
                }
            }
        }
        let last = scope.management.get(kind, &scope.namespace, "template").await?;
        assert_eq!(last["spec"]["template"]["spec"], json!({}), "{}", kind.2);
    }
    scope.finish().await
}

async fn refused(scope: &Scope, kind: Kind, name: &str, change: &Value, named: &str) -> anyhow::Result<()> {
    let Err(error) = scope.management.patch(kind, &scope.namespace, name, change).await else {
        anyhow::bail!("{} {name} took {change}", kind.2);
    };
    let message = format!("{error:#}");
    ensure!(
        message.contains(named) && message.contains(WHAT_TO_DO),
        "{} {name}: {message}",
        kind.2
    );
    Ok(())
}
