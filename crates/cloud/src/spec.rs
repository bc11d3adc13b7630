//! What clusters and machines shall be.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use nephele_engine::{DrawKey, Endpoint, Hardware};
use nephele_pki::Authority;

use crate::cidr;
use crate::identity::{ClusterId, MachineAddress, MachineId, Role, Stage};

/// What a cluster shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Its name.
    pub id: ClusterId,
    /// Where it was published before, or where its user wants it; an empty host and port zero are chosen.
    pub endpoint: Option<Endpoint>,
    /// When it was created. What comes with the cluster itself bears this time, after a restart too.
    pub created_at: Timestamp,
    /// Pod networks; none leaves the Nodes without one.
    pub pod_cidrs: Vec<String>,
    /// Service networks; none means kubeadm's default, `10.96.0.0/12`.
    pub service_cidrs: Vec<String>,
    /// DNS domain of services; empty means `cluster.local`.
    pub service_domain: String,
}

const DEFAULT_SERVICE_CIDR: &str = "10.96.0.0/12";

impl ClusterSpec {
    /// The `index`th address of the first service network, where kubeadm's convention puts the API server (1) and
    /// the DNS (10).
    pub(crate) fn service_address(&self, index: u32) -> IpAddr {
        let first = self.service_cidrs.first().and_then(|cidr| cidr::address(cidr, index));
        first
            .or_else(|| cidr::address(DEFAULT_SERVICE_CIDR, index))
            .expect("the default network has the address")
    }

    /// The service networks, as kubeadm writes them.
    pub(crate) fn service_subnet(&self) -> String {
        if self.service_cidrs.is_empty() {
            DEFAULT_SERVICE_CIDR.to_owned()
        } else {
            self.service_cidrs.join(",")
        }
    }

    /// The DNS domain of services.
    pub(crate) fn domain(&self) -> &str {
        if self.service_domain.is_empty() { "cluster.local" } else { &self.service_domain }
    }
}

/// The authorities of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    /// Of the API server and its clients.
    pub cluster: Authority,
    /// Of etcd. Without it no etcd member can be reached.
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
    /// The region of its zone; none lets the zone's name tell.
    pub region: Option<String>,
    /// The catalog of its namespace that it is made from, see [`crate::Cloud::put_catalog`].
    pub catalog: String,
    /// How large it is, in a word.
    pub instance_type: Option<String>,
    /// What it consists of, as published before; the cloud says what a new one consists of.
    pub hardware: Option<Hardware>,
    /// What it booted from.
    pub image: Option<String>,
    /// How long its stages take; a missing one takes no time. Drawn once: later changes do not count.
    pub start_up: BTreeMap<Stage, StartUp>,
    /// What it holds in its cluster, as published before; the cloud chooses what is missing.
    pub allocation: Allocation,
    /// When it began to boot, if it did before a restart: its first stage counts from then.
    pub started_at: Option<Timestamp>,
    /// The stages that it had reached before a restart, and when.
    pub reached: BTreeMap<Stage, Timestamp>,
    /// Whether its etcd member was removed before a restart: it does not come back by itself.
    pub etcd_member_removed: bool,
    /// The tag of etcd's image; none for the one that the version comes with.
    pub etcd_image_tag: Option<String>,
    /// The files that it was given, where that is known.
    pub files: Option<Files>,
    /// The last update in place that it was asked for, unless that is over.
    pub update: Option<Box<MachineUpdate>>,
}

/// What a machine has to itself in its cluster for as long as it lives. No other machine gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Its addresses; none before the cloud has chosen.
    pub addresses: Vec<MachineAddress>,
    /// The shares of the pod networks that its Node has, one of each network at most; none before the cloud has chosen,
    /// or when no network has a share left.
    pub pod_cidrs: Vec<String>,
    /// The set of interchangeable machines that it is one of, such as a MachineDeployment. What chance decides about the
    /// machine is keyed by the set and the ordinal, as names of machines are random. Empty keys it by the name.
    pub set: String,
    /// Its number in the set; none before the cloud has chosen, which takes the lowest that is free.
    pub ordinal: Option<u32>,
}

/// A machine from before a restart, which is not there again yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerMachine {
    /// Its name and its cluster's.
    pub id: MachineId,
    /// Whether its creation had begun: then the cloud keeps room for it.
    pub has_begun: bool,
    /// The zone that it is in, as far as that is known.
    pub zone: Option<String>,
    /// What it has to itself.
    pub allocation: Allocation,
}

impl Allocation {
    /// What chance is keyed by, to the engine.
    pub(crate) fn draw_key(&self) -> Option<DrawKey> {
        Some(DrawKey { set: self.set.clone(), ordinal: self.ordinal? })
    }
}

/// What of a machine may change in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Software {
    /// The Kubernetes version it runs.
    pub version: String,
    /// What it runs from.
    pub image: Option<String>,
    /// The tag of etcd's image; none for the one that the version comes with.
    pub etcd_image_tag: Option<String>,
    /// The files that it was given, where that is known.
    pub files: Option<Files>,
}

impl Software {
    /// A text that is the same for the same software alone.
    pub(crate) fn key(&self) -> String {
        let Self { version, image, etcd_image_tag, files } = self;
        let files = files.as_ref().map(|files| &files.digest);
        serde_json::json!([version, image, etcd_image_tag, files]).to_string()
    }
}

/// The files of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Stands for all of them.
    pub digest: String,
    /// What stands for the contents of those that are shown on the Node, by path.
    pub contents: BTreeMap<String, String>,
}

/// An update in place.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineUpdate {
    /// When it was asked for: it counts from then, and is told from others by that.
    pub asked_at: Timestamp,
    /// How long it takes.
    pub takes: StartUp,
    /// What the machine runs when it is over.
    pub software: Software,
    /// Whether it fails: then it takes its time and changes nothing.
    pub fails: bool,
}

impl MachineUpdate {
    /// The engine's name for it.
    pub(crate) fn name(&self) -> String {
        self.asked_at.as_microsecond().to_string()
    }
}

impl MachineSpec {
    /// What it runs.
    pub(crate) fn software(&self) -> Software {
        let Self { version, image, etcd_image_tag, files, .. } = self.clone();
        Software { version, image, etcd_image_tag, files }
    }

    /// Has it run something else.
    pub(crate) fn install(&mut self, software: Software) {
        let Software { version, image, etcd_image_tag, files } = software;
        (self.version, self.image) = (version, image);
        (self.etcd_image_tag, self.files) = (etcd_image_tag, files);
    }

    /// The address that others reach it at; empty when it was published without one.
    pub(crate) fn internal_address(&self) -> &str {
        self.internal_addresses().next().unwrap_or_default()
    }

    /// Its addresses in the cluster's network: one, or one of each family.
    pub(crate) fn internal_addresses(&self) -> impl Iterator<Item = &str> {
        self.allocation.addresses.iter().filter(|a| a.kind == "InternalIP").map(|a| a.address.as_str())
    }
}
