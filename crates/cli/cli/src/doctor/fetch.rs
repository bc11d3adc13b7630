//! Reads a [`Snapshot`] from a management cluster.

use std::collections::BTreeSet;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        core::v1::{Node, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
    client::Body,
};
use nephele_api::{
    cloud::{CLUSTER_FAULT_LABEL, v1alpha1::Fault},
    conditions,
    core::Cluster,
};
use nephele_fake_capi::AVAILABLE;
use nephele_page::effect_name;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::snapshot::{Affecting, Definition, Manager, NEEDED, OURS, Snapshot, Waiting};
use crate::{
    embedded::GIT_VERSION,
    install::{
        management::Management,
        objects::{NAMESPACE, Wanted, objects},
        ready::{probe, probes, state_of_pod, why_no_pods},
    },
};

/// The label by which clusterctl tells whose an object is.
const PROVIDER: &str = "cluster.x-k8s.io/provider";
/// That of our IPAM provider.
const OUR_IPAM: &str = "ipam-in-cluster";
/// How many questions about rights are in flight.
const REVIEWS_AT_ONCE: usize = 16;
/// A cluster without delays is available after this time.
const COMES_UP_WITHIN: SignedDuration = SignedDuration::from_mins(2);
/// The conditions of nodes that are bad when they hold.
const PRESSURES: [&str; 3] = ["DiskPressure", "MemoryPressure", "PIDPressure"];

/// Looks at everything once.
///
/// # Errors
/// When the management cluster does not answer, or does not let us read.
pub(super) async fn snapshot(management: &Management, now: Timestamp) -> anyhow::Result<Snapshot> {
    let client = management.client();
    let version = client
        .apiserver_version()
        .await
        .context("failed to read the version of the API server")?;
    let kinds = nephele_api::crds();
    let managers = managers(client).await?;
    let validating: Vec<ValidatingWebhookConfiguration> = list(client, PROVIDER).await?;
    // The embedded API server of `nephele up` and `nephele demo` calls no webhooks, and its process plays every manager.
    let is_embedded = version.git_version == GIT_VERSION;
    let processes = match is_embedded {
        true => NEEDED.into_iter().chain([OURS]).map(str::to_owned).collect(),
        false => processes(&validating),
    };
    let definitions = definitions(client, &kinds).await?;
    let ours = managers.iter().find(|manager| manager.is_ours());
    let with_ipam = match ours {
        Some(ours) => ours
            .flag("roles")
            .is_none_or(|roles| roles.split(',').any(|role| role == "ipam")),
        None => processes.contains(OUR_IPAM),
    };
    // A process has no namespace of its own.
    let namespace = if ours.is_some() { NAMESPACE } else { "default" };
    Ok(Snapshot {
        kubernetes_minor: version
            .minor
            .trim_end_matches(|end: char| !end.is_ascii_digit())
            .parse()
            .unwrap_or(0),
        clock_ahead: clock_ahead(client).await?,
        without_authority: match is_embedded {
            true => Vec::new(),
            false => without_authority(client, &definitions, &validating).await?,
        },
        webhooks: match is_embedded {
            true => None,
            false => webhooks(management, with_ipam, namespace).await,
        },
        missing_rights: match ours {
            Some(ours) => missing_rights(client, ours, with_ipam).await?,
            None => Vec::new(),
        },
        pressures: pressures(client).await?,
        waiting: waiting(management).await?,
        unavailable: unavailable(client, now).await?,
        faults: faults(client).await?,
        definitions: definitions
            .iter()
            .map(|found| definition(found, &kinds))
            .collect(),
        managers,
        processes,
    })
}

/// Lists the objects of a kind in all namespaces.
async fn list<K>(client: &Client, labels: &str) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = ListParams::default().labels(labels);
    let listed = Api::<K>::all(client.clone()).list(&params).await;
    Ok(listed
        .with_context(|| format!("failed to list the objects of kind {}", K::kind(&())))?
        .items)
}

