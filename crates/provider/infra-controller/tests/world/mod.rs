//! A management API, a cloud and all controllers, and helpers for tests.

use std::{net::Ipv4Addr, num::NonZeroU16, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    ResourceExt as _,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, MachineNetwork, PoolReference},
    ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressSpec, NameReference},
};
use nephele_cloud::{Cloud, CloudConfig};
use nephele_controller::WatchFilter;
use nephele_infra_controller::{MachineHooks, NoHooks, Settings};
use nephele_machine_hooks::WarmUpSettings;
use nephele_model::{ClusterId, MachineId};
use nephele_runtime_sdk::client::WarmUp;
use nephele_testkit::{
    Backstage, ManagementApi, Stage, eventually,
    objects::{self, NAMESPACE, Purpose},
};
use serde_json::{Value, json};

pub(crate) struct World {
    pub(crate) api: ManagementApi,
    pub(crate) cloud: Cloud,
    setup: Setup,
    running: Stage,
}

/// How the manager of a world is set up.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The first port for clusters; each test has a range of a hundred ports.
    pub(crate) first_port: u16,
    pub(crate) watch_filter: Option<String>,
    pub(crate) advertise_host: &'static str,
    pub(crate) prepare_credentials: bool,
    /// Whether registered extensions are called for machines.
    pub(crate) extensions: bool,
    pub(crate) machines_max: Option<u32>,
    /// The directory in which the objects of workload clusters are kept over a restart.
    pub(crate) state_directory: Option<PathBuf>,
    /// Which requests of the controllers the management API refuses, by method and path.
    pub(crate) refused: fn(&str, &str) -> bool,
}

impl Setup {
    pub(crate) fn at(first_port: u16) -> Self {
        Self {
            first_port,
            watch_filter: None,
            advertise_host: "127.0.0.1",
            prepare_credentials: true,
            extensions: false,
            machines_max: None,
            state_directory: None,
            refused: |_, _| false,
        }
    }
}

/// As a manager's, but an extension that does not answer is not waited for as long.
const WARM_UP: WarmUpSettings = WarmUpSettings {
    mode: WarmUp::Isolated,
    patience: Duration::from_secs(1),
    interval: Duration::from_millis(200),
    at_once: 10,
};

/// The first port that systems give to outgoing connections (`net.ipv4.ip_local_port_range` of Linux).
const FIRST_OUTGOING_PORT: u16 = 32_768;

impl World {
    pub(crate) fn start(first_port: u16) -> Self {
        Self::start_with(Setup::at(first_port))
    }

    pub(crate) fn start_with(setup: Setup) -> Self {
        Self::over(ManagementApi::start(), setup)
    }

    pub(crate) fn over(api: ManagementApi, setup: Setup) -> Self {
        let Setup {
            first_port,
            watch_filter,
            advertise_host,
            prepare_credentials,
            extensions,
            machines_max,
            state_directory,
            refused,
        } = setup.clone();
        assert!(
            first_port < FIRST_OUTGOING_PORT,
            "an outgoing connection of any process may have this port"
        );
        let Backstage {
            client,
            registry,
            services,
            shutdown,
        } = Backstage::of(api.refusing(refused), api.clock());
        let config = CloudConfig {
            advertise_host: advertise_host.into(),
            bind_address: Ipv4Addr::LOCALHOST.into(),
            ports: first_port..=first_port + 99,
            // Clusters move here from managers with other ranges.
            moved_ports: vec![1..=u16::MAX],
            clusters_max: None,
            seed: "test".into(),
            connection_hold: Duration::from_secs(1),
            state_directory,
            machines_max,
            cloud_spec: nephele_infra_controller::built_in_cloud(),
            clock: api.clock(),
        };
        let (cloud, drive) = Cloud::start(config, &registry).expect("a new registry");
        tokio::spawn(drive);
        let concurrency = NonZeroU16::new(10).expect("ten");
        let settings = Settings {
            watch_namespace: None,
            watch_filter,
            prepare_credentials,
            cluster_concurrency: concurrency,
            machine_concurrency: concurrency,
        };
        let hooks: Arc<dyn MachineHooks> = if extensions {
            let metrics = nephele_runtime_sdk::client::Metrics::register(&registry).expect("a new registry");
            let filter = WatchFilter::new(settings.watch_filter.as_deref());
            let (hooks, ask) = nephele_machine_hooks::start(
                client.clone(),
                &services,
                &filter,
                metrics,
                WARM_UP,
                shutdown.clone(),
            );
            tokio::spawn(async move { ask.await.expect("extensions are known until they shall not be") });
            Arc::new(hooks)
        } else {
            Arc::new(NoHooks)
        };
        let run =
            nephele_infra_controller::run(client, cloud.clone(), hooks, services, settings, shutdown.clone());
        Self {
            api,
            cloud,
            setup,
            running: Stage::of(shutdown, run),
        }
    }

