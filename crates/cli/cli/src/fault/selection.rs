//! What a Fault or a ClusterFault selects of what is there, by the matchers of the providers themselves.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource, ResourceExt as _, core::NamespaceResourceScope};
use nephele_api::cloud::v1alpha1::{ClusterFaultSpec, FaultMatch, FaultSpec};
use nephele_controller::scoped;
use nephele_fault::{Mistake, cluster, is_of_addresses};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::flags::flag_of_match;
use crate::{exit::Problem, objects::listed};

/// The namespaces that are selected, by name, with the objects there that decide what a Fault selects.
pub(super) struct Places {
    selected: BTreeMap<String, Candidates>,
    /// How many namespaces there are.
    pub(super) of: usize,
}

/// The objects of a namespace that decide what a Fault selects there.
enum Candidates {
    /// For a Fault of machines or clusters.
    OfCloud(nephele_infra_controller::Objects),
    /// For a Fault of addresses.
    OfPools(nephele_ipam_controller::Objects),
}

impl Places {
    /// Lists the objects of a namespace, or of those of a ClusterFault.
    pub(super) async fn list(
        client: &Client,
        namespace: Option<&str>,
        spec: &ClusterFaultSpec,
    ) -> Result<Self, Problem> {
        let (selected, of) = match namespace {
            Some(namespace) => (vec![namespace.to_owned()], 1),
            None => {
                let all: Vec<Namespace> = listed(&Api::all(client.clone()), "").await?;
                let selected = cluster::selected(spec, &all).into_iter().map(str::to_owned);
                (selected.collect(), all.len())
            }
        };
        let selected = match is_of_addresses(&spec.fault) {
            true => of_pools(client, namespace, selected).await?,
            false => of_cloud(client, namespace, selected).await?,
        };
        Ok(Self { selected, of })
    }

    /// What a Fault selects in each namespace.
    pub(super) fn selections(
        &self,
        spec: &FaultSpec,
        now: Timestamp,
    ) -> Result<Vec<(String, Selection)>, Mistake> {
        let selections = self.selected.iter().map(|(namespace, candidates)| {
            let selection = match candidates {
                Candidates::OfCloud(objects) => Selection::of_cloud(spec, objects)?,
                Candidates::OfPools(objects) => Selection::of_pools(spec, objects, now)?,
            };
            Ok((namespace.clone(), selection))
        });
        selections.collect()
    }

    /// What there is to select, and the flag without which a Fault would select most of it; nothing if it selects something.
    pub(super) fn why_nothing(&self, spec: &FaultSpec, now: Timestamp) -> Option<String> {
        if self.selected.is_empty() {
            return Some(format!("It selects none of {} namespaces", self.of));
        }
        let selection = self.sum(spec, now)?;
        // Where nothing is, it is there before what it will hit.
        if !selection.is_nothing() || selection.shares.iter().all(|share| share.of == 0) {
            return None;
        }
        let mut text = format!(
            "It selects nothing that is there now: {}",
            told(&selection.shares)
        );
        let wider = wider(&spec.matches).into_iter().filter_map(|(flag, matches)| {
            let wider = FaultSpec {
                matches,
                ..spec.clone()
            };
            let Selection { shares, .. } = self.sum(&wider, now)?;
            let selected: usize = shares.iter().map(|share| share.names.len()).sum();
            (selected > 0).then_some((selected, flag, shares))
        });
        if let Some((_, flag, shares)) = wider.max_by_key(|(selected, ..)| *selected) {
            text += &format!(". Without {flag} it would select {}", told(&shares));
        }
        Some(text)
    }

    /// What a Fault selects in all namespaces together; nothing if it cannot be used.
    fn sum(&self, spec: &FaultSpec, now: Timestamp) -> Option<Selection> {
        let selections = self.selections(spec, now).ok()?.into_iter();
        selections.map(|(_, selection)| selection).reduce(|mut sum, one| {
            for (share, more) in sum.shares.iter_mut().zip(one.shares) {
                share.names.extend(more.names);
                share.of += more.of;
            }
            sum
        })
    }
}

/// What a Fault matches without one of its conditions, for each, with the flag that makes it.
fn wider(matches: &FaultMatch) -> Vec<(&'static str, FaultMatch)> {
    let Ok(Value::Object(conditions)) = serde_json::to_value(matches) else {
        return Vec::new();
    };
    let wider = conditions.keys().filter_map(|condition| {
        let mut others = conditions.clone();
        others.remove(condition);
        let others = serde_json::from_value(Value::Object(others)).ok()?;
        Some((flag_of_match(condition)?, others))
    });
    wider.collect()
}

