use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Secret},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time},
};
use kube::ResourceExt;
use nephele_api::{
    conditions::{self, types},
    core::{Bootstrap, Cluster, ClusterSpec, Machine, MachinePool, MachineSpec},
    infrastructure::v1beta2::{
        ControlPlaneEndpoint, InMemoryCluster, InMemoryClusterStatus, InMemoryMachine, InMemoryMachineStatus,
        Initialization,
    },
    labels,
};
use proptest::prelude::*;

use super::*;
use crate::{
    act::ActError,
    names::{self, CLUSTER_FINALIZER, MACHINE_FINALIZER},
    observe::{Probe, Workload},
    phases::{AVAILABLE, RUNNING},
    plan::{ClusterPlan, DeploymentPlan},
    references,
    topology::{TOPOLOGY_RECONCILED, TopologyError},
    workload,
};

/// A minimal management API and provider: it carries out each decision, and then does the provider's part.
struct World {
    plan: ClusterPlan,
    /// Whether the plan comes from the topology of the Cluster.
    is_topology: bool,
    observed: Observed,
    nodes: BTreeMap<String, Node>,
    log: Vec<Action>,
    second: i64,
    /// The time from which kubeadm's configuration exists.
    initialized_from: i64,
    /// Whether the workload cluster does not answer.
    is_down: bool,
    /// The names of Machines whose Node does not come.
    unborn: std::collections::BTreeSet<String>,
    /// Whether no new Node comes.
    has_no_new_nodes: bool,
}

fn meta(name: &str) -> ObjectMeta {
    let uid = Some(format!("uid-{name}"));
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid,
        ..ObjectMeta::default()
    }
}

impl World {
    fn new(control_plane: u32, workers: u32) -> Self {
        let spec = ClusterSpec {
            infrastructure_ref: Some(references::reference("InMemoryCluster", "demo")),
            ..ClusterSpec::default()
        };
        let metadata = ObjectMeta {
            finalizers: Some(vec![CLUSTER_FINALIZER.into()]),
            ..meta("demo")
        };
        Self {
            plan: ClusterPlan::new("demo", "v1.36.3", control_plane, workers),
            is_topology: false,
            observed: Observed {
                cluster: Cluster {
                    metadata,
                    spec,
                    status: None,
                },
                infrastructure: Some(InMemoryCluster {
                    metadata: meta("demo"),
                    ..InMemoryCluster::default()
                }),
                ..Observed::default()
            },
            nodes: BTreeMap::new(),
            log: Vec::new(),
            second: 0,
            initialized_from: 0,
            is_down: false,
            unborn: Default::default(),
            has_no_new_nodes: false,
        }
    }

    /// A Cluster with a topology, as a user creates it.
    fn of_topology(control_plane: u32, workers: u32) -> Self {
        let mut world = Self {
            is_topology: true,
            ..Self::new(control_plane, workers)
        };
        world.observed.cluster = Cluster {
            metadata: meta("demo"),
            ..Cluster::default()
        };
        world.observed.infrastructure = None;
        world
    }

    fn condition(&self, kind: &str) -> Option<(String, String)> {
        let status = self.observed.cluster.status.as_ref()?;
        let condition = conditions::find(&status.conditions, kind)?;
        Some((condition.status.clone(), condition.message.clone()))
    }

    fn is_available(&self) -> bool {
        let status = self.observed.cluster.status.clone().unwrap_or_default();
        conditions::is_true(&status.conditions, AVAILABLE)
    }

    /// Runs rounds until there is nothing left to decide; fails when that does not happen.
    fn settle(&mut self) {
        for _ in 0..100 {
            if self.round() {
                return;
            }
        }
        panic!("it never settles: {:#?}", self.log);
    }