    /// Stops the controllers and the cloud; both lose their memory.
    pub(crate) async fn stop(self) -> ManagementApi {
        self.running.stop().await;
        self.cloud.shutdown().await;
        self.api
    }

    /// Starts new controllers and a new cloud with the existing objects.
    pub(crate) async fn restart(self) -> Self {
        let setup = self.setup.clone();
        self.restart_with(setup).await
    }

    /// As [`World::restart`], with another setup.
    pub(crate) async fn restart_with(self, setup: Setup) -> Self {
        Self::over(self.stop().await, setup)
    }

    /// As [`World::restart`], with something that happens between stop and start.
    pub(crate) async fn restart_after(self, meanwhile: impl Future<Output = ()>) -> Self {
        let setup = self.setup.clone();
        let api = self.stop().await;
        meanwhile.await;
        Self::over(api, setup)
    }

    pub(crate) fn id(cluster: &str) -> ClusterId {
        ClusterId {
            namespace: NAMESPACE.into(),
            name: cluster.into(),
        }
    }

    pub(crate) fn machine_id(cluster: &str, name: &str) -> MachineId {
        MachineId {
            cluster: Self::id(cluster),
            name: name.into(),
        }
    }

    /// Creates a Cluster with its InMemoryCluster, and waits until core has marked it as provisioned.
    pub(crate) async fn cluster(&self, name: &str) -> InMemoryCluster {
        let cluster = self.api.create(&objects::cluster(name)).await;
        self.api.create(&objects::in_memory_cluster(&cluster)).await;
        let object = self.provisioned(name).await;
        self.api
            .patch_status::<Cluster>(name, &json!(objects::provisioned(false)))
            .await;
        object
    }

    /// A Cluster with a KubeadmControlPlane, and its InMemoryCluster.
    pub(crate) async fn kubeadm_cluster(&self, name: &str) {
        self.configured_cluster(name, json!({})).await;
    }

