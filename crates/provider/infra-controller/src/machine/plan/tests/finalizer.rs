//! From any object and whatever was read, no plan loses our finalizer.

use std::sync::Arc;

use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::{Initialization, creation_record::CreationRecord},
};
use nephele_cloud::{ClusterObservation, Hardware, MachineError};
use nephele_controller::owner_machine;
use nephele_model::{CloudError, Endpoint};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    context::cluster_of_machine,
    finalizer::{
        Finalizer,
        tests::{CASES, Written, answers, check, check_removal, is_resting, often},
    },
    machine::{fetch::Fetched, validate::validate},
    resolved_cloud::ResolvedCloud,
};

/// What our status and the record of the instance say.
fn reported() -> impl Strategy<Value = (Option<InMemoryMachineStatus>, Option<InstanceRecord>)> {
    let time = || MicroTime(Timestamp::UNIX_EPOCH);
    let status =
        (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(move |(begun, provisioned, paused)| {
            let said = condition(
                types::PAUSED,
                if paused {
                    conditions::TRUE
                } else {
                    conditions::FALSE
                },
                "R",
                "",
            );
            InMemoryMachineStatus {
                start_time: begun.then(time),
                initialization: provisioned.then_some(Initialization {
                    provisioned: Some(true),
                }),
                conditions: vec![said],
                ..InMemoryMachineStatus::default()
            }
        });
    let record = (any::<bool>(), any::<bool>(), option::of(any::<bool>())).prop_map(
        move |(begun, terminated, deletion)| InstanceRecord {
            machine: "m".into(),
            origin: begun.then(|| CreationRecord::begun(time())),
            termination: terminated.then(|| Termination { time: time() }),
            deletion: deletion.map(|ended| Deletion {
                time: time(),
                ended: ended.then(time),
            }),
            ..InstanceRecord::default()
        },
    );
    (option::of(status), option::of(record))
}

fn object() -> impl Strategy<Value = InMemoryMachine> {
    let all = (
        Written::any(finalizers::MACHINE),
        any::<bool>(),
        any::<bool>(),
        reported(),
    );
    all.prop_map(|(written, is_control_plane, is_to_terminate, (status, record))| {
        let machine = if is_control_plane {
            objects::control_plane("demo", "m")
        } else {
            objects::worker("demo", "m")
        };
        let mut object = objects::in_memory_machine(&machine);
        written.to(&mut object.metadata);
        if is_to_terminate {
            objects::annotate(&mut object, TERMINATE_ANNOTATION, "");
        }
        object.status = status;
        object.spec.instance = record.map(Box::new);
        object
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let states = vec![
        ClaimState::Missing,
        ClaimState::Taken,
        ClaimState::Late("late".into()),
        ClaimState::Invalid("invalid".into()),
        ClaimState::Bound(ClaimedAddress {
            address: "10.0.0.7".into(),
            ..ClaimedAddress::default()
        }),
    ];
    let wanted = || claims::Wanted {
        name: "m-0-0".into(),
        pool: PoolReference::default(),
    };
    select(states).prop_map(move |state| Claim {
        wanted: wanted(),
        state,
    })
}

fn cluster() -> impl Strategy<Value = Cluster> {
    (any::<bool>(), often(), often()).prop_map(|(paused, provisioned, initialized)| {
        let mut cluster = objects::cluster("demo");
        cluster.spec.paused = Some(paused);
        cluster.status = provisioned.then(|| objects::provisioned(initialized));
        cluster
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    (often(), any::<bool>()).prop_map(|(is_bootstrapped, is_deleted)| {
        let mut machine = objects::worker("demo", "m");
        machine.metadata.deletion_timestamp = is_deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        machine.spec.bootstrap = machine.spec.bootstrap.take().filter(|_| is_bootstrapped);
        machine
    })
}

/// What there is besides the object.
#[derive(Clone, Debug)]
struct Found {
    machine: Option<Machine>,
    cluster: Option<Cluster>,
    exists: bool,
    has_vanished: bool,
    /// Whether the cloud has the cluster, and the cluster its authorities.
    authorities: Option<bool>,
    is_offered: bool,
    described: Option<Result<Hardware, CloudError>>,
    claims: Vec<Claim>,
    authorities_fault: Option<String>,
}

impl Found {
    fn any() -> impl Strategy<Value = Self> {
        let objects = (option::weighted(0.8, machine()), option::weighted(0.8, cluster()));
        let cloud = (any::<bool>(), any::<bool>(), option::of(any::<bool>()), often());
        let unknown = || CloudError::UnknownZone("z".into());
        let described = select(vec![None, Some(Ok(Hardware::default())), Some(Err(unknown()))]);
        let rest = (described, vec(claim(), 0..3), option::of("[a-z]{3}"));
        (objects, cloud, rest).prop_map(|((machine, cluster), cloud, (described, claims, fault))| {
            let (exists, has_vanished, authorities, is_offered) = cloud;
            Self {
                machine,
                cluster,
                exists,
                has_vanished,
                authorities,
                is_offered,
                described,
                claims,
                authorities_fault: fault,
            }
        })
    }

    /// What a reconcile of the object reads. What is of a cluster is found by the Machine, or by the label, or because the
    /// machine was created there.
    fn read(&self, object: &InMemoryMachine) -> Fetched {
        let owned = owner_machine(&object.metadata).is_some();
        let machine = self.machine.clone().filter(|_| owned).map(Arc::new);
        let known = || self.exists.then(|| wanted(Role::Worker).spec.id.cluster);
        let Some(id) = cluster_of_machine(&object.metadata, machine.as_deref()).or_else(known) else {
            return Fetched {
                owned,
                machine,
                ..Fetched::default()
            };
        };
        let endpoint = Endpoint {
            host: "cloud".into(),
            port: 20_000,
        };
        Fetched {
            owned,
            machine,
            id: Some(id),
            cluster: self.cluster.clone().map(Arc::new),
            exists: self.exists,
            has_vanished: self.exists && self.has_vanished,
            observed: self.authorities.map(|authorities_set| ClusterObservation {
                endpoint,
                authorities_set,
                backends: 0,
                machines: 0,
                etcd_members: vec![],
            }),
            resolved_cloud: self.is_offered.then(Arc::<ResolvedCloud>::default),
            described: self.described.clone(),
            claims: self.claims.clone(),
            authorities_fault: self.authorities_fault.clone(),
        }
    }
}

fn answer() -> impl Strategy<Value = Answered> {
    let later = Answer::Wait {
        after: Duration::from_secs(7),
        message: "later".into(),
    };
    select(vec![
        Answered::Said(Answer::Continue),
        Answered::Said(later),
        Answered::Failed("unreachable".into()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_loses_our_finalizer(
        object in object(),
        found in Found::any(),
        answer in answer(),
        deletion in answers::<MachineError>(),
    ) {
        let fetched = found.read(&object);
        let is_in_cloud = found.exists;
        let is_paused = fetched.cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
        let plan = first(&object, validate(&object, fetched));
        let is_resting = is_resting(&object.metadata, is_paused);
        let of_plan = plan.finalizer();
        let decision = decided(plan, answer);
        for planned in [of_plan, decision.finalizer()] {
            check(&object.metadata, finalizers::MACHINE, planned, is_resting)?;
        }
        let asked = match &decision {
            Decision::Remove(id) => id.is_some(),
            Decision::ResumeRemoval(_) => true,
            _ => return Ok(()),
        };
        prop_assert_eq!(decision.finalizer(), Finalizer::Released);
        check_removal(asked, is_in_cloud, deletion)?;
    }
}
