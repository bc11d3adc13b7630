//! From any object and whatever was read, no plan loses our finalizer.

use nephele_api::{
    core::Cluster,
    infrastructure::v1beta2::{CloudReference, ControlPlaneEndpoint},
};
use nephele_cloud::CallError;
use nephele_controller::owner_cluster;
use nephele_testkit::objects::Purpose;
use proptest::{option, prelude::*, sample::select};

use super::*;
use crate::{
    cluster::{fetch::Fetched, validate::validate},
    context::cluster_of,
    finalizer::tests::{CASES, Written, answers, check, check_removal, is_resting},
    secret::AuthoritySecret,
};

fn object() -> impl Strategy<Value = InMemoryCluster> {
    let status = (any::<bool>(), any::<bool>());
    let spec = (any::<bool>(), any::<bool>(), any::<bool>());
    (Written::any(finalizers::CLUSTER), option::of(status), spec).prop_map(|(written, status, spec)| {
        let mut object = objects::in_memory_cluster(&objects::cluster("demo"));
        written.to(&mut object.metadata);
        object.status = status.map(|(provisioned, paused)| InMemoryClusterStatus {
            initialization: provisioned.then_some(Initialization {
                provisioned: Some(true),
            }),
            conditions: vec![condition(
                types::PAUSED,
                if paused {
                    conditions::TRUE
                } else {
                    conditions::FALSE
                },
                "R",
                "",
            )],
            ..InMemoryClusterStatus::default()
        });
        let (is_published, has_cloud, is_previous) = spec;
        let endpoint = ControlPlaneEndpoint {
            host: "lb.example".into(),
            port: 6443,
        };
        object.spec.control_plane_endpoint = is_published.then_some(endpoint);
        object.spec.cloud_ref = has_cloud.then(|| CloudReference { name: "north".into() });
        if is_previous {
            object.set_first_created(Timestamp::UNIX_EPOCH);
        }
        object
    })
}

/// What there is besides the object.
#[derive(Clone, Debug)]
struct Found {
    /// Whether the Cluster is paused, if it is there.
    cluster: Option<bool>,
    has_authorities: bool,
    claim: Option<ClaimState>,
    is_cloud_there: bool,
    is_in_cloud: bool,
}

impl Found {
    fn any() -> impl Strategy<Value = Self> {
        let states = select(vec![
            ClaimState::Missing,
            ClaimState::Taken,
            ClaimState::Late("late".into()),
            ClaimState::Bound(ClaimedAddress::default()),
        ]);
        let cluster = option::weighted(0.8, any::<bool>());
        let all = (
            cluster,
            any::<bool>(),
            option::of(states),
            any::<bool>(),
            any::<bool>(),
        );
        all.prop_map(
            |(cluster, has_authorities, claim, is_cloud_there, is_in_cloud)| Self {
                cluster,
                has_authorities,
                claim,
                is_cloud_there,
                is_in_cloud,
            },
        )
    }

    /// What a reconcile of the object reads. Nothing is looked for if nothing names the cluster.
    fn read(&self, object: &InMemoryCluster) -> Fetched {
        let Some(id) = cluster_of(&object.metadata) else {
            return Fetched::default();
        };
        let secret = |purpose: Purpose| {
            let name = purpose.secret_name("demo");
            let metadata = serde_json::json!({ "metadata": { "name": name } });
            let secret: AuthoritySecret = serde_json::from_value(metadata).expect("a Secret");
            Arc::new(secret)
        };
        let name = "demo-load-balancer".to_owned();
        let wanted = claims::Wanted {
            name,
            pool: PoolReference::default(),
        };
        Fetched {
            id: Some(id),
            owned: owner_cluster(&object.metadata).is_some(),
            cluster: self.cluster.map(|paused| Arc::new(cluster(paused))),
            ca: self.has_authorities.then(|| secret(Purpose::Cluster)),
            etcd: self.has_authorities.then(|| secret(Purpose::Etcd)),
            claim: self.claim.clone().map(|state| Claim { wanted, state }),
            cloud: self.is_cloud_there.then(Arc::default),
            observed: self.is_in_cloud.then(observed),
        }
    }
}

fn cluster(paused: bool) -> Cluster {
    let mut cluster = objects::cluster("demo");
    cluster.spec.paused = Some(paused);
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_loses_our_finalizer(
        object in object(),
        found in Found::any(),
        deletion in answers::<CallError>(),
    ) {
        let fetched = found.read(&object);
        let is_in_cloud = fetched.observed.is_some();
        let is_paused = fetched.cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
        let plan = plan(&object, validate(&object, fetched));
        let is_resting = is_resting(&object.metadata, is_paused);
        check(&object.metadata, finalizers::CLUSTER, plan.finalizer(), is_resting)?;
        let asked = match &plan {
            Plan::Remove(id) => id.is_some(),
            Plan::ResumeRemoval(_) => true,
            _ => return Ok(()),
        };
        check_removal(asked, is_in_cloud, deletion)?;
    }
}
