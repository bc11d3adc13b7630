//! One simulated cluster: what it shall be, and what runs for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nephele_apiserver::{Key, Part, Propagation, Store, StoreError, StoreOptions};
use nephele_etcd::{EtcdCluster, Member, SharedEtcdCluster, member_id};
use nephele_pki::{Authority, IssueError};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::front::Front;
use crate::identity::{ClusterId, MachineAddress, MachineId, Role, Stage};
use crate::projection::{self, Component, Projected, Scope};
use crate::tls::{self, Credentials};

/// What a cluster shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Its name.
    pub id: ClusterId,
    /// Where it was published before, or where its user wants it; a missing part is chosen.
    pub endpoint: Option<Endpoint>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Pod networks.
    pub pod_cidrs: Vec<String>,
    /// Service networks.
    pub service_cidrs: Vec<String>,
    /// DNS domain of services.
    pub service_domain: String,
}

impl ClusterSpec {
    /// The `index`th address of the first service network, where kubeadm's convention puts the API server (1) and
    /// the DNS (10).
    pub(crate) fn service_address(&self, index: u8) -> String {
        let network = self.service_cidrs.first().map_or("", String::as_str);
        let base = network.split('/').next().unwrap_or_default().parse::<IpAddr>();
        match base {
            Ok(IpAddr::V6(base)) => {
                std::net::Ipv6Addr::from(u128::from(base) + u128::from(index)).to_string()
            }
            Ok(IpAddr::V4(base)) => {
                std::net::Ipv4Addr::from(u32::from(base).saturating_add(u32::from(index))).to_string()
            }
            Err(_) => format!("10.96.0.{index}"),
        }
    }
}

/// Where an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address or a DNS name; empty for "to be chosen".
    pub host: String,
    /// A port; zero for "to be chosen".
    pub port: u16,
}

/// The authorities of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    /// Of the API server and its clients.
    pub cluster: Authority,
    /// Of etcd.
    pub etcd: Option<Authority>,
}

/// How long a stage takes: `duration`, and up to `jitter` of it on top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartUp {
    /// The least it takes.
    pub duration: Duration,
    /// How much of it may come on top, 0 to 1.
    pub jitter: f64,
}

/// What a machine shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// Its name.
    pub id: MachineId,
    /// What it is to the cluster.
    pub role: Role,
    /// The Kubernetes version it runs, `v1.36.3`.
    pub version: String,
    /// Where it is.
    pub zone: Option<String>,
    /// How large it is.
    pub instance_type: Option<String>,
    /// How long its stages take; a missing one takes no time.
    pub start_up: BTreeMap<Stage, StartUp>,
    /// Its addresses as published before; none lets the cloud choose.
    pub addresses: Vec<MachineAddress>,
    /// The stages that it had reached before a restart, and when.
    pub reached: BTreeMap<Stage, Timestamp>,
}

/// A cluster that runs.
pub(crate) struct Cluster {
    pub(crate) spec: ClusterSpec,
    pub(crate) store: Arc<Store>,
    pub(crate) etcd: SharedEtcdCluster,
    pub(crate) front: Front,
    /// Ends everything that runs for the cluster.
    pub(crate) over: CancellationToken,
    state: Mutex<State>,
}

/// What changes while a cluster lives. Owned by the cluster; locked for short blocks.
#[derive(Default)]
struct State {
    machines: BTreeMap<String, MachineSpec>,
    authorities: Option<Authorities>,
    credentials: Option<Credentials>,
    /// Machines whose API server is up.
    backends: BTreeSet<String>,
}