    /// Runs one round. Whether nothing more happens by itself.
    fn round(&mut self) -> bool {
        self.second += 1;
        let now = Timestamp::from_second(self.second).expect("in range");
        let is_asked = asks_workload(&self.observed) && !self.is_down;
        self.observed.workload = is_asked.then(|| Workload {
            initialized: !self.nodes.is_empty() && self.second >= self.initialized_from,
            nodes: self.nodes.values().cloned().collect(),
        });
        if is_asked {
            self.observed.probe = Probe {
                last_success: Some(now),
                ..Probe::default()
            };
        }
        let plan = self.plan.clone();
        let wanted = if self.is_topology {
            Wanted::Topology(Ok(plan))
        } else {
            Wanted::Plan(plan)
        };
        let decision = decide(&wanted, &self.observed, now);
        let before = (
            self.observed.infrastructure.clone(),
            self.observed.infrastructure_machines.clone(),
        );
        let nodes = self.nodes.len();
        let quiet = decision.actions.is_empty();
        for action in decision.actions {
            self.apply(&action);
            self.log.push(action);
        }
        self.provide();
        let after = (
            self.observed.infrastructure.clone(),
            self.observed.infrastructure_machines.clone(),
        );
        quiet
            && (!decision.polls || self.is_down || self.has_no_new_nodes || !self.unborn.is_empty())
            && before == after
            && nodes == self.nodes.len()
    }

    fn machine(&mut self, name: &str) -> &mut Machine {
        self.observed
            .machines
            .iter_mut()
            .find(|machine| machine.name_any() == name)
            .expect("a known machine")
    }

