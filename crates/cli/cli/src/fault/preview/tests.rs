use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};
use nephele_api::{cloud::v1alpha1::ClusterFaultSpec, ipam::v1beta2::IPAddressClaim};
use nephele_testkit::{ManagementApi, objects};
use serde_json::{Value, json};

use super::*;
use crate::objects::listed;

/// What the command prints for a Fault in the namespace `default`, or for a ClusterFault.
async fn printed(management: &ManagementApi, is_one: bool, spec: Value) -> Result<String, String> {
    let client = management.client();
    let spec: ClusterFaultSpec = serde_json::from_value(spec).expect("a spec");
    let namespace = is_one.then_some(objects::NAMESPACE);
    let places = Places::list(&client, namespace, &spec).await.expect("lists");
    let selections = places.selections(&spec.fault, Timestamp::now());
    let selections = selections.map_err(|mistake| mistake.to_string())?;
    Ok(match namespace {
        Some(namespace) => of_fault(namespace, &spec.fault.budget, &selections),
        None => of_cluster_fault(places.of, &spec.fault.budget, &selections),
    })
}

/// A cluster with two workers in two racks, and two claims on each of two pools, of which one has its address.
async fn management() -> ManagementApi {
    let management = ManagementApi::start();
    let cluster = management.create(&objects::cluster("demo")).await;
    management.create(&objects::in_memory_cluster(&cluster)).await;
    for (name, rack) in [("one", "a"), ("two", "b")] {
        let mut machine = objects::worker("demo", name);
        let labels = machine.metadata.labels.get_or_insert_default();
        labels.insert("rack".into(), rack.into());
        let machine = management.create(&machine).await;
        management.create(&objects::in_memory_machine(&machine)).await;
    }
    for pool in ["v4", "v6"] {
        for name in ["bound", "waits"] {
            let claim = json!({
                "metadata": {
                    "namespace": objects::NAMESPACE,
                    "name": format!("{name}-{pool}"),
                    "finalizers": [nephele_api::ipam::finalizers::CLAIM],
                },
                "spec": { "poolRef": { "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool } },
            });
            let claim: IPAddressClaim = serde_json::from_value(claim).expect("a claim");
            let claim = management.create(&claim).await;
            if name == "bound" {
                let status = json!({ "addressRef": { "name": "bound" } });
                management
                    .patch_status::<IPAddressClaim>(&claim.name_any(), &status)
                    .await;
            }
        }
    }
    management
}

#[tokio::test]
async fn a_fault_that_selects_nothing_says_what_there_is_and_which_flag_excludes_it() {
    let management = management().await;
    let client = management.client();
    for (effect, matches, expected) in [
        (
            "notReady",
            json!({ "names": ["three"] }),
            Some(
                "It selects nothing that is there now: 0 of 2 machines and 0 of 1 cluster. Without --target it would select 2 \
                 of 2 machines and 0 of 1 cluster",
            ),
        ),
        (
            "notReady",
            json!({ "names": ["one"], "machineSelector": { "matchLabels": { "rack": "b" } } }),
            Some(
                "It selects nothing that is there now: 0 of 2 machines and 0 of 1 cluster. Without --target it would select 1 \
                 of 2 machines and 0 of 1 cluster",
            ),
        ),
        (
            "notReady",
            json!({ "zones": ["x"], "names": ["nothing"] }),
            Some("It selects nothing that is there now: 0 of 2 machines and 0 of 1 cluster"),
        ),
        ("notReady", json!({ "names": ["one"] }), None),
    ] {
        let spec = json!({ "effect": { effect: {} }, "match": matches });
        let spec: ClusterFaultSpec = serde_json::from_value(spec).expect("a spec");
        let places = Places::list(&client, Some(objects::NAMESPACE), &spec).await;
        let said = places.expect("lists").why_nothing(&spec.fault, Timestamp::now());
        assert_eq!(said.as_deref(), expected, "{matches}");
    }
}

#[tokio::test]
async fn it_names_what_a_fault_selects_and_creates_nothing() {
    let management = management().await;
    let rack = json!({ "machineSelector": { "matchLabels": { "rack": "b" } } });
    for (spec, expected) in [
        (
            json!({ "effect": { "notReady": {} }, "match": rack, "budget": { "count": 1 } }),
            "The Fault selects 1 of 2 machines and 0 of 1 cluster in namespace default.\n  \
             inmemorymachine/two\nOf what it matches, it hits at most 1.\n",
        ),
        (
            json!({ "effect": { "loadBalancer": { "noBackends": {} } } }),
            "The Fault selects 0 of 2 machines and 1 of 1 cluster in namespace default.\n  cluster/demo\n",
        ),
        (
            json!({ "effect": { "leak": {} }, "match": { "names": ["one"] } }),
            "The Fault selects 1 of 2 machines and 0 of 1 cluster in namespace default.\n  \
             inmemorymachine/one\nIt hits these operations, also on machines to come: DeleteInstance.\n",
        ),
        (
            json!({ "effect": { "addresses": { "exhausted": {} } }, "budget": { "count": 1 } }),
            "The Fault selects 2 of 4 claims in namespace default.\n  \
             ipaddressclaim/waits-v4\n  ipaddressclaim/waits-v6\n\
             It hits claims that wait for an address, also claims to come.\n\
             Of what it matches, it hits at most 1.\n",
        ),
        (
            json!({
                "effect": { "addresses": { "lateRelease": { "duration": "1m" } } }, "match": { "pools": ["v4"] },
            }),
            "The Fault selects 1 of 4 claims in namespace default.\n  ipaddressclaim/bound-v4\n\
             It hits claims that are deleted with their address, also claims to come.\n",
        ),
    ] {
        assert_eq!(printed(&management, true, spec).await, Ok(expected.to_owned()));
    }
    let mistaken = json!({ "effect": { "addresses": { "exhausted": {} } }, "match": { "names": ["one"] } });
    assert_eq!(
        printed(&management, true, mistaken).await,
        Err("spec.match.names: \"one\" is not for a fault of addresses".to_owned())
    );
}

#[tokio::test]
async fn it_names_what_a_cluster_fault_selects_in_each_namespace() {
    let management = management().await;
    for (name, team) in [("blue", "b"), ("red", "r")] {
        let namespace = json!({ "metadata": { "name": name, "labels": { "team": team } } });
        let namespace: Namespace = serde_json::from_value(namespace).expect("a Namespace");
        let api = Api::all(management.client());
        api.create(&Default::default(), &namespace)
            .await
            .expect("a namespace");
    }
    let not_ready = json!({ "notReady": {} });
    let blue = json!({ "matchLabels": { "team": "b" } });
    let all = Api::<Namespace>::all(management.client())
        .list(&Default::default())
        .await;
    let all = all.expect("a list").items.len();
    for (spec, expected) in [
        (
            json!({ "effect": not_ready, "budget": { "count": 1 } }),
            format!(
                "The ClusterFault selects {all} of {all} namespaces.\n\
                 In namespace default it selects 2 of 2 machines and 0 of 1 cluster.\n  \
                 inmemorymachine/one\n  inmemorymachine/two\n\
                 It selects nothing in {} of its namespaces.\n\
                 Of what it matches in each namespace, it hits at most 1.\n",
                all - 1
            ),
        ),
        (
            json!({ "effect": { "addresses": { "conflict": {} } }, "namespaceSelector": blue }),
            format!(
                "The ClusterFault selects 1 of {all} namespaces.\nIt selects nothing in namespace blue.\n\
                 It hits claims that wait for an address, also claims to come.\n"
            ),
        ),
    ] {
        assert_eq!(printed(&management, false, spec).await, Ok(expected));
    }
}

#[test]
fn of_many_namespaces_and_names_the_first_are_told_and_the_rest_is_counted() {
    let selection = |names: usize| Selection {
        shares: vec![Share {
            word: "claim",
            resource: "ipaddressclaim",
            names: (0..names).map(|number| number.to_string()).collect(),
            of: names,
        }],
        hits: None,
    };
    let selections: Vec<_> = (0..NAMESPACES_MAX + 2)
        .map(|number| {
            (
                format!("n{number}"),
                selection(if number == 0 { NAMES_MAX + 1 } else { 1 }),
            )
        })
        .collect();
    let text = of_cluster_fault(30, &FaultBudget::default(), &selections);
    let lines: Vec<_> = text.lines().collect();
    let of_first = NAMES_MAX + 2;
    assert_eq!(lines.len(), 1 + of_first + 2 * (NAMESPACES_MAX - 1) + 1);
    assert_eq!(
        [
            lines[0],
            lines[1],
            lines[of_first],
            lines[of_first + 1],
            lines[lines.len() - 1]
        ],
        [
            "The ClusterFault selects 22 of 30 namespaces.",
            "In namespace n0 it selects 21 of 21 claims.",
            "  and 1 more",
            "In namespace n1 it selects 1 of 1 claim.",
            "It selects something in 2 more namespaces.",
        ]
    );
}

#[tokio::test]
async fn who_may_not_list_namespaces_learns_which_permission_is_missing() {
    let management = ManagementApi::start();
    let client = management.forbidding(|_, path| path == "/api/v1/namespaces");
    let refused = listed(&Api::<Namespace>::all(client), "")
        .await
        .expect_err("it is forbidden");
    assert_eq!(
        refused.to_string(),
        "failed to list the Namespaces: you need the permission to list namespaces"
    );
}