impl Cluster {
    pub(crate) fn new(spec: ClusterSpec, front: Front, now: Timestamp) -> Self {
        let store = Store::new(StoreOptions {
            uid_seed: spec.id.to_string(),
            // Milliseconds grow faster than any cluster changes, so that versions grow over a restart.
            first_version: u64::try_from(now.as_millisecond()).unwrap_or(1),
            ..StoreOptions::default()
        });
        let etcd = EtcdCluster::new(member_id(&spec.id.to_string(), ""));
        let cluster = Self {
            store,
            etcd: Arc::new(Mutex::new(etcd)),
            front,
            over: CancellationToken::new(),
            state: Mutex::default(),
            spec,
        };
        let scope = Scope { cluster: &cluster.spec, at: cluster.spec.created_at };
        cluster.project(now, projection::base(&scope));
        cluster
    }

    /// Takes over authorities, and issues anew what they sign when they differ from before.
    pub(crate) fn set_authorities(&self, authorities: Authorities) -> Result<bool, IssueError> {
        let mut state = self.state.lock();
        if state.authorities.as_ref() == Some(&authorities) {
            return Ok(false);
        }
        let credentials = Credentials::issue(&self.spec, &authorities)?;
        self.front.set_tls(credentials.api_server.clone());
        state.credentials = Some(credentials);
        state.authorities = Some(authorities);
        Ok(true)
    }

    pub(crate) fn has_authorities(&self) -> bool {
        self.state.lock().authorities.is_some()
    }

    pub(crate) fn backends(&self) -> usize {
        self.state.lock().backends.len()
    }

    pub(crate) fn machine_count(&self) -> usize {
        self.state.lock().machines.len()
    }

    /// The machine as it is known, completed with addresses.
    pub(crate) fn machine(&self, name: &str) -> Option<MachineSpec> {
        self.state.lock().machines.get(name).cloned()
    }

    /// Takes a machine over: a new one gets addresses if it brings none, a known one keeps its own. Tells whether the
    /// version changed under a known machine.
    pub(crate) fn admit(&self, mut spec: MachineSpec) -> (MachineSpec, bool) {
        let mut state = self.state.lock();
        if let Some(known) = state.machines.get_mut(&spec.id.name) {
            let upgraded = known.version != spec.version;
            known.version.clone_from(&spec.version);
            return (known.clone(), upgraded);
        }
        if spec.addresses.is_empty() {
            let taken: BTreeSet<String> =
                state.machines.values().flat_map(|m| &m.addresses).map(|a| a.address.clone()).collect();
            let address = |kind: &str, address: String| MachineAddress { kind: kind.to_owned(), address };
            spec.addresses = vec![
                address("InternalIP", crate::address::pick(&spec.id, &taken)),
                address("Hostname", spec.id.name.clone()),
            ];
        }
        state.machines.insert(spec.id.name.clone(), spec.clone());
        (spec, false)
    }

    /// Forgets a machine that the engine never took.
    pub(crate) fn dismiss(&self, name: &str) {
        self.state.lock().machines.remove(name);
    }

    /// Lets be seen that a machine has reached a stage.
    pub(crate) fn on_stage(&self, now: Timestamp, machine: &str, stage: Stage, at: Timestamp) {
        let Some(spec) = self.machine(machine) else { return };
        let scope = Scope { cluster: &self.spec, at };
        match stage {
            Stage::Vm => {}
            Stage::Node => self.project(now, projection::node(&scope, &spec)),
            Stage::Etcd => {
                let address = spec.addresses.first().map_or("", |address| address.address.as_str());
                self.etcd.lock().add_member(Member {
                    id: member_id(&self.spec.id.to_string(), machine),
                    name: machine.to_owned(),
                    peer_urls: vec![format!("https://{address}:2380")],
                    client_urls: vec![format!("https://{address}:2379")],
                });
                self.project(now, vec![projection::static_pod(&scope, &spec, Component::Etcd)]);
            }
            Stage::ApiServer => {
                let pods = Component::ALL.into_iter().filter(|component| *component != Component::Etcd);
                let mut objects: Vec<_> =
                    pods.map(|component| projection::static_pod(&scope, &spec, component)).collect();
                let authority = self
                    .state
                    .lock()
                    .authorities
                    .as_ref()
                    .map(|a| a.cluster.certificate_pem())
                    .unwrap_or_default();
                objects.extend(projection::kubeadm(&scope, &spec.version, &authority));
                objects.extend(projection::addons(&scope, &spec.version));
                self.project(now, objects);
                let mut state = self.state.lock();
                state.backends.insert(machine.to_owned());
                self.front.set_backends(state.backends.len(), &spec.version);
            }
        }
    }

