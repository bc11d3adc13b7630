//! `nephele fault preview`: what a Fault or a ClusterFault would hit, by the matchers of the providers themselves. It reads
//! objects and writes nothing.

use std::{collections::BTreeMap, fmt::Debug, process::ExitCode, sync::Arc};

use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource, ResourceExt as _, core::NamespaceResourceScope};
use nephele_api::{
    cloud::v1alpha1::{ClusterFaultSpec, FaultBudget, FaultSpec, SimulatedCloud},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
    ipam::v1beta2::IPAddressClaim,
};
use nephele_controller::scoped;
use nephele_fault::{Mistake, cluster, is_of_addresses};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::flags::{NamespaceArgs, SpecArgs};
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    objects::listed,
    output::print,
};

pub(super) const AFTER_HELP: &str = "Examples:
  nephele fault preview notReady --zone zone-a --count 1
  nephele fault preview 'addresses: {exhausted: {}}' --namespace-selector workshop=true";

/// The most namespaces of a ClusterFault that are told of one by one, and the most names of each kind in one of them.
const NAMESPACES_MAX: usize = 20;
const NAMES_MAX: usize = 20;

/// The Fault, with the flags of `nephele fault add`.
#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    namespaces: NamespaceArgs,
    #[command(flatten)]
    wanted: SpecArgs,
}

