//! Specifications of clusters and machines.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use nephele_engine::{Hardware, Latency, ResourceSpec, StageSpec};
use nephele_model::{Caller, ClusterId, Endpoint, MachineId, Market, Odds, Role, SeedKey, Stage};
use nephele_pki::Authority;

use crate::{
    cidr,
    identity::{MachineAddress, control_plane_node},
    user_data::{Kubeadm, KubeadmCluster},
};

/// The specification of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    pub id: ClusterId,
    /// The labels of its Cluster, by which faults select it.
    pub labels: BTreeMap<String, String>,
    /// The region of its load balancer, by which faults select it too. None if it belongs to no single region.
    pub region: Option<String>,
    /// The cloud of its namespace whose quota its load balancer counts for, see [`crate::Cloud::put_cloud`].
    pub cloud_spec: String,
    /// The endpoint that was published before, or that the user wants. An empty host and port zero are chosen by the
    /// cloud.
    pub endpoint: Option<Endpoint>,
    /// When it was created. Objects that come with the cluster itself have this creation time, also after a restart.
    pub created_at: Timestamp,
    /// Whether the cloud refused the last read of its load balancer before a restart.
    pub is_read_refused: bool,
    /// Pod networks. Without any, Nodes have no pod network.
    pub pod_cidrs: Vec<String>,
    /// Service networks; none means kubeadm's default, `10.96.0.0/12`.
    pub service_cidrs: Vec<String>,
    /// DNS domain of services; empty means `cluster.local`.
    pub service_domain: String,
}

const DEFAULT_SERVICE_CIDR: &str = "10.96.0.0/12";

impl ClusterSpec {
    /// Its load balancer, at an endpoint if it has one by now. It has the labels and the region of the cluster, by which
    /// faults select clusters.
    #[must_use]
    pub fn load_balancer(&self, endpoint: Option<Endpoint>) -> ResourceSpec {
        ResourceSpec {
            endpoint,
            labels: self.labels.clone(),
            region: self.region.clone(),
            cloud_spec: self.cloud_spec.clone(),
            ..ResourceSpec::new(self.id.load_balancer())
        }
    }

    /// The `index`th address of the first service network, where kubeadm's convention puts the API server (1) and
    /// the DNS (10).
    pub(crate) fn service_address(&self, index: u32) -> IpAddr {
        let first = self
            .service_cidrs
            .first()
            .and_then(|cidr| cidr::address(cidr, index));
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
        if self.service_domain.is_empty() {
            "cluster.local"
        } else {
            &self.service_domain
        }
    }
}

/// The certificate authorities of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    /// The authority of the API server and its clients.
    pub cluster: Authority,
    /// The authority of etcd. Without it no etcd member can be reached.
    pub etcd: Option<Authority>,
}

/// The specification of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    pub id: MachineId,
    /// The labels of its Machine when its creation began, by which faults select it.
    pub labels: BTreeMap<String, String>,
    /// Its role in the cluster.
    pub role: Role,
    /// Who calls the cloud about it.
    pub caller: Caller,
    /// The Kubernetes version that it runs, `v1.36.3`.
    pub version: String,
    pub zone: Option<String>,
    /// The region of its zone, by which faults select it. If none, its Node has one that is derived from the zone's name.
    pub region: Option<String>,
    /// The cloud of its namespace that it is made from, see [`crate::Cloud::put_cloud`]. It counts for the quotas of
    /// this cloud.
    pub cloud_spec: String,
    /// The name of its instance type.
    pub instance_type: Option<String>,
    /// How it is paid for.
    pub market: Market,
    /// Its hardware, as published before. The cloud chooses the hardware of a new machine.
    pub hardware: Option<Hardware>,
    /// The image that it booted from.
    pub image: Option<String>,
    /// How long its stages take; a missing stage takes as long as in its cloud. Drawn once, when the stage begins.
    pub start_up: BTreeMap<Stage, Latency>,
    /// Its allocation, as published before. The cloud chooses the missing parts.
    pub allocation: Allocation,
    /// When it began to boot, if that was before a restart. Its first stage counts from then.
    pub started_at: Option<Timestamp>,
    /// The stages that it had reached before a restart, with their times.
    pub reached: BTreeMap<Stage, Timestamp>,
    /// Whether it was deregistered from the load balancer before a restart, because it is to be deleted.
    pub is_deregistered: bool,
    /// Whether its etcd member was removed before a restart. Then it does not return by itself.
    pub etcd_member_removed: bool,
    /// The tag of the etcd image. None for the default of the version.
    pub etcd_image_tag: Option<String>,
    pub files: Option<Files>,
    /// What its kubeadm configuration says; none if it had none that is known.
    pub kubeadm: Option<Box<Kubeadm>>,
    /// The last update in place that was requested, unless it has ended.
    pub update: Option<Box<MachineUpdate>>,
}

impl MachineSpec {
    /// Its instance.
    #[must_use]
    pub fn instance(&self) -> ResourceSpec {
        let stages = Stage::of(self.role).iter().map(|stage| StageSpec {
            name: stage.name(),
            after: stage.after().iter().map(|stage| stage.name()).collect(),
            latency: self.start_up.get(stage).cloned(),
            failure: Odds::NEVER,
        });
        ResourceSpec {
            seed_key: self.allocation.seed_key(),
            zone: self.zone.clone(),
            region: self.region.clone(),
            cloud_spec: self.cloud_spec.clone(),
            instance_type: self.instance_type.clone(),
            market: self.market,
            image: self.image.clone(),
            labels: self.labels.clone(),
            addresses: self.allocation.ip_addresses().map(str::to_owned).collect(),
            version: (!self.version.is_empty()).then(|| self.version.clone()),
            stages: stages.collect(),
            deletion: None,
            ..ResourceSpec::new(self.id.resource())
        }
    }
}