    /// The machine is going: what ran on it stops at once.
    pub(crate) fn on_stopping(&self, now: Timestamp, machine: &str) {
        self.etcd.lock().forget_member(member_id(&self.spec.id.to_string(), machine));
        let version = self.machine(machine).map(|spec| spec.version).unwrap_or_default();
        {
            let mut state = self.state.lock();
            if state.backends.remove(machine) {
                self.front.set_backends(state.backends.len(), &version);
            }
        }
        let pods = nephele_apiserver::GroupResource::new("", "pods");
        let on_node = self
            .store
            .list(&pods, None)
            .objects
            .into_iter()
            .filter(|pod| pod.value()["spec"]["nodeName"] == *machine);
        let mut keys: Vec<Key> = on_node.map(|pod| Key::new("", "pods", &pod.namespace, &pod.name)).collect();
        keys.push(Key::new("coordination.k8s.io", "leases", "kube-node-lease", machine));
        keys.push(Key::new("", "nodes", "", machine));
        for key in keys {
            let options = nephele_apiserver::DeleteOptions {
                propagation: Propagation::Background,
                ..nephele_apiserver::DeleteOptions::default()
            };
            match self.store.delete(now, &key, &options) {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(cluster = %self.spec.id, ?key, %error, "Failed to remove an object")
                }
            }
        }
    }

    /// The machine is gone.
    pub(crate) fn on_gone(&self, machine: &str) {
        self.state.lock().machines.remove(machine);
    }

    /// The kubelet of a machine was upgraded in place.
    pub(crate) fn on_upgraded(&self, now: Timestamp, spec: &MachineSpec) {
        let key = Key::new("", "nodes", "", &spec.id.name);
        let edit = |mut node: serde_json::Value| {
            node["status"]["nodeInfo"]["kubeletVersion"] = spec.version.as_str().into();
            Ok::<_, StoreError>(node)
        };
        match self.store.update(now, &key, Part::Whole, false, edit) {
            // A machine that has not joined yet will join with the new version.
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => tracing::warn!(machine = %spec.id, %error, "Failed to upgrade a Node"),
        }
    }

    /// What a tunnel to a port of a pod reaches, with the TLS it speaks.
    pub(crate) fn behind(&self, pod: &str, port: u16) -> Option<Behind> {
        let state = self.state.lock();
        let credentials = state.credentials.as_ref()?;
        if let Some(node) = pod.strip_prefix("etcd-")
            && port == 2379
        {
            let member = member_id(&self.spec.id.to_string(), node);
            let machine = state.machines.get(node)?;
            return Some(Behind::Etcd { tls: credentials.etcd_member(&self.spec, machine)?, member });
        }
        let node = pod.strip_prefix("kube-apiserver-")?;
        let known = state.backends.contains(node);
        let right_port =
            port == 6443 || self.spec.endpoint.as_ref().is_some_and(|endpoint| endpoint.port == port);
        (known && right_port).then(|| Behind::ApiServer(credentials.api_server.clone()))
    }

    fn project(&self, now: Timestamp, objects: Vec<Projected>) {
        for Projected { key, value } in objects {
            match self.store.create(now, &key, value) {
                Ok(_) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(error) => {
                    tracing::error!(cluster = %self.spec.id, ?key, %error, "Failed to project an object")
                }
            }
        }
    }
}

/// What is behind a forwarded port.
pub(crate) enum Behind {
    Etcd { tls: Arc<rustls::ServerConfig>, member: u64 },
    ApiServer(Arc<tls::ApiServerTls>),
}
