//! The decision which clusters are forwarded. Pure: from the clusters that exist and the current forwards follow the
//! forwards to close and to open, and the clusters that have to wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use nephele_api::{core::Cluster, infrastructure};

use crate::label::label;

/// A cluster: namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClusterId {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ClusterId {
    /// `name`, or `namespace/name`.
    pub(super) fn parse(text: &str, namespace: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// The clusters that the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    Named(BTreeSet<ClusterId>),
    All,
}

/// What a cluster's API server is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    /// The cluster that is meant. One of the same name that comes later has other certificates.
    pub(super) uid: String,
    pub(super) host: String,
    pub(super) port: u16,
}

/// A cluster as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// It is of another infrastructure provider.
    NotOurs,
    /// It has no endpoint yet.
    Starting,
    Reachable(Backend),
}

impl Observed {
    pub(super) fn of(cluster: &Cluster) -> Self {
        match &cluster.spec.infrastructure_ref {
            Some(reference) if reference.is(infrastructure::GROUP, "InMemoryCluster") => {}
            // The topology controller sets the reference a moment after the creation.
            None => return Self::Starting,
            Some(_) => return Self::NotOurs,
        }
        let endpoint = cluster.spec.control_plane_endpoint.as_ref();
        match endpoint.map(|endpoint| (endpoint, u16::try_from(endpoint.port))) {
            Some((endpoint, Ok(port))) if port != 0 => Self::Reachable(Backend {
                uid: cluster.metadata.uid.clone().unwrap_or_default(),
                host: endpoint.host.clone(),
                port,
            }),
            Some(_) | None => Self::Starting,
        }
    }
}

/// Why a cluster that was asked for by name is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Missing,
    NotOurs,
    Starting,
}

/// A current forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Current {
    pub(super) backend: Backend,
    pub(super) label: String,
}

/// A forward to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) id: ClusterId,
    pub(super) backend: Backend,
    /// The name of its kubeconfig and context, unique among the forwards.
    pub(super) label: String,
}

/// What to do. Closing comes first, so that the ports are free.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) close: Vec<ClusterId>,
    pub(super) open: Vec<Opening>,
    pub(super) waiting: BTreeMap<ClusterId, Waiting>,
}

pub(super) fn plan(
    selection: &Selection,
    observed: &BTreeMap<ClusterId, Observed>,
    current: &BTreeMap<ClusterId, Current>,
) -> Plan {
    let mut plan = Plan::default();
    let wanted: BTreeSet<&ClusterId> = match selection {
        Selection::Named(names) => names.iter().collect(),
        Selection::All => observed.keys().collect(),
    };
    let mut labels: BTreeSet<String> = BTreeSet::new();
    for (id, forward) in current {
        let reachable = observed.get(id) == Some(&Observed::Reachable(forward.backend.clone()));
        if wanted.contains(id) && reachable {
            labels.insert(forward.label.clone());
        } else {
            plan.close.push(id.clone());
        }
    }
    for id in wanted {
        let waiting = match observed.get(id) {
            Some(Observed::Reachable(backend)) => {
                if !current.contains_key(id) || plan.close.contains(id) {
                    let label = label(&id.namespace, &id.name, |label| labels.contains(label));
                    labels.insert(label.clone());
                    plan.open.push(Opening {
                        id: id.clone(),
                        backend: backend.clone(),
                        label,
                    });
                }
                continue;
            }
            Some(Observed::Starting) => Waiting::Starting,
            // Of all clusters, only ours are meant.
            Some(Observed::NotOurs) if *selection == Selection::All => continue,
            Some(Observed::NotOurs) => Waiting::NotOurs,
            None => Waiting::Missing,
        };
        plan.waiting.insert(id.clone(), waiting);
    }
    plan
}

#[cfg(test)]
mod tests;