    fn apply(&mut self, action: &Action) {
        let second = self.second;
        let now = || Some(Time(Timestamp::from_second(second).expect("in range")));
        match action.clone() {
            Action::CompleteCluster(cluster) => self.observed.cluster = *cluster,
            Action::CreateInfrastructure(infrastructure) => {
                self.observed.infrastructure = Some(*infrastructure);
            }
            Action::AdoptInfrastructure => {
                let infrastructure = self.observed.infrastructure.as_mut().expect("adopted");
                infrastructure
                    .labels_mut()
                    .insert(labels::CLUSTER_NAME.into(), "demo".into());
                infrastructure.owner_references_mut().push(OwnerReference {
                    api_version: "cluster.x-k8s.io/v1beta2".into(),
                    kind: "Cluster".into(),
                    name: "demo".into(),
                    ..OwnerReference::default()
                });
            }
            Action::PublishEndpoint(endpoint) => {
                self.observed.cluster.spec.control_plane_endpoint = Some(endpoint);
            }
            Action::CreateKeyPair(purpose) => self.create_secret(purpose.as_str()),
            Action::CreateKubeconfig(_) => self.create_secret("kubeconfig"),
            Action::CreateMachine {
                name,
                failure_domain,
                deployment,
            } => {
                let labels = match deployment.as_deref() {
                    None => vec![(labels::CONTROL_PLANE.into(), String::new())],
                    Some((deployment, set)) => vec![
                        (labels::DEPLOYMENT_NAME.into(), deployment.name.clone()),
                        (labels::SET_NAME.into(), set.clone()),
                    ],
                };
                let metadata = ObjectMeta {
                    finalizers: Some(vec![MACHINE_FINALIZER.into()]),
                    labels: Some(labels.into_iter().collect()),
                    creation_timestamp: Some(Time(Timestamp::from_second(self.second).expect("in range"))),
                    ..meta(&name)
                };
                let spec = MachineSpec {
                    version: self.plan.version.clone(),
                    failure_domain,
                    infrastructure_ref: Some(references::reference("InMemoryMachine", &name)),
                    ..MachineSpec::default()
                };
                self.observed.machines.push(Machine {
                    metadata,
                    spec,
                    status: None,
                });
            }
            Action::CreateInfrastructureMachine(name) => {
                self.observed.infrastructure_machines.push(InMemoryMachine {
                    metadata: meta(&name),
                    ..InMemoryMachine::default()
                });
            }
            Action::CreateBootstrapData(name) => {
                let data = Bootstrap {
                    config_ref: None,
                    data_secret_name: Some(name.clone()),
                };
                self.machine(&name).spec.bootstrap = Some(data);
            }
            Action::NameProvider { machine, provider_id } => {
                self.machine(&machine).spec.provider_id = provider_id;
            }
            Action::AdoptNode { machine, node } => {
                let cluster = self.observed.cluster.clone();
                let machine = self.machine(&machine).clone();
                let marked = self.nodes.get_mut(&node).expect("a known node");
                marked
                    .annotations_mut()
                    .extend(workload::annotations(&cluster, &machine));
                assert!(workload::is_marked(marked, &cluster, &machine));
            }
            Action::Owner(OwnerAction::CreateControlPlane(object))
            | Action::Owner(OwnerAction::ChangeControlPlane(object)) => {
                self.observed.control_plane = Some(*object);
            }
            Action::Owner(OwnerAction::ReportControlPlane(status)) => {
                self.observed.control_plane.as_mut().expect("it is there").status = Some(*status);
            }
            Action::Owner(OwnerAction::DeleteControlPlane) => {
                self.observed
                    .control_plane
                    .as_mut()
                    .expect("it is there")
                    .metadata
                    .deletion_timestamp = now();
            }
            Action::Owner(OwnerAction::ReleaseControlPlane) => self.observed.control_plane = None,
            Action::Owner(OwnerAction::CreateDeployment(object)) => self.observed.deployments.push(*object),
            Action::Owner(OwnerAction::ChangeDeployment(object)) => {
                put(&mut self.observed.deployments, *object);
            }
            Action::Owner(OwnerAction::ReportDeployment { deployment, status }) => {
                find(&mut self.observed.deployments, &deployment).status = Some(*status);
            }
            Action::Owner(OwnerAction::DeleteDeployment(name)) => {
                find(&mut self.observed.deployments, &name)
                    .metadata
                    .deletion_timestamp = now();
            }
            Action::Owner(OwnerAction::ReleaseDeployment(name)) => {
                self.observed.deployments.retain(|known| known.name_any() != name);
            }
            Action::Owner(OwnerAction::CreateSet(object)) => self.observed.sets.push(*object),
            Action::Owner(OwnerAction::ScaleSet(object)) => put(&mut self.observed.sets, *object),
            Action::Owner(OwnerAction::ReportSet { set, status }) => {
                find(&mut self.observed.sets, &set).status = Some(*status);
            }
            Action::Owner(OwnerAction::DeleteSet(name)) => {
                find(&mut self.observed.sets, &name).metadata.deletion_timestamp = now();
            }
            Action::Owner(OwnerAction::ReleaseSet(name)) => {
                self.observed.sets.retain(|known| known.name_any() != name);
            }
            Action::Owner(OwnerAction::CreateHealthCheck(object)) => {
                self.observed.health_checks.push(*object);
            }
            Action::Owner(OwnerAction::ChangeHealthCheck(object)) => {
                put(&mut self.observed.health_checks, *object);
            }
            Action::Owner(OwnerAction::ReportHealthCheck { check, status }) => {
                find(&mut self.observed.health_checks, &check).status = Some(*status);
            }
            Action::Owner(OwnerAction::DeleteHealthCheck(name)) => {
                self.observed
                    .health_checks
                    .retain(|known| known.name_any() != name);
            }
            Action::ReportMachine { machine, status } => self.machine(&machine).status = Some(status),
            Action::ReportCluster(status) => self.observed.cluster.status = Some(status),
            Action::DeleteMachine(name) => self.machine(&name).metadata.deletion_timestamp = now(),
            Action::DeleteInfrastructureMachine(name) => {
                self.observed
                    .infrastructure_machines
                    .retain(|machine| machine.name_any() != name);
            }
            Action::DeleteNode { node, .. } => {
                self.nodes.remove(&node).expect("a known node");
            }
            Action::ReleaseMachine(name) => {
                self.observed
                    .machines
                    .retain(|machine| machine.name_any() != name);
            }
            Action::DeleteInfrastructure => self.observed.infrastructure = None,
            Action::Pool(action) => panic!("no plan here has a pool: {action:?}"),
            Action::ReleaseCluster => self.observed.cluster.metadata.finalizers = None,
        }
    }

    fn create_secret(&mut self, purpose: &str) {
        self.observed
            .secrets
            .insert(names::secret("demo", purpose), Secret::default());
    }

