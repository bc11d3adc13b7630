//! In which order objects are created, and what they look like when they are. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Resource as _, ResourceExt as _,
    core::{DynamicObject, gvk::GroupVersion},
};
use nephele_api::{
    cloud::{self, RESTORING_ANNOTATION},
    core, ipam, labels,
};
use nephele_controller::PAUSED_ANNOTATION;
use serde_json::{Value, json};

/// The value of the annotations that keep controllers away from an object.
const REASON: &str = "a checkpoint is being restored";

/// What an object is for the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// It exists before clusters do: SimulatedClouds, Faults, pools, templates.
    Surroundings,
    /// A Cluster, or of one.
    Clusters,
}

/// Objects that can be created at the same time.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) part: Part,
    pub(crate) objects: Vec<DynamicObject>,
}

/// All objects, the surroundings before the clusters, and in both owners before what they own.
pub(crate) fn generations(objects: Vec<DynamicObject>) -> Vec<Generation> {
    let parts = parts(&objects);
    let mut left: Vec<_> = objects.into_iter().zip(parts).collect();
    let mut generations = Vec::new();
    for part in [Part::Surroundings, Part::Clusters] {
        loop {
            // Owners that are not in the checkpoint keep no object waiting.
            let waiting: BTreeSet<_> = left.iter().filter_map(|(object, _)| object.uid()).collect();
            let can_begin = |(object, of): &(DynamicObject, Part)| {
                *of == part
                    && !object
                        .owner_references()
                        .iter()
                        .any(|owner| waiting.contains(&owner.uid))
            };
            let (begin, later): (Vec<_>, Vec<_>) = left.into_iter().partition(can_begin);
            left = later;
            if begin.is_empty() {
                break;
            }
            let objects = begin.into_iter().map(|(object, _)| object).collect();
            generations.push(Generation { part, objects });
        }
    }
    // Only owners that own each other are left. No controller makes such objects.
    if !left.is_empty() {
        let objects = left.into_iter().map(|(object, _)| object).collect();
        generations.push(Generation {
            part: Part::Clusters,
            objects,
        });
    }
    generations
}

/// The part of each object. What a Cluster owns, directly or not, is of the Clusters.
fn parts(objects: &[DynamicObject]) -> Vec<Part> {
    let mut of_clusters: BTreeSet<String> = BTreeSet::new();
    loop {
        let before = of_clusters.len();
        for object in objects {
            let is_owned = object
                .owner_references()
                .iter()
                .any(|owner| of_clusters.contains(&owner.uid));
            if is_cluster(object) || object.labels().contains_key(labels::CLUSTER_NAME) || is_owned {
                of_clusters.extend(object.uid());
            }
        }
        if of_clusters.len() == before {
            break;
        }
    }
    let part = |object: &DynamicObject| match object.uid() {
        Some(uid) if of_clusters.contains(&uid) => Part::Clusters,
        _ => Part::Surroundings,
    };
    objects.iter().map(part).collect()
}

/// How an object is created: without what the API server sets, with the new uids of its owners, and so that nothing acts
/// on it. Owners that are not in the checkpoint are dropped.
pub(crate) fn prepared(object: &DynamicObject, part: Part, uids: &BTreeMap<String, String>) -> DynamicObject {
    let mut object = object.clone();
    if let Some(fields) = object.data.as_object_mut() {
        fields.remove("status");
    }
    let owners = object.owner_references_mut();
    owners.retain_mut(|owner| match uids.get(&owner.uid) {
        Some(uid) => {
            owner.uid.clone_from(uid);
            true
        }
        None => false,
    });
    if is_cluster(&object) {
        object.data["spec"]["paused"] = json!(true);
    }
    let annotations = annotations(&object, part);
    let metadata = object.meta_mut();
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.creation_timestamp = None;
    metadata.generation = None;
    metadata.managed_fields = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    for name in annotations {
        object
            .annotations_mut()
            .insert(name.to_owned(), REASON.to_owned());
    }
    object
}