/// As [`list`], without a condition; none if the API server does not serve the kind.
async fn list_if_served<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    match list(client, "").await {
        Err(error) if matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404) => {
            Ok(Vec::new())
        }
        listed => listed,
    }
}

/// The difference between the time in an answer of the API server and ours.
async fn clock_ahead(client: &Client) -> anyhow::Result<SignedDuration> {
    let request = Request::get("/version")
        .body(Body::empty())
        .context("failed to make a request")?;
    let answer = client
        .send(request)
        .await
        .context("failed to ask the API server for its time")?;
    let ours = Timestamp::now();
    let date = answer
        .headers()
        .get(http::header::DATE)
        .and_then(|date| date.to_str().ok());
    let theirs = date
        .and_then(|date| rfc2822::parse(date).ok())
        .map(|date| date.timestamp());
    Ok(theirs.map_or(SignedDuration::ZERO, |theirs| theirs.duration_since(ours)))
}

async fn managers(client: &Client) -> anyhow::Result<Vec<Manager>> {
    let deployments: Vec<Deployment> = list(client, PROVIDER).await?;
    let pods: Vec<Pod> = list(client, PROVIDER).await?;
    Ok(deployments
        .iter()
        .map(|deployment| manager(deployment, &pods))
        .collect())
}

fn manager(deployment: &Deployment, pods: &[Pod]) -> Manager {
    let namespace = deployment.namespace().unwrap_or_default();
    let provider = deployment.labels().get(PROVIDER).cloned().unwrap_or_default();
    let pod = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let container = containers
        .iter()
        .find(|container| container.name == "manager")
        .or(containers.first());
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let available = deployment
        .status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    let is_available = available >= wanted.min(1);
    let mine = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.namespace().is_some_and(|of| of == namespace)
            && pod.labels().get(PROVIDER) == Some(&provider)
            // Pods that were evicted stay; they have a successor.
            && !matches!(phase, Some("Failed" | "Succeeded"))
    };
    let newest = pods
        .iter()
        .filter(mine)
        .max_by_key(|pod| pod.creation_timestamp());
    let trouble = newest
        .map(state_of_pod)
        .or_else(|| why_no_pods(deployment))
        .filter(|_| !is_available);
    Manager {
        name: deployment.name_any(),
        image: container
            .and_then(|container| container.image.clone())
            .unwrap_or_default(),
        args: container
            .and_then(|container| container.args.clone())
            .unwrap_or_default(),
        account: pod
            .and_then(|pod| pod.service_account_name.clone())
            .unwrap_or_else(|| "default".to_owned()),
        is_available,
        trouble,
        namespace,
        provider,
    }
}

/// The providers whose webhooks have an address instead of a Service.
fn processes(validating: &[ValidatingWebhookConfiguration]) -> BTreeSet<String> {
    let with_address = validating.iter().filter(|configuration| {
        let mut webhooks = configuration.webhooks.iter().flatten();
        webhooks.any(|webhook| webhook.client_config.url.is_some())
    });
    with_address
        .filter_map(|configuration| configuration.labels().get(PROVIDER).cloned())
        .collect()
}

/// The definitions of our kinds that the cluster has.
async fn definitions(
    client: &Client,
    ours: &[CustomResourceDefinition],
) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    let mut definitions: Vec<CustomResourceDefinition> = list(client, "").await?;
    definitions.retain(|found| ours.iter().any(|ours| ours.name_any() == found.name_any()));
    Ok(definitions)
}

fn definition(found: &CustomResourceDefinition, ours: &[CustomResourceDefinition]) -> Definition {
    let versions = |definition: &CustomResourceDefinition| -> Vec<String> {
        definition
            .spec
            .versions
            .iter()
            .map(|version| version.name.clone())
            .collect()
    };
    let name = found.name_any();
    let ours = ours.iter().find(|ours| ours.name_any() == name);
    let there = versions(found);
    Definition {
        provider: found.labels().get(PROVIDER).cloned().unwrap_or_default(),
        is_current: ours.is_none_or(|ours| versions(ours).iter().all(|version| there.contains(version))),
        name,
    }
}