    /// The provider's part.
    fn provide(&mut self) {
        if let Some(infrastructure) = &mut self.observed.infrastructure
            && !infrastructure.owner_references().is_empty()
        {
            let endpoint = ControlPlaneEndpoint {
                host: "127.0.0.1".into(),
                port: 20000,
            };
            infrastructure.spec.control_plane_endpoint = Some(endpoint);
            infrastructure.status = Some(InMemoryClusterStatus {
                initialization: Some(Initialization {
                    provisioned: Some(true),
                }),
                failure_domains: self.plan.failure_domains.clone(),
                ..InMemoryClusterStatus::default()
            });
        }
        for infrastructure in &mut self.observed.infrastructure_machines {
            let name = infrastructure.name_any();
            let machine = self
                .observed
                .machines
                .iter()
                .find(|machine| machine.name_any() == name);
            if machine.is_none_or(|machine| machine.data_secret_name().is_none()) {
                continue;
            }
            infrastructure.spec.provider_id = format!("in-memory://{name}");
            let mut status = InMemoryMachineStatus {
                initialization: Some(Initialization {
                    provisioned: Some(true),
                }),
                ..InMemoryMachineStatus::default()
            };
            let ready = conditions::condition(types::READY, conditions::TRUE, "Ready", "");
            conditions::set(&mut status.conditions, ready, Timestamp::UNIX_EPOCH);
            infrastructure.status = Some(status);
            let has_node = self.nodes.contains_key(&name);
            if !has_node && (self.has_no_new_nodes || self.unborn.contains(&name)) {
                continue;
            }
            self.nodes.entry(name.clone()).or_insert_with(|| Node {
                metadata: meta(&name),
                spec: Some(NodeSpec {
                    provider_id: Some(infrastructure.spec.provider_id.clone()),
                    ..NodeSpec::default()
                }),
                status: Some(NodeStatus {
                    conditions: Some(healthy()),
                    ..NodeStatus::default()
                }),
            });
        }
    }

    /// The position of an action's first occurrence in the log.
    fn first(&self, wanted: impl Fn(&Action) -> bool) -> usize {
        self.log.iter().position(wanted).unwrap_or(usize::MAX)
    }
}

/// What a kubelet reports while nothing is wrong.
fn healthy() -> Vec<NodeCondition> {
    let condition = |type_: &str, status: &str| NodeCondition {
        type_: type_.into(),
        status: status.into(),
        ..NodeCondition::default()
    };
    let pressures = ["MemoryPressure", "DiskPressure", "PIDPressure"];
    [condition("Ready", "True")]
        .into_iter()
        .chain(pressures.map(|kind| condition(kind, "False")))
        .collect()
}

fn put<K: kube::Resource>(objects: &mut [K], object: K) {
    let name = object.meta().name.clone().unwrap_or_default();
    *find(objects, &name) = object;
}

fn find<'a, K: kube::Resource>(objects: &'a mut [K], name: &str) -> &'a mut K {
    objects
        .iter_mut()
        .find(|object| object.meta().name.as_deref() == Some(name))
        .expect("a known object")
}

#[test]
fn nothing_happens_before_the_infrastructure_is_there() {
    let mut world = World::new(1, 1);
    world.observed.infrastructure = None;
    world.settle();
    assert!(
        world.observed.machines.is_empty() && world.observed.secrets.is_empty(),
        "{:?}",
        world.log
    );
    assert!(!world.is_available());
}

#[test]
fn first_machine_boots_alone_and_the_others_join() {
    let mut world = World::new(3, 2);
    world.settle();
    assert!(world.is_available());
    let is_created = |control_plane: bool| move |action: &Action| matches!(action, Action::CreateMachine { deployment, .. } if deployment.is_none() == control_plane);
    let initialized = world.first(|action| {
        matches!(action, Action::ReportCluster(status)
            if conditions::is_true(&status.conditions, types::CONTROL_PLANE_INITIALIZED))
    });
    let adopted = world.first(|action| *action == Action::AdoptInfrastructure);
    let certificates = world.first(|action| matches!(action, Action::CreateKeyPair(_)));
    let first_machine = world.first(is_created(true));
    assert!(adopted < certificates && certificates < first_machine && first_machine < initialized);
    let booted: Vec<_> = world
        .log
        .iter()
        .enumerate()
        .filter(|(_, action)| matches!(action, Action::CreateBootstrapData(_)))
        .map(|(at, _)| at < initialized)
        .collect();
    assert_eq!(booted, [true, false, false, false, false]);
    assert_eq!(
        world.log.iter().filter(|action| is_created(true)(action)).count(),
        3
    );
}

#[test]
fn control_plane_grows_by_one_settled_machine_at_a_time() {
    let mut world = World::new(3, 0);
    world.settle();
    let mut up = 0;
    for action in &world.log {
        match action {
            Action::CreateMachine { .. } => {
                assert_eq!(
                    up,
                    world
                        .log
                        .iter()
                        .take_while(|other| *other != action)
                        .filter(|a| matches!(a, Action::CreateMachine { .. }))
                        .count()
                );
            }
            Action::ReportMachine { status, .. } if conditions::is_true(&status.conditions, types::READY) => {
                up += 1;
            }
            _ => {}
        }
    }
    assert_eq!(up, 3);
}