/// Prints what the Fault would select.
pub(super) async fn run(args: PreviewArgs) -> anyhow::Result<ExitCode> {
    let PreviewArgs {
        access,
        namespaces,
        wanted,
    } = args;
    let wrong = |why: String| Problem::new(Exit::Failed, format!("failed to preview the Fault: {why}"));
    let is_one = namespaces.is_one();
    let spec: ClusterFaultSpec = serde_json::from_value(Value::Object(namespaces.spec(wanted)))
        .map_err(|error| wrong(error.to_string()))?;
    let access = access.open().await?;
    let namespace = is_one.then_some(&*access.namespace);
    let places = match namespace {
        Some(namespace) => Places::one(namespace),
        None => Places::new(&spec, &listed(&Api::all(access.client.clone()), "").await?),
    };
    let objects = Objects::list(&access.client, namespace, &spec.fault).await?;
    let selections = objects.selections(&spec.fault, places.selected, Timestamp::now());
    let selections = selections.map_err(|mistake| wrong(mistake.to_string()))?;
    let text = match namespace {
        Some(namespace) => of_fault(namespace, &spec.fault.budget, &selections),
        None => of_cluster_fault(places.all, &spec.fault.budget, &selections),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The namespaces that are selected, by name, and how many there are.
struct Places {
    selected: Vec<String>,
    all: usize,
}

impl Places {
    fn one(namespace: &str) -> Self {
        Self {
            selected: vec![namespace.to_owned()],
            all: 1,
        }
    }

    /// The namespaces of a ClusterFault.
    fn new(spec: &ClusterFaultSpec, namespaces: &[Namespace]) -> Self {
        let mut selected: Vec<_> = cluster::selected(spec, namespaces)
            .into_iter()
            .map(str::to_owned)
            .collect();
        selected.sort();
        Self {
            selected,
            all: namespaces.len(),
        }
    }
}

type ByNamespace<K> = BTreeMap<String, Vec<Arc<K>>>;

/// The objects that decide what a Fault selects.
enum Objects {
    /// A Fault of machines or clusters.
    OfCloud {
        clusters: ByNamespace<InMemoryCluster>,
        machines: ByNamespace<InMemoryMachine>,
        owning_clusters: ByNamespace<Cluster>,
        owning_machines: ByNamespace<Machine>,
        simulated_clouds: ByNamespace<SimulatedCloud>,
    },
    /// A Fault of addresses.
    OfPools {
        claims: ByNamespace<IPAddressClaim>,
        clusters: ByNamespace<Cluster>,
    },
}

impl Objects {
    /// The objects of a namespace, or of all.
    async fn list(client: &Client, namespace: Option<&str>, spec: &FaultSpec) -> Result<Self, Problem> {
        Ok(match is_of_addresses(spec) {
            true => Self::OfPools {
                claims: by_namespace(client, namespace).await?,
                clusters: by_namespace(client, namespace).await?,
            },
            false => Self::OfCloud {
                clusters: by_namespace(client, namespace).await?,
                machines: by_namespace(client, namespace).await?,
                owning_clusters: by_namespace(client, namespace).await?,
                owning_machines: by_namespace(client, namespace).await?,
                simulated_clouds: by_namespace(client, namespace).await?,
            },
        })
    }

    /// What a Fault selects in each of these namespaces.
    fn selections(
        mut self,
        spec: &FaultSpec,
        namespaces: Vec<String>,
        now: Timestamp,
    ) -> Result<Vec<(String, Selection)>, Mistake> {
        let selections = namespaces.into_iter().map(|namespace| {
            let selection = self.selection(spec, &namespace, now)?;
            Ok((namespace, selection))
        });
        selections.collect()
    }

    /// Takes the objects of a namespace, and says what a Fault selects among them.
    fn selection(&mut self, spec: &FaultSpec, namespace: &str, now: Timestamp) -> Result<Selection, Mistake> {
        match self {
            Self::OfCloud {
                clusters,
                machines,
                owning_clusters,
                owning_machines,
                simulated_clouds,
            } => {
                let objects = nephele_infra_controller::Objects {
                    clusters: clusters.remove(namespace).unwrap_or_default(),
                    machines: machines.remove(namespace).unwrap_or_default(),
                    owning_clusters: owning_clusters.remove(namespace).unwrap_or_default(),
                    owning_machines: owning_machines.remove(namespace).unwrap_or_default(),
                    simulated_clouds: simulated_clouds.remove(namespace).unwrap_or_default(),
                };
                Selection::of_cloud(spec, &objects)
            }
            Self::OfPools { claims, clusters } => {
                let objects = nephele_ipam_controller::Objects {
                    claims: claims.remove(namespace).unwrap_or_default(),
                    clusters: clusters.remove(namespace).unwrap_or_default(),
                };
                Selection::of_pools(spec, &objects, now)
            }
        }
    }
}

async fn by_namespace<K>(client: &Client, namespace: Option<&str>) -> Result<ByNamespace<K>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = scoped(client.clone(), namespace);
    let place = namespace.map_or_else(
        || " in all namespaces".to_owned(),
        |namespace| format!(" in namespace {namespace}"),
    );
    let mut objects = ByNamespace::new();
    for object in listed(&api, &place).await? {
        let namespace = object.namespace().unwrap_or_default();
        objects.entry(namespace).or_default().push(Arc::new(object));
    }
    Ok(objects)
}

/// What a Fault selects in a namespace.
#[derive(Debug, Default, PartialEq)]
struct Selection {
    shares: Vec<Share>,
    /// What it hits, also of what is not there yet.
    hits: Option<String>,
}

/// A part of the objects of a kind.
#[derive(Debug, Default, PartialEq)]
struct Share {
    word: &'static str,
    /// The kind, as `kubectl` takes it.
    resource: &'static str,
    names: Vec<String>,
    of: usize,
}

impl Selection {
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

    fn is_nothing(&self) -> bool {
        self.shares.iter().all(|share| share.names.is_empty())
    }
}

/// What a Fault selects in its namespace, and what of that its budget lets it hit.
fn of_fault(namespace: &str, budget: &FaultBudget, selections: &[(String, Selection)]) -> String {
    let mut text = String::new();
    for (_, selection) in selections {
        let told = told(&selection.shares);
        text += &format!("The Fault selects {told} in namespace {namespace}.\n");
        text += &named(&selection.shares, usize::MAX);
        text += &hits(selection);
    }
    text + &limits(budget, "Of what it matches")
}

/// What a ClusterFault selects in its namespaces, of so many, and what of that its budget lets it hit in each.
fn of_cluster_fault(all: usize, budget: &FaultBudget, selections: &[(String, Selection)]) -> String {
    let plural = if all == 1 { "" } else { "s" };
    let mut text = format!(
        "The ClusterFault selects {} of {all} namespace{plural}.\n",
        selections.len()
    );
    let (hit, empty): (Vec<_>, Vec<_>) = selections
        .iter()
        .partition(|(_, selection)| !selection.is_nothing());
    for (namespace, selection) in hit.iter().take(NAMESPACES_MAX) {
        text += &format!(
            "In namespace {namespace} it selects {}.\n",
            told(&selection.shares)
        );
        text += &named(&selection.shares, NAMES_MAX);
    }
    match hit.len().saturating_sub(NAMESPACES_MAX) {
        0 => {}
        1 => text += "It selects something in 1 more namespace.\n",
        more => text += &format!("It selects something in {more} more namespaces.\n"),
    }
    match empty.len() {
        0 => {}
        1 => text += &format!("It selects nothing in namespace {}.\n", empty[0].0),
        empty => text += &format!("It selects nothing in {empty} of its namespaces.\n"),
    }
    // They depend on the effect alone.
    text += &selections
        .first()
        .map(|(_, selection)| hits(selection))
        .unwrap_or_default();
    text + &limits(budget, "Of what it matches in each namespace")
}

fn told(shares: &[Share]) -> String {
    let shares = shares.iter().map(|Share { word, names, of, .. }| {
        let plural = if *of == 1 { "" } else { "s" };
        format!("{} of {of} {word}{plural}", names.len())
    });
    shares.collect::<Vec<_>>().join(" and ")
}

/// The names of what is selected, a line each, and how many more there are.
fn named(shares: &[Share], most: usize) -> String {
    let of_share = |Share { resource, names, .. }: &Share| {
        let lines = names
            .iter()
            .take(most)
            .map(|name| format!("  {resource}/{name}\n"));
        let more = names.len().saturating_sub(most);
        let more = (more > 0).then(|| format!("  and {more} more\n"));
        lines.chain(more).collect::<String>()
    };
    shares.iter().map(of_share).collect()
}

fn hits(selection: &Selection) -> String {
    let hits = selection.hits.as_ref();
    hits.map(|hits| format!("It hits {hits}.\n")).unwrap_or_default()
}

/// What of it the budget lets the Fault hit.
fn limits(budget: &FaultBudget, of_what: &str) -> String {
    let FaultBudget {
        skip,
        probability,
        count,
        ..
    } = budget;
    let limits = [
        skip.map(|skip| format!("spares the first {skip}")),
        probability
            .as_ref()
            .map(|probability| format!("hits each with probability {}", probability.get())),
        count.map(|count| format!("hits at most {count}")),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if limits.is_empty() {
        return String::new();
    }
    format!("{of_what}, it {}.\n", limits.join(", "))
}

#[cfg(test)]
mod tests;
