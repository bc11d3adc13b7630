//! Waits until an installed manager works.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context as _, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
    runtime::wait::{Condition, await_condition},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    management::Management,
    objects::{DEPLOYMENT, NAMESPACE},
};
use nephele_access::Kinds;

/// The time between two attempts to reach the webhooks.
const RETRY: Duration = Duration::from_millis(200);

/// Waits until the manager's pods run the version that was applied, and the API server reaches its webhooks.
pub(super) async fn wait(management: &Management, ipam: bool, limit: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    let deployments: Api<Deployment> = Api::namespaced(management.client().clone(), NAMESPACE);
    match timeout_at(
        deadline,
        await_condition(deployments, DEPLOYMENT, is_rolled_out()),
    )
    .await
    {
        Ok(result) => drop(result.context("failed to watch the manager's Deployment")?),
        Err(_) => bail!(
            "the manager is not ready after {} s: {}",
            limit.as_secs(),
            why_not(management)
                .await
                .unwrap_or_else(|error| nephele_controller::chain(error.as_ref()))
        ),
    }
    reached(management.kinds(), ipam, NAMESPACE, deadline).await.context(
        "the API server does not reach the manager's webhooks: check that network policies and firewalls let it \
         connect to port 9443 of the manager's pod",
    )
}

/// Waits until the API server reaches the webhooks. The error is the one of the last attempt.
pub(crate) async fn reached(
    kinds: &Kinds,
    ipam: bool,
    namespace: &str,
    deadline: Instant,
) -> anyhow::Result<()> {
    for object in probes(ipam, namespace) {
        let mut reached = probe(kinds, &object).await;
        while reached.is_err() && Instant::now() < deadline {
            sleep(RETRY).await;
            reached = probe(kinds, &object).await;
        }
        reached?;
    }
    Ok(())
}

/// Whether all pods of a Deployment are of its newest generation and available.
fn is_rolled_out() -> impl Condition<Deployment> {
    |deployment: Option<&Deployment>| {
        let Some(deployment) = deployment else {
            return false;
        };
        let Some(status) = &deployment.status else {
            return false;
        };
        let wanted = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1);
        status.observed_generation == deployment.metadata.generation
            && [
                status.replicas,
                status.updated_replicas,
                status.available_replicas,
            ]
            .iter()
            .all(|number| number.unwrap_or(0) == wanted)
    }
}

/// Objects that the API server can create only with the help of the webhooks: an older version has to be converted, and
/// a pool is reviewed.
pub(crate) fn probes(ipam: bool, namespace: &str) -> Vec<Value> {
    let metadata = json!({"name": "nephele-install-probe", "namespace": namespace});
    let mut probes = vec![json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "InMemoryCluster",
        "metadata": metadata,
        "spec": {},
    })];
    if ipam {
        probes.push(json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
            "kind": "InClusterIPPool",
            "metadata": metadata,
            "spec": {"addresses": ["192.0.2.1-192.0.2.9"], "prefix": 24},
        }));
    }
    probes
}

/// Has the API server create an object without keeping it.
pub(crate) async fn probe(kinds: &Kinds, object: &Value) -> anyhow::Result<()> {
    let api = kinds
        .api(object)
        .await?
        .context("the API server does not serve our kinds yet")?;
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    api.create(
        &PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        &object,
    )
    .await?;
    Ok(())
}

/// What keeps the manager's pods from being ready, as the kubelet and the scheduler tell it.
async fn why_not(management: &Management) -> anyhow::Result<String> {
    let pods: Api<Pod> = Api::namespaced(management.client().clone(), NAMESPACE);
    let pods = pods
        .list(&ListParams::default().labels("control-plane=controller-manager"))
        .await?;
    let mut text = String::new();
    for pod in &pods {
        write!(text, "pod {}: {}. ", pod.name_any(), state_of_pod(pod))?;
    }
    if text.is_empty() {
        let deployments: Api<Deployment> = Api::namespaced(management.client().clone(), NAMESPACE);
        let deployment = deployments.get(DEPLOYMENT).await?;
        let reason = why_no_pods(&deployment)
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        write!(text, "it has no pods{reason}. ")?;
    }
    write!(
        text,
        "See `kubectl -n {NAMESPACE} describe pods` and `kubectl -n {NAMESPACE} logs deployment/{DEPLOYMENT}`"
    )?;
    Ok(text)
}

/// Why a Deployment has no pods: the API server refuses them.
pub(crate) fn why_no_pods(deployment: &Deployment) -> Option<String> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let failure = conditions
        .iter()
        .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")?;
    failure.message.clone()
}

/// The state of a pod in one line.
pub(crate) fn state_of_pod(pod: &Pod) -> String {
    let Some(status) = &pod.status else {
        return "no status yet".to_owned();
    };
    let because = |reason: Option<&String>, message: Option<&String>| {
        // The message of a container that ended is the end of its log: the last line says why.
        let message = message.and_then(|message| message.lines().rfind(|line| !line.trim().is_empty()));
        let texts = [reason.map(String::as_str), message];
        texts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    };
    for container in status.container_statuses.iter().flatten() {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let ended = container
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        match (waiting, ended) {
            (Some(waiting), Some(ended)) => {
                let waiting = because(waiting.reason.as_ref(), None);
                return format!(
                    "{waiting} after {}",
                    because(ended.reason.as_ref(), ended.message.as_ref())
                );
            }
            (Some(waiting), None) => return because(waiting.reason.as_ref(), waiting.message.as_ref()),
            (None, _) => {}
        }
    }
    let unmet = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.status != "True");
    unmet.map_or_else(
        || status.phase.clone().unwrap_or_default(),
        |condition| {
            format!(
                "{} is {}: {}",
                condition.type_,
                condition.status,
                because(condition.reason.as_ref(), condition.message.as_ref())
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(generation: i64, status: &Value) -> Deployment {
        let object = json!({
            "metadata": {"generation": generation},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": status,
        });
        serde_json::from_value(object).expect("a Deployment")
    }

    #[test]
    fn a_deployment_is_rolled_out_when_its_only_pods_are_new_and_available() {
        let counts = |all: i32, new: i32, available: i32| json!({"observedGeneration": 2, "replicas": all, "updatedReplicas": new, "availableReplicas": available});
        let is = |generation: i64, status: Value| {
            is_rolled_out().matches_object(Some(&deployment(generation, &status)))
        };
        assert!(is(2, counts(1, 1, 1)));
        assert!(!is(3, counts(1, 1, 1)), "its newest generation is not seen yet");
        assert!(!is(2, counts(2, 1, 1)), "an old pod is still there");
        assert!(!is(2, counts(1, 1, 0)));
        assert!(!is_rolled_out().matches_object(None));
    }

    #[test]
    fn the_state_of_a_pod_says_what_it_waits_for() {
        let pod = |status: Value| serde_json::from_value(json!({"status": status})).expect("a Pod");
        let waiting = json!({"waiting": {"reason": "ErrImageNeverPull", "message": "not on the node"}});
        let container = |state: Value, last: Value| {
            json!({"containerStatuses": [{"name": "manager", "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": state, "lastState": last}]})
        };
        assert_eq!(
            state_of_pod(&pod(container(waiting, json!({})))),
            "ErrImageNeverPull: not on the node"
        );
        let crashed =
            json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "a line before\nno lease\n"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        assert_eq!(
            state_of_pod(&pod(container(waiting, crashed))),
            "CrashLoopBackOff after Error: no lease"
        );
        let unmet = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes"}]});
        assert_eq!(
            state_of_pod(&pod(unmet)),
            "PodScheduled is False: Unschedulable: 0/1 nodes"
        );
    }
}