#[test]
fn configuration_that_comes_after_the_node_is_waited_for() {
    let mut world = World::new(1, 1);
    world.initialized_from = 30;
    world.settle();
    assert!(world.is_available() && world.second >= 30);
}

#[test]
fn machine_that_is_deleted_goes_in_order_and_is_replaced() {
    let mut world = World::new(1, 2);
    world.settle();
    world.log.clear();
    let machines = &world.observed.machines;
    let worker = machines
        .iter()
        .find(|machine| !labels::is_control_plane(&machine.metadata));
    let name = worker.expect("a worker").name_any();
    world.apply(&Action::DeleteMachine(name.clone()));
    world.settle();
    let steps = [
        world.first(|action| *action == Action::DeleteInfrastructureMachine(name.clone())),
        world.first(|action| {
            *action
                == Action::DeleteNode {
                    machine: name.clone(),
                    node: name.clone(),
                }
        }),
        world.first(|action| *action == Action::ReleaseMachine(name.clone())),
    ];
    assert!(steps.is_sorted() && steps[2] < usize::MAX, "{:?}", world.log);
    assert_eq!(world.observed.machines.len(), 3);
    assert!(world.is_available());
}

#[test]
fn cluster_goes_workers_first_and_infrastructure_last() {
    let mut world = World::new(3, 2);
    world.settle();
    world.log.clear();
    world.observed.cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    world.settle();
    let order: Vec<_> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::ReleaseMachine(name) if name.contains("-md-") => Some("worker"),
            Action::ReleaseMachine(_) => Some("control plane"),
            Action::DeleteInfrastructure => Some("infrastructure"),
            Action::ReleaseCluster => Some("cluster"),
            _ => None,
        })
        .collect();
    let control_plane = ["control plane"; 3];
    assert_eq!(
        order,
        [&["worker"; 2][..], &control_plane, &["infrastructure", "cluster"]].concat()
    );
    // A cluster that is being deleted is not asked for its Nodes.
    assert!(
        !world
            .log
            .iter()
            .any(|action| matches!(action, Action::DeleteNode { .. }))
    );
}

#[test]
fn machine_is_running_only_once_its_node_is_found() {
    let mut world = World::new(1, 0);
    world.settle();
    let phases: Vec<_> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::ReportMachine { status, .. } => Some((status.phase.clone(), status.node_ref.is_some())),
            _ => None,
        })
        .collect();
    assert!(
        phases
            .iter()
            .all(|(phase, has_node)| (phase == RUNNING) == *has_node),
        "{phases:?}"
    );
    assert_eq!(phases.last(), Some(&(RUNNING.to_owned(), true)));
}

#[test]
fn cluster_with_a_topology_is_completed_before_its_infrastructure_and_comes_up() {
    let mut world = World::of_topology(1, 2);
    world.settle();
    assert!(world.is_available());
    assert!(
        matches!(world.log[0], Action::CompleteCluster(_)),
        "{:?}",
        world.log[0]
    );
    assert!(
        matches!(world.log[1], Action::CreateInfrastructure(_)),
        "{:?}",
        world.log[1]
    );
    assert_eq!(
        world.condition(TOPOLOGY_RECONCILED),
        Some(("True".to_owned(), String::new()))
    );

    world.plan.scale_workers(4);
    world.settle();
    assert_eq!(world.observed.machines.len(), 5);
}

#[test]
fn each_deployment_has_its_machines_and_one_that_is_not_planned_any_more_has_none() {
    let mut world = World::of_topology(1, 0);
    world.plan.deployments = vec![
        DeploymentPlan::new("demo", "a", 1),
        DeploymentPlan::new("demo", "b", 2),
    ];
    world.settle();
    let names = |world: &World, deployment: &str| {
        let base = format!("demo-{deployment}-");
        world
            .observed
            .machines
            .iter()
            .filter(|machine| machine.name_any().starts_with(&base))
            .count()
    };
    assert_eq!([names(&world, "a"), names(&world, "b")], [1, 2]);
    world.plan.deployments.remove(0);
    world.plan.scale_workers(3);
    world.settle();
    assert_eq!([names(&world, "a"), names(&world, "b")], [0, 3]);
    assert!(world.is_available());
}