/// The webhooks of ours that API servers cannot trust.
async fn without_authority(
    client: &Client,
    definitions: &[CustomResourceDefinition],
    validating: &[ValidatingWebhookConfiguration],
) -> anyhow::Result<Vec<String>> {
    let conversions = definitions.iter().filter(|definition| {
        let conversion = definition
            .spec
            .conversion
            .as_ref()
            .and_then(|conversion| conversion.webhook.as_ref());
        conversion.is_some_and(|webhook| {
            webhook
                .client_config
                .as_ref()
                .is_none_or(|config| config.ca_bundle.is_none())
        })
    });
    let mut names: Vec<_> = conversions.map(kube::ResourceExt::name_any).collect();
    let is_ours = |configuration: &&ValidatingWebhookConfiguration| {
        let provider = configuration.labels().get(PROVIDER);
        provider.is_some_and(|provider| [OURS, OUR_IPAM].contains(&provider.as_str()))
    };
    for configuration in validating.iter().filter(is_ours) {
        let webhooks = configuration.webhooks.iter().flatten();
        if webhooks
            .clone()
            .any(|webhook| webhook.client_config.ca_bundle.is_none())
        {
            names.push(configuration.name_any());
        }
    }
    let ours = format!("{PROVIDER} in ({OURS}, {OUR_IPAM})");
    for configuration in list::<MutatingWebhookConfiguration>(client, &ours).await? {
        let webhooks = configuration.webhooks.iter().flatten();
        if webhooks
            .clone()
            .any(|webhook| webhook.client_config.ca_bundle.is_none())
        {
            names.push(configuration.name_any());
        }
    }
    Ok(names)
}

/// Why the API server does not reach our webhooks, as it says itself.
async fn webhooks(management: &Management, with_ipam: bool, namespace: &str) -> Option<String> {
    for object in probes(with_ipam, namespace) {
        if let Err(error) = probe(management.kinds(), &object).await {
            return Some(nephele_controller::chain(error.as_ref()));
        }
    }
    None
}

