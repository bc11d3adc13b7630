use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use nephele_api::{
    conditions::{self, condition},
    infrastructure::v1beta2::{
        ClaimedAddress, InMemoryCluster, InMemoryMachineStatus, MachineNetwork, MachineNetworkStatus,
    },
    ipam::v1beta2::{IPAddressClaimStatus, IPAddressSpec, NameReference},
};
use nephele_controller::WATCH_FILTER_LABEL;
use nephele_testkit::objects;
use serde_json::json;

use super::*;

fn pool(name: &str) -> PoolReference {
    PoolReference {
        api_group: "ipam.example".into(),
        kind: "Pool".into(),
        name: name.into(),
    }
}

fn machine(pools: &[&str]) -> InMemoryMachine {
    let mut machine = objects::in_memory_machine(&objects::worker("demo", "m"));
    machine.metadata.uid = Some("uid-of-m".into());
    let addresses_from_pools = pools.iter().map(|name| pool(name)).collect();
    machine.spec.network = Some(MachineNetwork { addresses_from_pools });
    machine
}

fn claim() -> IPAddressClaim {
    object(
        &machine(&["v4"]),
        "demo",
        &Wanted {
            name: "m-0-0".into(),
            pool: pool("v4"),
        },
    )
}

#[test]
fn a_claim_is_named_after_its_machine_and_owned_by_it() {
    let machine = machine(&["v4", "v6"]);
    let wanted = machine.wanted();
    assert_eq!(
        wanted,
        [
            Wanted {
                name: "m-0-0".into(),
                pool: pool("v4")
            },
            Wanted {
                name: "m-0-1".into(),
                pool: pool("v6")
            },
        ]
    );
    let claim = serde_json::to_value(object(&machine, "demo", &wanted[1])).expect("JSON");
    let expected = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "metadata": {
            "name": "m-0-1",
            "namespace": "default",
            "labels": { "cluster.x-k8s.io/cluster-name": "demo" },
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "kind": "InMemoryMachine",
                "name": "m",
                "uid": "uid-of-m",
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "clusterName": "demo",
            "poolRef": { "apiGroup": "ipam.example", "kind": "Pool", "name": "v6" },
        },
    });
    assert_eq!(claim, expected);
}

