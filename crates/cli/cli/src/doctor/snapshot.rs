//! What a doctor looks at, as plain values.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use crate::args;

/// A management cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// Minor version of Kubernetes 1.
    pub(super) kubernetes_minor: u32,
    /// How far the clock of the API server is ahead of this machine's.
    pub(super) clock_ahead: SignedDuration,
    /// The managers of Cluster API's providers, ours among them.
    pub(super) managers: Vec<Manager>,
    /// The providers whose managers are no pods, but processes: their webhooks have an address instead of a Service, or
    /// `nephele up` plays them.
    pub(super) processes: BTreeSet<String>,
    pub(super) definitions: Vec<Definition>,
    /// Names of webhook configurations and definitions that have no certificate authority.
    pub(super) without_authority: Vec<String>,
    /// Why the API server does not reach our webhooks.
    pub(super) webhooks: Option<String>,
    /// What the manager's account may not do, as `verb resource.group`.
    pub(super) missing_rights: Vec<String>,
    /// Conditions of nodes that evict pods or refuse new ones: node and condition.
    pub(super) pressures: Vec<(String, String)>,
    /// InMemoryClusters and InMemoryMachines that are not ready: kind, name, and the message of the condition.
    pub(super) waiting: Vec<Waiting>,
    /// Clusters that have not been available for a while. It may be their clock, or what they boot.
    pub(super) unavailable: Vec<Waiting>,
    /// Faults that something misbehaves because of, or that still hit.
    pub(super) faults: Vec<Affecting>,
}

/// A Fault that explains what is seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Affecting {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) effect: String,
    pub(super) phase: String,
    /// How many machines, clusters and claims misbehave because of it.
    pub(super) affected: usize,
    /// How often it has hit.
    pub(super) hits: i64,
    /// The ClusterFault that it belongs to; it would be made again.
    pub(super) cluster_fault: Option<String>,
}

/// The manager of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manager {
    /// clusterctl's label of the provider: `cluster-api`.
    pub(super) provider: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) image: String,
    pub(super) args: Vec<String>,
    pub(super) account: String,
    pub(super) is_available: bool,
    /// What keeps its pods from being ready.
    pub(super) trouble: Option<String>,
}

/// A definition of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// clusterctl's label of the provider that it belongs to.
    pub(super) provider: String,
    /// Whether it has all versions that this program knows.
    pub(super) is_current: bool,
}

/// An object that waits for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) message: String,
}

/// The providers of Cluster API that every cluster with a KubeadmControlPlane needs, with clusterctl's labels of them.
pub(super) const NEEDED: [&str; 3] = ["cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"];
/// clusterctl's label of our infrastructure provider.
pub(super) const OURS: &str = "infrastructure-in-memory";

impl Manager {
    /// Whether it is one of ours, with the role of the infrastructure provider.
    pub(super) fn is_ours(&self) -> bool {
        self.provider == OURS
    }

    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        args::value(&self.args, name)
    }

    /// Whether a feature gate is on; `None` if the flag does not name it.
    pub(super) fn gate(&self, name: &str) -> Option<bool> {
        let gates = self
            .flag("feature-gates")?
            .split(',')
            .filter_map(|gate| gate.split_once('='));
        gates
            .filter(|(gate, _)| *gate == name)
            .map(|(_, value)| value == "true")
            .next_back()
    }

    /// The minor version of Cluster API 1 in the tag of its image.
    pub(super) fn minor(&self) -> Option<u32> {
        let (_, tag) = self.image.rsplit_once(':')?;
        tag.strip_prefix("v1.")?.split('.').next()?.parse().ok()
    }
}