/// The annotations that keep controllers away from an object and that it does not have already.
fn annotations(object: &DynamicObject, part: Part) -> Vec<&'static str> {
    let mut names = Vec::new();
    if part == Part::Surroundings && !group(object).is_empty() {
        names.push(PAUSED_ANNOTATION);
        if group(object) == cloud::GROUP {
            names.push(RESTORING_ANNOTATION);
        }
    }
    names.retain(|name| !object.annotations().contains_key(*name));
    names
}

/// The merge patch that lets controllers act on a restored object as they did when it was saved. None if nothing keeps
/// them away.
pub(crate) fn resumed(saved: &DynamicObject, part: Part) -> Option<Value> {
    if is_cluster(saved) {
        let was_paused = saved.data["spec"].get("paused").cloned().unwrap_or_default();
        return (was_paused != json!(true)).then(|| json!({ "spec": { "paused": was_paused } }));
    }
    let annotations: serde_json::Map<_, _> = annotations(saved, part)
        .into_iter()
        .map(|name| (name.to_owned(), Value::Null))
        .collect();
    (!annotations.is_empty()).then(|| json!({ "metadata": { "annotations": annotations } }))
}

/// The status for an object that has just been created. Numbers of generations begin at one.
pub(crate) fn status(saved: &DynamicObject, generation: Option<i64>) -> Option<Value> {
    let mut status = saved
        .data
        .get("status")
        .filter(|status| !status.is_null())?
        .clone();
    let renumber = |holder: &mut Value| {
        let Some(observed) = holder.get("observedGeneration").and_then(Value::as_i64) else {
            return;
        };
        let is_current = Some(observed) == saved.metadata.generation;
        match (is_current, generation) {
            (true, Some(generation)) => holder["observedGeneration"] = json!(generation),
            _ => drop(
                holder
                    .as_object_mut()
                    .map(|fields| fields.remove("observedGeneration")),
            ),
        }
    };
    renumber(&mut status);
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.iter_mut().for_each(renumber);
    }
    Some(status)
}

/// The status of a Fault with the new uids of the IPAddressClaims that it holds, which are created after it. None for an object
/// that holds none. A claim that is not in the checkpoint is gone, and its address is known by its name.
pub(crate) fn held_claims(saved: &DynamicObject, uids: &BTreeMap<String, String>) -> Option<Value> {
    let mut claims = saved.data.pointer("/status/claims")?.clone();
    let all = claims
        .as_array_mut()
        .filter(|claims| is_fault(saved) && !claims.is_empty())?;
    for claim in all {
        let uid = claim["uid"].as_str().and_then(|uid| uids.get(uid));
        if let Some(uid) = uid {
            claim["uid"] = json!(uid);
        }
    }
    Some(json!({ "status": { "claims": claims } }))
}

/// Whether it holds IPAddressClaims, and has to know them again before it acts.
pub(crate) fn holds_claims(saved: &DynamicObject) -> bool {
    held_claims(saved, &BTreeMap::new()).is_some()
}

/// Whether it is an IPAddressClaim without a Cluster. It asks for an address as soon as it is resumed.
pub(crate) fn is_lone_claim(saved: &DynamicObject, part: Part) -> bool {
    part == Part::Surroundings && group(saved) == ipam::GROUP && kind(saved) == "IPAddressClaim"
}

fn is_fault(object: &DynamicObject) -> bool {
    group(object) == cloud::GROUP && kind(object) == "Fault"
}

/// Whether it is a Cluster of Cluster API.
pub(crate) fn is_cluster(object: &DynamicObject) -> bool {
    group(object) == core::GROUP && kind(object) == "Cluster"
}

/// Whether it is a Scenario, which acts on clusters.
pub(crate) fn is_scenario(object: &DynamicObject) -> bool {
    group(object) == cloud::GROUP && kind(object) == "Scenario"
}

fn group(object: &DynamicObject) -> String {
    let version = object
        .types
        .as_ref()
        .and_then(|types| types.api_version.parse::<GroupVersion>().ok());
    version.map(|version| version.group).unwrap_or_default()
}

fn kind(object: &DynamicObject) -> &str {
    object
        .types
        .as_ref()
        .map(|types| types.kind.as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