    /// As [`World::kubeadm_cluster`], with a `clusterConfiguration`.
    pub(crate) async fn configured_cluster(&self, name: &str, configuration: Value) {
        let group = "controlplane.cluster.x-k8s.io";
        let control_plane = serde_json::from_value(json!({
            "apiVersion": format!("{group}/v1beta2"), "kind": "KubeadmControlPlane",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "kubeadmConfigSpec": { "clusterConfiguration": configuration } },
        }))
        .expect("an object");
        self.create_kubeadm_control_plane(&control_plane).await;
        let mut cluster = objects::cluster(name);
        cluster.spec.control_plane_ref = Some(nephele_api::core::ObjectReference {
            api_group: group.into(),
            kind: "KubeadmControlPlane".into(),
            name: name.into(),
        });
        let cluster = self.api.create(&cluster).await;
        self.api.create(&objects::in_memory_cluster(&cluster)).await;
    }

    async fn create_kubeadm_control_plane(&self, object: &DynamicObject) {
        let kind = GroupVersionKind::gvk("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane");
        self.create_of_core(&ApiResource::from_gvk(&kind), object).await;
    }

    /// Creates an object of a kind of Cluster API that has no type here.
    pub(crate) async fn create_of_core(
        &self,
        resource: &ApiResource,
        object: &DynamicObject,
    ) -> DynamicObject {
        let api: Api<DynamicObject> = Api::namespaced_with(self.api.client(), NAMESPACE, resource);
        api.create(&PostParams::default(), object)
            .await
            .expect("the object is taken")
    }

    pub(crate) async fn provisioned(&self, name: &str) -> InMemoryCluster {
        self.api
            .eventually(name, "to be provisioned", InMemoryCluster::is_provisioned)
            .await
    }

    /// The Secrets that the control plane provider creates.
    pub(crate) async fn authorities(&self, cluster: &str) {
        for purpose in [Purpose::Cluster, Purpose::Etcd] {
            self.api
                .create(&objects::authority_secret(cluster, purpose))
                .await;
        }
    }

    /// A Machine with its InMemoryMachine; its bootstrap data is not ready.
    pub(crate) async fn machine(&self, machine: &Machine) -> InMemoryMachine {
        let mut machine = machine.clone();
        machine.spec.bootstrap = None;
        let machine = self.api.create(&machine).await;
        self.api.create(&objects::in_memory_machine(&machine)).await
    }

    /// A Machine with its InMemoryMachine, which gets its addresses from these pools of a foreign IPAM provider.
    pub(crate) async fn pooled(&self, machine: &Machine, pools: &[&str]) -> InMemoryMachine {
        let machine = self.api.create(machine).await;
        let mut object = objects::in_memory_machine(&machine);
        let addresses_from_pools = pools.iter().map(|pool| foreign_pool(pool)).collect();
        object.spec.network = Some(MachineNetwork { addresses_from_pools });
        self.api.create(&object).await
    }

    /// The foreign IPAM provider adds its finalizer to a claim.
    pub(crate) async fn claimed(&self, claim: &str) -> IPAddressClaim {
        self.api
            .eventually::<IPAddressClaim>(claim, "to be made", |_| true)
            .await;
        let finalizers = json!({ "metadata": { "finalizers": [FOREIGN_FINALIZER] } });
        self.api.patch::<IPAddressClaim>(claim, &finalizers).await
    }

    /// The foreign IPAM provider reports why there is no address for a claim.
    pub(crate) async fn refuse(&self, claim: &str, reason: &str, message: &str) {
        let ready = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        self.api
            .patch_status::<IPAddressClaim>(claim, &json!({ "conditions": [ready] }))
            .await;
    }

    /// The foreign IPAM provider gives a claim its address, in an IPAddress with another name than the claim.
    pub(crate) async fn give(&self, claim: &str, address: &str, prefix: i32, gateway: &str) {
        let claim = self.api.get::<IPAddressClaim>(claim).await;
        let name = format!("address-of-{}", claim.name_any());
        let spec = IPAddressSpec {
            claim_ref: NameReference {
                name: claim.name_any(),
            },
            pool_ref: claim.spec.pool_ref.clone(),
            address: address.into(),
            prefix: Some(prefix),
            gateway: gateway.into(),
        };
        let mut object = IPAddress::new(&name, spec);
        object.metadata.namespace = Some(NAMESPACE.into());
        objects::own(&mut object, &claim);
        self.api.create(&object).await;
        let bound = json!({ "addressRef": { "name": name } });
        self.api
            .patch_status::<IPAddressClaim>(&claim.name_any(), &bound)
            .await;
    }

    /// The foreign IPAM provider has released the address of a claim.
    pub(crate) async fn let_go(&self, claim: &str) {
        let none = json!({ "metadata": { "finalizers": null } });
        self.api.patch::<IPAddressClaim>(claim, &none).await;
    }

    pub(crate) async fn bootstrap(&self, machine: &str) {
        let patch = json!({ "spec": { "bootstrap": { "dataSecretName": format!("{machine}-bootstrap") } } });
        self.api.patch::<Machine>(machine, &patch).await;
    }

    pub(crate) async fn ready(&self, machine: &InMemoryMachine) -> InMemoryMachine {
        self.api
            .eventually(&machine.name_any(), "to be ready", is_ready)
            .await
    }

    pub(crate) async fn waits(&self, machine: &InMemoryMachine, expected: &str) -> InMemoryMachine {
        self.api
            .eventually(&machine.name_any(), expected, |machine: &InMemoryMachine| {
                let status = machine.status.clone().unwrap_or_default();
                reason(&status.conditions, types::VM_PROVISIONED) == Some(expected)
            })
            .await
    }

    pub(crate) async fn paused(&self, machine: &str, message: &str) -> InMemoryMachine {
        self.api
            .eventually(
                machine,
                &format!("to be paused: {message}"),
                |machine: &InMemoryMachine| {
                    is_paused(&machine.status.clone().unwrap_or_default().conditions, message)
                },
            )
            .await
    }

    /// The InMemoryCluster once its condition says that it is paused: a machine may be paused earlier.
    pub(crate) async fn paused_cluster(&self, name: &str, message: &str) -> InMemoryCluster {
        self.api
            .eventually(
                name,
                &format!("to be paused: {message}"),
                |cluster: &InMemoryCluster| {
                    is_paused(&cluster.status.clone().unwrap_or_default().conditions, message)
                },
            )
            .await
    }

    /// The InMemoryCluster once its authorities are in use.
    pub(crate) async fn settled_cluster(&self, object: &InMemoryCluster) -> InMemoryCluster {
        self.api
            .eventually(
                &object.name_any(),
                "to use its authorities",
                |object: &InMemoryCluster| {
                    let status = object.status.clone().unwrap_or_default();
                    conditions::is_true(&status.conditions, types::CERTIFICATE_AUTHORITIES_AVAILABLE)
                },
            )
            .await
    }

    /// The InMemoryCluster once its authorities are in use and its control plane machines are in service.
    pub(crate) async fn served_cluster(&self, name: &str) -> InMemoryCluster {
        let is_served = |object: &InMemoryCluster| {
            let status = object.status.clone().unwrap_or_default();
            let backends = status.load_balancer.unwrap_or_default().backends;
            conditions::is_true(&status.conditions, types::CERTIFICATE_AUTHORITIES_AVAILABLE)
                && !backends.is_empty()
                && backends.iter().all(|backend| backend.in_service)
        };
        self.api.eventually(name, "to be served", is_served).await
    }

    /// The writes to objects of this name so far, as verb and resource.
    pub(crate) fn writes(&self, name: &str) -> Vec<String> {
        let writes = self
            .api
            .take_writes()
            .into_iter()
            .filter(|write| write.name == name);
        writes
            .map(|write| format!("{} {}", write.verb, write.resource))
            .collect()
    }

    /// Waits until something holds for the cloud. It polls, because the cloud does not report that a cluster was
    /// created.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Cloud) -> bool) {
        eventually(what, async || if holds(&self.cloud) { Ok(()) } else { Err(()) }).await;
    }
}

const FOREIGN_FINALIZER: &str = "ipam.example/hold";

/// A pool of a kind that our IPAM provider does not know.
pub(crate) fn foreign_pool(name: &str) -> PoolReference {
    PoolReference {
        api_group: "ipam.example".into(),
        kind: "ForeignPool".into(),
        name: name.into(),
    }
}

pub(crate) fn is_ready(machine: &InMemoryMachine) -> bool {
    let status = machine.status.as_ref();
    status.is_some_and(|status| conditions::is_true(&status.conditions, types::READY))
}

fn is_paused(list: &[Condition], message: &str) -> bool {
    conditions::find(list, types::PAUSED)
        .is_some_and(|paused| paused.status == conditions::TRUE && paused.message == message)
}

pub(crate) fn reason<'a>(list: &'a [Condition], kind: &str) -> Option<&'a str> {
    conditions::find(list, kind).map(|condition| condition.reason.as_str())
}