async fn of_cloud(
    client: &Client,
    namespace: Option<&str>,
    selected: Vec<String>,
) -> Result<BTreeMap<String, Candidates>, Problem> {
    let mut clusters = by_namespace(client, namespace).await?;
    let mut machines = by_namespace(client, namespace).await?;
    let mut owning_clusters = by_namespace(client, namespace).await?;
    let mut owning_machines = by_namespace(client, namespace).await?;
    let mut simulated_clouds = by_namespace(client, namespace).await?;
    let candidates = selected.into_iter().map(|namespace| {
        let objects = nephele_infra_controller::Objects {
            clusters: clusters.remove(&namespace).unwrap_or_default(),
            machines: machines.remove(&namespace).unwrap_or_default(),
            owning_clusters: owning_clusters.remove(&namespace).unwrap_or_default(),
            owning_machines: owning_machines.remove(&namespace).unwrap_or_default(),
            simulated_clouds: simulated_clouds.remove(&namespace).unwrap_or_default(),
        };
        (namespace, Candidates::OfCloud(objects))
    });
    Ok(candidates.collect())
}

async fn of_pools(
    client: &Client,
    namespace: Option<&str>,
    selected: Vec<String>,
) -> Result<BTreeMap<String, Candidates>, Problem> {
    let mut claims = by_namespace(client, namespace).await?;
    let mut clusters = by_namespace(client, namespace).await?;
    let candidates = selected.into_iter().map(|namespace| {
        let objects = nephele_ipam_controller::Objects {
            claims: claims.remove(&namespace).unwrap_or_default(),
            clusters: clusters.remove(&namespace).unwrap_or_default(),
        };
        (namespace, Candidates::OfPools(objects))
    });
    Ok(candidates.collect())
}

async fn by_namespace<K>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<BTreeMap<String, Vec<Arc<K>>>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = scoped(client.clone(), namespace);
    let place = namespace.map_or_else(
        || " in all namespaces".to_owned(),
        |namespace| format!(" in namespace {namespace}"),
    );
    let mut objects = BTreeMap::<_, Vec<_>>::new();
    for object in listed(&api, &place).await? {
        let namespace = object.namespace().unwrap_or_default();
        objects.entry(namespace).or_default().push(Arc::new(object));
    }
    Ok(objects)
}

/// What a Fault selects in a namespace.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Selection {
    pub(super) shares: Vec<Share>,
    /// What it hits, also of what is not there yet.
    pub(super) hits: Option<String>,
}

/// A part of the objects of a kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Share {
    pub(super) word: &'static str,
    /// The kind, as `kubectl` takes it.
    pub(super) resource: &'static str,
    pub(super) names: Vec<String>,
    pub(super) of: usize,
}

impl Selection {
    /// What a Fault selects where nothing is.
    ///
    /// # Errors
    /// With the first field that cannot be used.
    pub(super) fn of_nothing(spec: &FaultSpec) -> Result<Self, Mistake> {
        match is_of_addresses(spec) {
            true => Self::of_pools(
                spec,
                &nephele_ipam_controller::Objects::default(),
                Timestamp::UNIX_EPOCH,
            ),
            false => Self::of_cloud(spec, &nephele_infra_controller::Objects::default()),
        }
    }

    fn of_cloud(spec: &FaultSpec, objects: &nephele_infra_controller::Objects) -> Result<Self, Mistake> {
        let previewed = nephele_infra_controller::preview(spec, objects)?;
        let operations: Vec<_> = previewed
            .operations
            .iter()
            .map(|operation| operation.as_str())
            .collect();
        let hits = || {
            format!(
                "these operations, also on machines to come: {}",
                operations.join(", ")
            )
        };
        Ok(Self {
            shares: vec![
                Share {
                    word: "machine",
                    resource: "inmemorymachine",
                    names: previewed.machines,
                    of: objects.machines.len(),
                },
                Share {
                    word: "cluster",
                    resource: "cluster",
                    names: previewed.clusters,
                    of: objects.clusters.len(),
                },
            ],
            hits: (!operations.is_empty()).then(hits),
        })
    }

    fn of_pools(
        spec: &FaultSpec,
        objects: &nephele_ipam_controller::Objects,
        now: Timestamp,
    ) -> Result<Self, Mistake> {
        let previewed = nephele_ipam_controller::preview(spec, objects, now)?;
        Ok(Self {
            shares: vec![Share {
                word: "claim",
                resource: "ipaddressclaim",
                names: previewed.claims,
                of: objects.claims.len(),
            }],
            hits: Some(previewed.moment.as_str().to_owned()),
        })
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.shares.iter().all(|share| share.names.is_empty())
    }
}

/// How many of what is there are selected, in words.
pub(super) fn told(shares: &[Share]) -> String {
    let shares = shares.iter().map(|Share { word, names, of, .. }| {
        let plural = if *of == 1 { "" } else { "s" };
        format!("{} of {of} {word}{plural}", names.len())
    });
    shares.collect::<Vec<_>>().join(" and ")
}