/// What a machine has to itself in its cluster for as long as it lives. No other machine gets these values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Its addresses. Empty until the cloud has chosen.
    pub addresses: Vec<MachineAddress>,
    /// The parts of the pod networks for its Node, at most one of each network. Empty until the cloud has chosen, or if
    /// no network has a free part.
    pub pod_cidrs: Vec<String>,
    /// The set of interchangeable machines that it is part of, such as a MachineDeployment. The draws of the machine
    /// are keyed by the set and the ordinal, because names of machines are random. If empty, they are keyed by the
    /// name.
    pub owner_set: String,
    /// Its number in the set. None until the cloud has chosen the lowest free one.
    pub ordinal: Option<u32>,
}

/// A cluster that was published before a restart, or by another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousCluster {
    /// The name of the cluster.
    pub id: ClusterId,
    pub port: u16,
    /// The cloud whose quota its load balancer counts for. None if this cloud did not make the load balancer.
    pub cloud_spec: Option<String>,
}

/// A machine from before a restart that has not returned yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousMachine {
    /// The name of the machine and its cluster.
    pub id: MachineId,
    /// Whether its creation had begun. Then the cloud reserves room for it.
    pub has_begun: bool,
    pub zone: Option<String>,
    /// The cloud that it is made from.
    pub cloud_spec: String,
    /// The name of its instance type.
    pub instance_type: Option<String>,
    /// How it is paid for.
    pub market: Market,
    pub hardware: Hardware,
    pub allocation: Allocation,
}

impl Allocation {
    /// Its addresses in networks, without names.
    pub(crate) fn ip_addresses(&self) -> impl Iterator<Item = &str> {
        let addresses = self
            .addresses
            .iter()
            .filter(|address| address.kind.ends_with("IP"));
        addresses.map(|address| address.address.as_str())
    }

    /// The key of its draws in the engine.
    pub(crate) fn seed_key(&self) -> Option<SeedKey> {
        Some(SeedKey {
            owner_set: self.owner_set.clone(),
            ordinal: self.ordinal?,
        })
    }
}

/// The parts of a machine that can change in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Software {
    /// The Kubernetes version that it runs.
    pub version: String,
    /// The image that it runs from.
    pub image: Option<String>,
    /// The tag of the etcd image. None for the default of the version.
    pub etcd_image_tag: Option<String>,
    pub files: Option<Files>,
}

impl Software {
    /// A text that is equal exactly for equal software.
    pub(crate) fn key(&self) -> String {
        let Self {
            version,
            image,
            etcd_image_tag,
            files,
        } = self;
        let files = files.as_ref().map(|files| &files.digest);
        serde_json::json!([version, image, etcd_image_tag, files]).to_string()
    }
}

/// The files of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// A digest of all files.
    pub digest: String,
    /// The files that are shown on the Node, by path: a digest of the contents, or the Secret that has them.
    pub contents: BTreeMap<String, String>,
}

/// An update in place.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineUpdate {
    /// When it was requested. Its duration counts from then, and the time identifies the update.
    pub asked_at: Timestamp,
    pub takes: Latency,
    /// The software of the machine when the update has ended.
    pub software: Software,
    /// Whether it fails. Then it takes its time and changes nothing.
    pub fails: bool,
    /// Whether the cloud accepted it before a restart.
    pub is_accepted: bool,
}

impl MachineUpdate {
    /// The engine's name for the update.
    pub(crate) fn name(&self) -> String {
        self.asked_at.as_microsecond().to_string()
    }
}

impl MachineSpec {
    /// The software of the machine.
    pub(crate) fn software(&self) -> Software {
        let Self {
            version,
            image,
            etcd_image_tag,
            files,
            ..
        } = self.clone();
        Software {
            version,
            image,
            etcd_image_tag,
            files,
        }
    }

    /// What its kubeadm configuration says about the cluster.
    pub(crate) fn cluster_configuration(&self) -> Option<&KubeadmCluster> {
        self.kubeadm.as_ref()?.cluster.as_ref()
    }

    /// Whether it runs a member of etcd.
    pub(crate) fn runs_etcd(&self) -> bool {
        self.cluster_configuration()
            .is_none_or(|cluster| cluster.external_etcd.is_empty())
    }

    /// The name of its Node.
    pub(crate) fn node_name(&self) -> Cow<'_, str> {
        match self.role {
            Role::ControlPlane => control_plane_node(&self.id.name),
            Role::Worker => Cow::Borrowed(&self.id.name),
        }
    }

    /// Replaces the software of the machine.
    pub(crate) fn install(&mut self, software: Software) {
        let Software {
            version,
            image,
            etcd_image_tag,
            files,
        } = software;
        (self.version, self.image) = (version, image);
        (self.etcd_image_tag, self.files) = (etcd_image_tag, files);
    }

    /// The address at which others reach the machine. Empty if it was published without one.
    pub(crate) fn internal_address(&self) -> &str {
        self.internal_addresses().next().unwrap_or_default()
    }

    /// Its addresses in the cluster's network: one, or one of each IP family.
    pub(crate) fn internal_addresses(&self) -> impl Iterator<Item = &str> {
        self.allocation
            .addresses
            .iter()
            .filter(|a| a.kind == "InternalIP")
            .map(|a| a.address.as_str())
    }
}