#[test]
fn a_claim_is_served_by_the_manager_of_its_machine() {
    let mut machine = machine(&["v4"]);
    machine
        .labels_mut()
        .insert(WATCH_FILTER_LABEL.to_owned(), "mine".to_owned());
    let claim = object(&machine, "demo", &machine.wanted()[0]);
    let expected = [
        ("cluster.x-k8s.io/cluster-name", "demo"),
        (WATCH_FILTER_LABEL, "mine"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(claim.metadata.labels, Some(expected.into()));
}

#[test]
fn claims_that_were_made_for_pools_which_are_not_wanted_any_more_are_released_too() {
    let mut machine = machine(&["v4"]);
    assert_eq!(machine.made(), ["m-0-0"]);
    let network = MachineNetworkStatus {
        addresses: vec![ClaimedAddress::default(); 2],
    };
    machine.status = Some(InMemoryMachineStatus {
        network: Some(network),
        ..InMemoryMachineStatus::default()
    });
    assert_eq!(machine.made(), ["m-0-0", "m-0-1"]);
    machine.spec.network = None;
    assert_eq!(machine.made(), ["m-0-0", "m-0-1"]);
}

#[test]
fn a_claim_stands_as_its_provider_says() {
    let owner = machine(&["v4"]).metadata;
    let state_of = |claim: &IPAddressClaim| state::state(&owner, Some(claim), None);
    let waiting = |reason: &str, message: &str| ClaimState::Waiting {
        reason: reason.into(),
        message: message.into(),
    };
    assert_eq!(state::state(&owner, None, None), ClaimState::Missing);
    assert_eq!(state_of(&claim()), waiting("WaitingForIPAddress", ""));

    let mut going = claim();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(
        state_of(&going),
        waiting("WaitingForIPAddress", "it is being deleted")
    );
    let mut other = claim();
    other.owner_references_mut()[0].uid = "uid-of-an-earlier-m".into();
    assert_eq!(state_of(&other), ClaimState::Taken);

    for (status, expected) in [
        (conditions::FALSE, waiting("PoolExhausted", "pool v4 is full")),
        (conditions::UNKNOWN, waiting("PoolExhausted", "pool v4 is full")),
        // Ready, but without an address.
        (conditions::TRUE, waiting("WaitingForIPAddress", "")),
    ] {
        let ready = condition("Ready", status, "PoolExhausted", "pool v4 is full");
        let status = IPAddressClaimStatus {
            conditions: vec![ready],
            address_ref: None,
        };
        assert_eq!(
            state_of(&IPAddressClaim {
                status: Some(status),
                ..claim()
            }),
            expected
        );
    }
}

#[test]
fn an_address_is_taken_as_its_provider_made_it_unless_it_is_none() {
    let owner = machine(&["v4"]).metadata;
    let address_ref = Some(NameReference { name: "a".into() });
    let bound = IPAddressClaim {
        status: Some(IPAddressClaimStatus {
            conditions: vec![],
            address_ref,
        }),
        ..claim()
    };
    let state_of = |spec: IPAddressSpec| {
        let mut address = IPAddress::new("a", spec);
        address.metadata.namespace = Some("default".into());
        state::state(&owner, Some(&bound), Some(&address))
    };
    let spec = |address: &str, prefix, gateway: &str| IPAddressSpec {
        claim_ref: NameReference { name: "m-0-0".into() },
        pool_ref: (&pool("v4")).into(),
        address: address.into(),
        prefix,
        gateway: gateway.into(),
    };
    let given = |address: &str, prefix, gateway: &str| {
        ClaimState::Bound(ClaimedAddress {
            address: address.into(),
            prefix,
            gateway: gateway.into(),
        })
    };
    let invalid = |message: &str| ClaimState::Invalid(format!("IPAddress a {message}"));
    let late = ClaimState::Late("IPAddress a does not exist".into());
    assert_eq!(state::state(&owner, Some(&bound), None), late);
    for (spec, expected) in [
        (
            spec("10.0.0.7", Some(24), "10.0.0.1"),
            given("10.0.0.7", Some(24), "10.0.0.1"),
        ),
        (spec("fd00:0:0::7", Some(64), ""), given("fd00::7", Some(64), "")),
        // Some IPAM providers leave the prefix out.
        (spec("10.0.0.7", None, ""), given("10.0.0.7", None, "")),
        (
            spec("10.0.0.0/24", Some(24), ""),
            invalid(r#"has the invalid address "10.0.0.0/24""#),
        ),
        (spec("10.0.0.7", Some(33), ""), invalid("has a prefix of 33 bits")),
        (spec("fd00::7", Some(-1), ""), invalid("has a prefix of -1 bits")),
        (
            spec("10.0.0.7", Some(24), "gate"),
            invalid(r#"has the invalid gateway "gate""#),
        ),
        (
            IPAddressSpec {
                claim_ref: NameReference { name: "x".into() },
                ..spec("10.0.0.7", None, "")
            },
            invalid(r#"belongs to IPAddressClaim "x""#),
        ),
    ] {
        assert_eq!(state_of(spec), expected);
    }
}

#[test]
fn what_is_waited_for_names_claim_pool_and_reason_and_what_people_can_mend_comes_first() {
    let claim = |index: usize, state| Claim {
        wanted: Wanted {
            name: format!("m-0-{index}"),
            pool: pool(["v4", "v6"][index]),
        },
        state,
    };
    let exhausted = ClaimState::Waiting {
        reason: "PoolExhausted".into(),
        message: "no address is free".into(),
    };
    let bound = || claim(0, ClaimState::Bound(ClaimedAddress::default()));
    assert_eq!(Unmet::of(&[bound()]), None);
    for (claims, reason, message, outcome) in [
        (
            [claim(0, ClaimState::Missing), claim(1, exhausted.clone())],
            "PoolExhausted",
            "Waiting for IPAddressClaim m-0-0 of Pool v4; Waiting for IPAddressClaim m-0-1 of Pool v6: \
             PoolExhausted: no address is free",
            Outcome::WaitingOn("WaitingForIPAddress"),
        ),
        (
            [bound(), claim(1, ClaimState::Taken)],
            "IPAddressClaimTaken",
            "Waiting for IPAddressClaim m-0-1 of Pool v6: IPAddressClaimTaken: it belongs to another object",
            Outcome::WaitingOn("WaitingForIPAddress"),
        ),
        (
            [
                bound(),
                claim(1, ClaimState::Late("IPAddress a does not exist".into())),
            ],
            "WaitingForIPAddress",
            "Waiting for IPAddressClaim m-0-1 of Pool v6: IPAddress a does not exist",
            Outcome::After(LATE_ADDRESS),
        ),
    ] {
        let unmet = Unmet::of(&claims).expect("not all are bound");
        assert_eq!(
            (unmet.reason(), unmet.message().as_str(), unmet.outcome()),
            (reason, message, outcome)
        );
    }
}

#[test]
fn a_claim_is_disowned_when_it_is_as_it_was_made_and_has_no_controller() {
    let owner = machine(&["v4"]);
    let is_disowned = |change: fn(&mut IPAddressClaim)| {
        let mut claim = claim();
        claim.metadata.owner_references = None;
        change(&mut claim);
        owners::restored(&owner, "demo", &owner.wanted(), &claim).is_some()
    };
    let controller = |controller| OwnerReference {
        kind: "Other".into(),
        controller: Some(controller),
        ..OwnerReference::default()
    };
    assert!(is_disowned(|_| {}));
    assert!(is_disowned(|claim| claim.metadata.owner_references = Some(vec![])));
    assert_eq!(owners::restored(&owner, "demo", &owner.wanted(), &claim()), None);
    assert!(!is_disowned(|claim| claim.metadata.name = Some("m-0-1".into())));
    assert!(!is_disowned(|claim| claim.spec.pool_ref.name = "v6".into()));
    assert!(!is_disowned(|claim| claim.metadata.labels = None));
    let mut claim = claim();
    for (controls, expected) in [(false, true), (true, false)] {
        claim.metadata.owner_references = Some(vec![controller(controls)]);
        let restored = owners::restored(&owner, "demo", &owner.wanted(), &claim);
        assert_eq!(restored.is_some(), expected);
    }
}

#[test]
fn a_claim_names_its_owner_by_the_version_that_is_written_now() {
    let owner = machine(&["v4"]);
    let mut outdated = claim();
    let references = outdated.owner_references_mut();
    references[0].api_version = "infrastructure.cluster.x-k8s.io/v1beta1".into();
    references.push(OwnerReference {
        api_version: "example.com/v1".into(),
        ..OwnerReference::default()
    });
    let mut expected = claim().owner_references().to_vec();
    expected.push(outdated.owner_references()[1].clone());
    let restored = owners::restored(&owner, "demo", &owner.wanted(), &outdated);
    assert_eq!(restored, Some(expected));
}

#[test]
fn a_claim_wakes_its_owner_and_one_without_a_controller_whoever_it_is_named_after() {
    let name = |claim: &ObjectMeta| {
        let machine = claimant::<InMemoryMachine>(claim).map(|found| found.name);
        let cluster = claimant::<InMemoryCluster>(claim).map(|found| found.name);
        (machine, cluster)
    };
    let mut meta = claim().metadata;
    meta.name = Some("other-0-0".into());
    assert_eq!(name(&meta), (Some("m".into()), None));
    meta.owner_references = None;
    assert_eq!(name(&meta), (Some("other".into()), None));
    for (claim, expected) in [
        ("a-0-0-0-12", (Some("a-0-0".to_owned()), None)),
        ("a-load-balancer", (None, Some("a".to_owned()))),
        ("a-0-x", (None, None)),
        ("a", (None, None)),
    ] {
        meta.name = Some(claim.into());
        assert_eq!(name(&meta), expected, "{claim}");
    }
}
