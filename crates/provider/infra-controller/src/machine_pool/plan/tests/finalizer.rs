//! From any object and whatever was read, no plan loses our finalizer.

use std::sync::Arc;

use nephele_api::{
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::InMemoryMachine,
    labels,
};
use nephele_model::ClusterId;
use nephele_testkit::objects;
use proptest::{collection::btree_map, option, prelude::*};

use super::*;
use crate::{
    finalizer::tests::{CASES, Written, check, is_resting, often},
    machine_pool::{fetch::Fetched, validate::validate},
};

fn object() -> impl Strategy<Value = InMemoryMachinePool> {
    let paused = option::of(any::<bool>());
    (Written::any(finalizers::MACHINE_POOL), paused).prop_map(|(written, paused)| {
        let mut object = object_of_core();
        written.to(&mut object.metadata);
        object.status = paused.map(|paused| {
            let said = if paused {
                conditions::TRUE
            } else {
                conditions::FALSE
            };
            let conditions = vec![condition(types::PAUSED, said, "R", "")];
            InMemoryMachinePoolStatus {
                conditions,
                ..InMemoryMachinePoolStatus::default()
            }
        });
        object
    })
}

/// An InMemoryMachinePool with the owner and the label that core adds.
fn object_of_core() -> InMemoryMachinePool {
    let mut object = super::object();
    let mut pool = MachinePool::default();
    pool.metadata.name = Some("pool".into());
    objects::own(&mut object, &pool);
    objects::label(&mut object, labels::CLUSTER_NAME, "demo");
    object
}

/// A machine of the pool: its InMemoryMachine and its Machine, each perhaps on its way out.
type Pair = (Option<bool>, Option<bool>);

/// What there is besides the object.
#[derive(Clone, Debug)]
struct Found {
    is_pool_there: bool,
    replicas: i32,
    is_bootstrapped: bool,
    /// Whether the Cluster is paused, if it is there.
    cluster: Option<bool>,
    machines: std::collections::BTreeMap<u8, Pair>,
}

impl Found {
    fn any() -> impl Strategy<Value = Self> {
        let pair = (option::of(any::<bool>()), option::of(any::<bool>()));
        let all = (
            often(),
            0..4,
            often(),
            option::weighted(0.8, any::<bool>()),
            btree_map(0..6_u8, pair, 0..4),
        );
        all.prop_map(
            |(is_pool_there, replicas, is_bootstrapped, cluster, machines)| Self {
                is_pool_there,
                replicas,
                is_bootstrapped,
                cluster,
                machines,
            },
        )
    }

    fn read(&self, object: &InMemoryMachinePool) -> Fetched {
        let owned = object
            .metadata
            .owner_references
            .as_ref()
            .is_some_and(|owners| !owners.is_empty());
        let deleted = |is_deleted: bool| is_deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        let member = |name: String, is_deleted: bool| {
            let mut member = InMemoryMachine::default();
            member.metadata.name = Some(name);
            member.metadata.deletion_timestamp = deleted(is_deleted);
            Arc::new(member)
        };
        let machine = |name: &str, is_deleted: bool| -> Arc<Machine> {
            let mut machine = objects::worker("demo", name);
            machine.metadata.deletion_timestamp = deleted(is_deleted);
            Arc::new(machine)
        };
        let named = || {
            self.machines
                .iter()
                .map(|(number, pair)| (format!("pool-{number}"), *pair))
        };
        Fetched {
            owned,
            pool: (owned && self.is_pool_there).then(|| Arc::new(self.pool())),
            id: Some(ClusterId {
                namespace: "default".into(),
                name: "demo".into(),
            }),
            cluster: self.cluster.map(|paused| Arc::new(cluster(paused))),
            members: named()
                .filter_map(|(name, (is_deleted, _))| Some((name.clone(), member(name, is_deleted?))))
                .collect(),
            disowned: vec![],
            machines: named()
                .filter_map(|(name, (_, is_deleted))| Some((name.clone(), machine(&name, is_deleted?))))
                .collect(),
        }
    }

    fn pool(&self) -> MachinePool {
        let mut pool = MachinePool::default();
        pool.metadata.name = Some("pool".into());
        pool.spec.replicas = Some(self.replicas);
        pool.spec.template.spec = objects::worker("demo", "pool").spec;
        let bootstrap = &mut pool.spec.template.spec.bootstrap;
        *bootstrap = bootstrap.take().filter(|_| self.is_bootstrapped);
        pool
    }
}

fn cluster(paused: bool) -> Cluster {
    let mut cluster = objects::cluster("demo");
    cluster.spec.paused = Some(paused);
    cluster.status = Some(objects::provisioned(true));
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_loses_our_finalizer(object in object(), found in Found::any()) {
        let fetched = found.read(&object);
        let is_any_left = !fetched.members.is_empty();
        let (validated, members) = validate(&object, fetched);
        let decision = answered(&object, validated, members);
        let is_resting = is_resting(&object.metadata, found.cluster == Some(true));
        check(&object.metadata, finalizers::MACHINE_POOL, decision.finalizer(), is_resting)?;
        if let Decision::Remove { left: 0, .. } = decision {
            prop_assert!(!is_any_left, "it goes before its machines");
        }
    }
}