#[test]
fn workers_that_are_too_many_go_although_one_never_comes_up_and_that_one_goes_first() {
    let mut world = World::of_topology(1, 2);
    world.settle();
    let names = |world: &World| {
        let machines = world.observed.machines.iter();
        machines.map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let first = names(&world);
    world.has_no_new_nodes = true;
    world.plan.scale_workers(3);
    world.settle();
    assert_eq!(names(&world).len(), first.len() + 1);
    world.plan.scale_workers(2);
    world.settle();
    assert_eq!(names(&world), first);
}

#[test]
fn topology_that_cannot_be_used_is_reported_and_changes_nothing_but_does_not_hold_a_deletion() {
    let mut world = World::of_topology(1, 1);
    world.settle();
    let wanted = Wanted::Topology(Err(TopologyError::Version("latest".to_owned())));
    let decision = decide(&wanted, &world.observed, Timestamp::UNIX_EPOCH);
    let [action] = &decision.actions[..] else {
        panic!("{decision:?}")
    };
    world.apply(action);
    let (status, message) = world.condition(TOPOLOGY_RECONCILED).expect("a condition");
    assert_eq!(status, "False");
    assert!(message.contains("\"latest\""), "{message}");
    let again = decide(&wanted, &world.observed, Timestamp::UNIX_EPOCH);
    assert_eq!(
        again,
        Decision {
            actions: Vec::new(),
            polls: false
        }
    );

    world.observed.cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let decision = decide(&wanted, &world.observed, Timestamp::UNIX_EPOCH);
    assert!(
        decision
            .actions
            .iter()
            .any(|action| matches!(action, Action::Owner(OwnerAction::DeleteDeployment(_)))),
        "{decision:?}"
    );
}

#[test]
fn machine_pool_that_is_not_planned_any_more_is_deleted() {
    let mut world = World::of_topology(1, 0);
    world.settle();
    world.observed.pool = Some(MachinePool {
        metadata: meta("demo-mp-0"),
        ..MachinePool::default()
    });
    let wanted = Wanted::Topology(Ok(world.plan.clone()));
    let decision = decide(&wanted, &world.observed, Timestamp::UNIX_EPOCH);
    assert_eq!(decision.actions, [Action::Pool(PoolAction::Delete)]);
}

#[test]
fn refusal_by_the_management_api_is_reported_for_a_topology_only() {
    let world = World::of_topology(1, 0);
    let error = |code: u16| {
        let status = kube::core::Status {
            code,
            message: "zones: too many".to_owned(),
            ..Default::default()
        };
        ActError::Create(
            "InMemoryCluster demo".to_owned(),
            kube::Error::Api(Box::new(status)),
        )
    };
    let plan = world.plan.clone();
    let reported = |wanted: &Wanted, code| {
        refused(
            wanted,
            &world.observed,
            &error(code).refusal()?,
            Timestamp::UNIX_EPOCH,
        )
    };
    let topology = Wanted::Topology(Ok(plan.clone()));
    let Some(Action::ReportCluster(status)) = reported(&topology, 422) else {
        panic!("no report")
    };
    assert!(
        status.conditions[0].message.contains("zones: too many"),
        "{status:?}"
    );
    assert_eq!(reported(&topology, 409), None);
    assert_eq!(reported(&Wanted::Plan(plan), 422), None);
}

mod health_checks;
mod owners;
mod paused;
mod placed;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_size_comes_up_and_goes_away(control_plane in 1u32..6, workers in 0u32..6) {
        let mut world = World::new(control_plane, workers);
        world.settle();
        prop_assert!(world.is_available());
        prop_assert_eq!(world.observed.machines.len(), as_usize(control_plane + workers));
        world.observed.cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        world.settle();
        prop_assert!(world.observed.machines.is_empty() && world.observed.infrastructure.is_none());
        prop_assert!(world.observed.deployments.is_empty() && world.observed.sets.is_empty());
        prop_assert!(world.observed.control_plane.is_none());
        prop_assert_eq!(world.observed.cluster.metadata.finalizers, None);
    }
}

fn as_usize(number: u32) -> usize {
    usize::try_from(number).expect("small")
}
