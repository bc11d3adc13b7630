use std::collections::BTreeMap;

use nephele_api::{
    core::{ClusterSpec, ObjectReference},
    ipam::{
        GROUP, PoolKind,
        v1beta2::{IPAddressClaimSpec, IPAddressClaimStatus, NameReference},
    },
};
use nephele_controller::PAUSED_ANNOTATION;

use super::*;

fn claim() -> IPAddressClaim {
    let pool_ref = ObjectReference {
        api_group: GROUP.into(),
        kind: "InClusterIPPool".into(),
        name: "pool".into(),
    };
    let mut claim = IPAddressClaim::new(
        "claim",
        IPAddressClaimSpec {
            cluster_name: String::new(),
            pool_ref,
        },
    );
    claim.metadata.namespace = Some("ns".into());
    claim
}

fn deleted(mut claim: IPAddressClaim) -> IPAddressClaim {
    claim.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    claim
}

fn held(mut claim: IPAddressClaim) -> IPAddressClaim {
    claim.metadata.finalizers = Some(vec![finalizers::CLAIM.into()]);
    claim
}

fn annotated(mut claim: IPAddressClaim, name: &str, value: &str) -> IPAddressClaim {
    claim.metadata.annotations = Some(BTreeMap::from([(name.into(), value.into())]));
    claim
}

fn bound(mut claim: IPAddressClaim) -> IPAddressClaim {
    claim.status = Some(IPAddressClaimStatus {
        address_ref: Some(NameReference { name: "claim".into() }),
        ..IPAddressClaimStatus::default()
    });
    claim
}

fn key() -> PoolKey {
    PoolKey {
        kind: PoolKind::InClusterIPPool,
        namespace: "ns".into(),
        name: "pool".into(),
    }
}

/// A pool, and no Cluster.
fn fetched() -> Fetched {
    Fetched {
        key: Some(key()),
        pool: Some(Pool::new(key())),
        facts: Facts::default(),
        cluster: None,
    }
}

fn of_cluster(paused: Option<bool>) -> Fetched {
    let cluster = Cluster {
        spec: ClusterSpec {
            paused,
            ..ClusterSpec::default()
        },
        ..Cluster::default()
    };
    Fetched {
        cluster: Some(("c".into(), Some(Arc::new(cluster)))),
        ..fetched()
    }
}

fn waiting(reason: &'static str, message: &str, protect: bool) -> Need {
    Need::Plan(Plan::Wait {
        reason,
        message: message.into(),
        protect,
    })
}

fn leave(outcome: Outcome) -> Need {
    Need::Plan(Plan::Leave(outcome))
}

#[test]
fn a_claim_on_a_pool_that_is_there_is_bound() {
    assert_eq!(plan(&claim(), &fetched()), Need::Address { wanted: None });
    assert_eq!(plan(&claim(), &of_cluster(None)), Need::Address { wanted: None });
    assert_eq!(
        plan(&claim(), &of_cluster(Some(false))),
        Need::Address { wanted: None }
    );
}

#[test]
fn a_claim_on_another_providers_pool_is_left_alone() {
    let fetched = Fetched {
        key: None,
        pool: None,
        ..fetched()
    };
    for claim in [claim(), held(deleted(claim()))] {
        assert_eq!(plan(&claim, &fetched), leave(Outcome::Done));
    }
}

#[test]
fn a_claim_reports_a_missing_pool_and_can_still_be_deleted() {
    let fetched = Fetched {
        pool: None,
        ..fetched()
    };
    let message = "InClusterIPPool ns/pool does not exist";
    assert_eq!(plan(&claim(), &fetched), waiting("PoolNotReady", message, true));
    assert_eq!(plan(&held(deleted(claim())), &fetched), Need::Plan(Plan::Release));
    // The address of a bound claim stays valid.
    assert_eq!(
        plan(&bound(held(claim())), &fetched),
        leave(Outcome::WaitingOn("PoolNotReady"))
    );
}

#[test]
fn a_missing_cluster_is_waited_for_in_silence_unless_the_claim_goes() {
    let fetched = Fetched {
        cluster: Some(("c".into(), None)),
        ..fetched()
    };
    assert_eq!(plan(&claim(), &fetched), leave(Outcome::WaitingOn("Cluster")));
    assert_eq!(plan(&held(deleted(claim())), &fetched), Need::Plan(Plan::Release));
}

#[test]
fn whoever_is_paused_stops_claims_both_ways() {
    let cluster = of_cluster(Some(true));
    let pool = Fetched {
        facts: Facts {
            paused: true,
            ..Facts::default()
        },
        ..fetched()
    };
    let itself = annotated(claim(), PAUSED_ANNOTATION, "");
    let cases = [
        (claim(), &cluster, "Cluster spec.paused is set to true"),
        (claim(), &pool, "InClusterIPPool ns/pool is paused"),
        (
            itself,
            &fetched(),
            "IPAddressClaim has the cluster.x-k8s.io/paused annotation",
        ),
    ];
    for (claim, fetched, message) in cases {
        assert_eq!(plan(&claim, fetched), waiting("Paused", message, false));
        for left in [bound(claim.clone()), held(deleted(claim))] {
            assert_eq!(plan(&left, fetched), leave(Outcome::WaitingOn("Paused")));
        }
    }
}

#[test]
fn a_claim_that_goes_without_our_finalizer_is_left_alone() {
    assert_eq!(plan(&deleted(claim()), &fetched()), leave(Outcome::Done));
    assert_eq!(
        plan(&held(deleted(claim())), &fetched()),
        Need::Plan(Plan::Release)
    );
}

#[test]
fn a_wanted_address_is_read_or_said_to_be_none() {
    let wanting = |text| annotated(claim(), annotations::WANTED_ADDRESS, text);
    let wanted = Some("10.0.0.7".parse().expect("an address"));
    assert_eq!(plan(&wanting("10.0.0.7"), &fetched()), Need::Address { wanted });
    let Need::Plan(Plan::Wait { reason, message, .. }) = plan(&wanting("10.0.0"), &fetched()) else {
        panic!("it is no address")
    };
    assert_eq!(reason, "AllocationFailed");
    assert!(
        message.starts_with("the annotation ipam.nephele.dev/address is not an address: "),
        "{message}"
    );
    // The annotation was changed after the claim got its address.
    assert_eq!(
        plan(&bound(wanting("10.0.0")), &fetched()),
        Need::Address { wanted: None }
    );
}

#[test]
fn a_claim_is_tried_again_after_the_time_that_it_exists_when_its_ip_address_was_refused() {
    let mut claim = claim();
    let second = |second| Timestamp::from_second(second).expect("in range");
    claim.metadata.creation_timestamp = Some(Time(second(100)));
    let waits = [90, 100, 107, 130, 1000].map(|now| after_denial(&claim, second(now)).as_secs());
    assert_eq!(waits, [2, 2, 7, 30, 60]);
}