/// The rights that the manager's account does not have, of those in its roles.
async fn missing_rights(client: &Client, manager: &Manager, with_ipam: bool) -> anyhow::Result<Vec<String>> {
    let namespace = manager.flag("namespace").unwrap_or_default();
    let wanted = Wanted {
        image: String::new(),
        on_nodes: false,
        ipam: with_ipam,
    };
    let questions: Vec<_> = objects(&wanted, &|_| None)?
        .iter()
        .filter(|object| {
            object["kind"] == "ClusterRole"
                && object["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.ends_with("manager"))
        })
        .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default())
        .flat_map(|rule| questions(&rule, namespace))
        .collect();
    let user = format!("system:serviceaccount:{}:{}", manager.namespace, manager.account);
    let groups = vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", manager.namespace),
        "system:authenticated".to_owned(),
    ];
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let ask = async |attributes: ResourceAttributes| -> anyhow::Result<Option<String>> {
        let name = right(&attributes);
        let spec = SubjectAccessReviewSpec {
            user: Some(user.clone()),
            groups: Some(groups.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.context("failed to ask for the rights of the manager's account")?;
        Ok((!answer.status.is_some_and(|status| status.allowed)).then_some(name))
    };
    let answers: Vec<_> = stream::iter(questions.into_iter().map(ask))
        .buffered(REVIEWS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(answers.into_iter().flatten().collect())
}

/// The questions whether an account has what a rule grants.
fn questions(rule: &Value, namespace: &str) -> Vec<ResourceAttributes> {
    let texts = |field: &str| -> Vec<String> {
        let texts = rule[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let mut questions = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            let (resource, part) = resource
                .split_once('/')
                .map_or((resource.as_str(), None), |(resource, part)| {
                    (resource, Some(part.to_owned()))
                });
            for verb in texts("verbs") {
                questions.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: part.clone(),
                    verb: Some(verb),
                    namespace: Some(namespace.to_owned()),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    questions
}

/// A right as `kubectl auth can-i` writes it.
fn right(attributes: &ResourceAttributes) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let part = attributes
        .subresource
        .as_ref()
        .map(|part| format!("/{part}"))
        .unwrap_or_default();
    let group = attributes.group.as_ref().filter(|group| !group.is_empty());
    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
    format!(
        "{} {}{part}{group}",
        text(&attributes.verb),
        text(&attributes.resource)
    )
}

async fn pressures(client: &Client) -> anyhow::Result<Vec<(String, String)>> {
    let mut pressures = Vec::new();
    for node in list::<Node>(client, "").await? {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        for condition in conditions.into_iter().flatten() {
            if PRESSURES.contains(&condition.type_.as_str()) && condition.status == "True" {
                pressures.push((node.name_any(), condition.type_.clone()));
            } else if condition.type_ == "Ready" && condition.status != "True" {
                pressures.push((node.name_any(), "NotReady".to_owned()));
            }
        }
    }
    Ok(pressures)
}

/// The Faults that something misbehaves because of, or that still hit.
async fn faults(client: &Client) -> anyhow::Result<Vec<Affecting>> {
    let faults = list_if_served::<Fault>(client).await?;
    Ok(faults.iter().filter_map(affecting).collect())
}

/// What a Fault does now; nothing if it does nothing.
fn affecting(fault: &Fault) -> Option<Affecting> {
    let status = fault.status.as_ref()?;
    let affected = status.affected.len() + status.claims.len();
    let hits = status.hits.unwrap_or_default();
    let still_hits = status.phase == "Active" && hits > 0;
    (affected > 0 || still_hits).then(|| Affecting {
        namespace: fault.namespace().unwrap_or_default(),
        name: fault.name_any(),
        effect: fault.spec.effect.as_ref().map(effect_name).unwrap_or_default(),
        phase: status.phase.clone(),
        affected,
        hits,
        cluster_fault: fault.labels().get(CLUSTER_FAULT_LABEL).cloned(),
    })
}

/// The Clusters of ours that have not been available for a while.
async fn unavailable(client: &Client, now: Timestamp) -> anyhow::Result<Vec<Waiting>> {
    let clusters = list_if_served::<Cluster>(client).await?;
    let waits = |cluster: &Cluster| {
        Some(Waiting {
            kind: "Cluster".to_owned(),
            name: format!(
                "{}/{}",
                cluster.namespace().unwrap_or_default(),
                cluster.name_any()
            ),
            message: why_unavailable(cluster, now)?,
        })
    };
    Ok(clusters.iter().filter_map(waits).collect())
}

/// The message of a Cluster of ours that is to be available and has not been for a while.
fn why_unavailable(cluster: &Cluster, now: Timestamp) -> Option<String> {
    let infrastructure = cluster.spec.infrastructure_ref.as_ref()?;
    let is_left_alone = cluster.metadata.deletion_timestamp.is_some()
        || cluster.spec.paused == Some(true)
        || infrastructure.kind != "InMemoryCluster";
    let available = conditions::find(&cluster.status.as_ref()?.conditions, AVAILABLE)?;
    let is_old = now.duration_since(available.last_transition_time.0) > COMES_UP_WITHIN;
    (!is_left_alone && available.status == conditions::FALSE && is_old).then(|| available.message.clone())
}

/// The InMemoryClusters and InMemoryMachines that wait for something that does not come by itself.
async fn waiting(management: &Management) -> anyhow::Result<Vec<Waiting>> {
    let mut waiting = Vec::new();
    for kind in ["InMemoryCluster", "InMemoryMachine"] {
        let gvk = kube::api::GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta2", kind);
        let Some((resource, _)) = management.kind(&gvk).await? else {
            continue;
        };
        let listed = management.all(&resource).list(&ListParams::default()).await;
        let listed = listed.with_context(|| format!("failed to list the objects of kind {kind}"))?;
        waiting.extend(listed.iter().filter_map(|object| {
            let name = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
            Some(Waiting {
                kind: kind.to_owned(),
                name,
                message: stuck(object)?,
            })
        }));
    }
    Ok(waiting)
}

/// The message of the first condition that says that something is wrong, and not merely under way.
fn stuck(object: &DynamicObject) -> Option<String> {
    let conditions = object.data.pointer("/status/conditions")?.clone();
    let conditions: Vec<Condition> = serde_json::from_value(conditions).ok()?;
    let is_stuck = |condition: &&Condition| {
        let under_way = [
            "WaitingFor",
            "NotReady",
            "NotPaused",
            "Paused",
            "Deleting",
            "NotUpToDate",
            "NotUpdating",
        ];
        condition.status == conditions::FALSE
            && !["Ready", "Paused", "Deleting", "Updating"].contains(&condition.type_.as_str())
            && !under_way
                .iter()
                .any(|reason| condition.reason.starts_with(reason))
    };
    let condition = conditions.iter().find(is_stuck)?;
    Some(format!("{}: {}", condition.reason, condition.message))
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_kind_whose_objects_may_not_be_listed_is_an_error_and_not_one_without_objects() {
        let management = ManagementApi::start();
        let none = list_if_served::<Fault>(&management.client()).await;
        assert_eq!(none.expect("it is served").len(), 0);
        let refused = management.forbidding(|_, path| path.contains("/faults"));
        assert!(list_if_served::<Fault>(&refused).await.is_err());
    }

    #[test]
    fn a_fault_is_told_while_it_affects_something_or_still_hits() {
        let told = |phase: &str, hits: i64, affected: Value| {
            let fault = json!({
                "metadata": {"namespace": "n", "name": "f", "labels": {CLUSTER_FAULT_LABEL: "c"}},
                "spec": {"effect": {"notReady": {}}},
                "status": {"phase": phase, "hits": hits, "affected": affected},
            });
            let affecting = affecting(&serde_json::from_value(fault).expect("a Fault"));
            affecting.map(|affecting| (affecting.affected, affecting.hits, affecting.cluster_fault))
        };
        let of = Some("c".to_owned());
        assert_eq!(
            told("Exhausted", 1, json!([{"cluster": "a"}])),
            Some((1, 1, of.clone()))
        );
        assert_eq!(told("Active", 3, json!([])), Some((0, 3, of)));
        assert_eq!(told("Active", 0, json!([])), None);
        assert_eq!(told("Exhausted", 3, json!([])), None);
    }

    #[test]
    fn a_cluster_of_ours_is_told_that_is_to_be_available_and_is_not() {
        let at = "2026-03-04T05:06:07Z";
        let told = |(part, field, value): (&str, &str, Value), minutes: i64| {
            let mut cluster = json!({
                "metadata": {"namespace": "n", "name": "c"},
                "spec": {"infrastructureRef": {"kind": "InMemoryCluster", "name": "c", "apiGroup": "g"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "R", "message": "why",
                    "lastTransitionTime": at}]},
            });
            cluster[part][field] = value;
            let now: Timestamp = at.parse().expect("a time");
            let cluster = serde_json::from_value(cluster).expect("a Cluster");
            why_unavailable(&cluster, now + SignedDuration::from_mins(minutes))
        };
        let as_it_is = || ("spec", "paused", json!(false));
        assert_eq!(told(as_it_is(), 3), Some("why".to_owned()));
        assert_eq!(told(as_it_is(), 1), None);
        for left_alone in [
            ("metadata", "deletionTimestamp", json!(at)),
            ("spec", "paused", json!(true)),
            (
                "spec",
                "infrastructureRef",
                json!({"kind": "AWSCluster", "name": "c", "apiGroup": "g"}),
            ),
        ] {
            let called = format!("{left_alone:?}");
            assert_eq!(told(left_alone, 3), None, "{called}");
        }
    }
}
