//! The objects of a small cluster, as tables and texts.

use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::PostParams, core::DynamicObject};
use nephele_testkit::ManagementApi;
use serde_json::{Value, json};

use super::{
    found::{Found, Surroundings},
    output::render,
    *,
};
use crate::{
    access::Access,
    exit::{Exit, Problem},
};

const MADE: &str = "2026-03-04T05:06:07Z";

fn now() -> Timestamp {
    "2026-03-04T05:08:07Z".parse().expect("a time")
}

fn object(version: &str, kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {
        "namespace": "default", "name": name, "uid": format!("uid-{kind}-{name}"), "creationTimestamp": MADE}});
    merge(&mut object, rest);
    object
}

/// Objects in objects are merged.
fn merge(object: &mut Value, rest: &Value) {
    match (object, rest) {
        (Value::Object(object), Value::Object(rest)) => {
            for (key, value) in rest {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, rest) => *object = rest.clone(),
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": MADE})
}

fn cluster() -> Value {
    let rest = json!({
        "spec": {
            "controlPlaneEndpoint": {"host": "nephele-workload.nephele-system.svc", "port": 20000},
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryCluster", "name": "demo"},
        },
        "status": {"phase": "Provisioned", "conditions": [
            condition("Available", "False", "NotAvailable", "* ControlPlaneAvailable:\n  * waits")]},
    });
    object("cluster.x-k8s.io/v1beta2", "Cluster", "demo", &rest)
}

fn machine(name: &str, control_plane: bool, phase: &str) -> Value {
    let mut rest = json!({
        "spec": {"clusterName": "demo", "version": "v1.36.3", "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryMachine", "name": name}},
        "status": {"phase": phase},
    });
    if control_plane {
        rest["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = "".into();
    }
    object("cluster.x-k8s.io/v1beta2", "Machine", name, &rest)
}

fn simulated_machine(name: &str, stages: &[(&str, &str, &str)]) -> Value {
    let conditions: Vec<_> = stages
        .iter()
        .map(|(kind, status, reason)| condition(kind, status, reason, ""))
        .collect();
    let rest = json!({
        "spec": {"instanceType": "medium"},
        "status": {"failureDomain": "north-1a", "conditions": conditions,
                   "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"}]},
    });
    object(
        "infrastructure.cluster.x-k8s.io/v1beta2",
        "InMemoryMachine",
        name,
        &rest,
    )
}

fn pool() -> Value {
    let rest = json!({
        "spec": {"addresses": ["10.0.0.1-10.0.0.9", "10.0.1.0/24"], "prefix": 24, "gateway": "10.0.0.254"},
        "status": {"ipAddresses": {"total": 9, "used": 2, "free": 7, "outOfRange": 0}},
    });
    object("ipam.cluster.x-k8s.io/v1alpha2", "InClusterIPPool", "v4", &rest)
}

fn claim(name: &str, pool: &str) -> Value {
    let rest = json!({"spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool}}});
    object("ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim", name, &rest)
}

fn around() -> Surroundings {
    let up = |kind| (kind, "True", "Provisioned");
    let booting = [
        ("VMProvisioned", "False", "WaitingForStartupTimeout"),
        ("NodeProvisioned", "False", "WaitingForVMProvisioned"),
    ];
    let all = [
        "VMProvisioned",
        "NodeProvisioned",
        "EtcdProvisioned",
        "APIServerProvisioned",
    ]
    .map(up);
    let mut settled = claim("settled", "v4");
    settled["status"] = json!({"addressRef": {"name": "settled"}});
    Surroundings {
        machines: vec![
            machine("cp-0", true, "Running"),
            machine("md-0", false, "Provisioning"),
        ],
        simulated_machines: vec![
            simulated_machine("cp-0", &all),
            simulated_machine("md-0", &booting),
        ],
        simulated_clusters: vec![object(
            "infrastructure.cluster.x-k8s.io/v1beta2",
            "InMemoryCluster",
            "demo",
            &json!({}),
        )],
        claims: vec![claim("waits", "v4"), settled, claim("of-another", "v6")],
        addresses: Vec::new(),
        faults: vec![object(
            "cloud.nephele.dev/v1alpha1",
            "Fault",
            "silent",
            &json!({
                "spec": {"effect": {"notReady": {}}},
                "status": {"affected": [{"cluster": "demo", "machine": "md-0"}, {"cluster": "demo"}]},
            }),
        )],
    }
}

fn show(format: Format, resource: Resource, objects: Vec<Value>) -> String {
    let found = Found { resource, objects };
    let listing = rows::listing(&found, &around(), now());
    render(format, &found, &listing, false, false).expect("text")
}

#[test]
fn table_of_clusters_counts_the_machines_that_run() {
    assert_eq!(
        show(Format::Table, Resource::Clusters, vec![cluster()]),
        "\
NAME   PHASE         AVAILABLE   ENDPOINT                                    MACHINES   FAULTS   VERSION   AGE
demo   Provisioned   False       nephele-workload.nephele-system.svc:20000   1/2        silent   v1.36.3   2m
"
    );
    let wide = show(Format::Wide, Resource::Clusters, vec![cluster()]);
    assert!(
        wide.contains("InMemoryCluster   * ControlPlaneAvailable: * waits\n"),
        "{wide}"
    );
}

#[test]
fn table_of_machines_shows_the_stages_that_they_have() {
    assert_eq!(
        show(Format::Table, Resource::Machines, around().machines),
        "\
NAME   CLUSTER   PHASE          VM         NODE      ETCD   APISERVER   FAULTS   ADDRESSES          ZONE       TYPE     AGE
cp-0   demo      Running        Up         Up        Up     Up          -        10.0.0.1,fd00::1   north-1a   medium   2m
md-0   demo      Provisioning   Starting   Waiting   -      -           silent   10.0.0.1,fd00::1   north-1a   medium   2m
"
    );
}

#[test]
fn table_of_pools_counts_the_claims_that_wait() {
    assert_eq!(
        show(Format::Table, Resource::Pools, vec![pool()]),
        "\
NAME   KIND              ADDRESSES                       USED   FREE   TOTAL   WAITING   AGE
v4     InClusterIPPool   10.0.0.1-10.0.0.9,10.0.1.0/24   2      7      9       1         2m
"
    );
}

#[test]
fn table_of_clouds_tells_what_they_have_what_is_used_and_what_it_costs() {
    let rest = json!({
        "spec": {
            "regions": [{"name": "north-1", "zones": [{"name": "north-1a"}, {"name": "north-1b"}]}],
            "images": [{"name": "ubuntu"}],
        },
        "status": {
            "instances": 3, "waiting": 1,
            "usage": [
                {"name": "instances", "limit": 3, "used": 3, "free": 0, "waiting": 1},
                {"name": "capacity/large/*", "limit": 2, "used": 1, "free": 1, "waiting": 0},
            ],
            "clock": {"rate": "10"},
            "cost": {"total": "1.5", "perHour": "0.288"},
        },
    });
    let cloud = object("cloud.nephele.dev/v1alpha1", "SimulatedCloud", "default", &rest);
    assert_eq!(
        show(Format::Table, Resource::Clouds, vec![cloud.clone()]),
        "\
NAME      ZONES   TYPES      MACHINES   WAITING   QUOTAS          CLOCK   PER HOUR   LEAKED   READY   AGE
default   2       built-in   3          1         instances 3/3   10x     0.288      0        -       2m
"
    );
    let wide = show(Format::Wide, Resource::Clouds, vec![cloud]);
    assert!(
        wide.contains("north-1   north-1a,north-1b   -            ubuntu        large/* 1/2   1.5"),
        "{wide}"
    );
}

#[test]
fn table_of_claims_has_their_addresses() {
    let mut around = around();
    let address = json!({"spec": {"address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254"}});
    around.addresses = vec![object(
        "ipam.cluster.x-k8s.io/v1beta2",
        "IPAddress",
        "settled",
        &address,
    )];
    let found = Found {
        resource: Resource::Claims,
        objects: around.claims.clone(),
    };
    let listing = rows::listing(&found, &around, now());
    assert_eq!(
        render(Format::Table, &found, &listing, false, false).expect("text"),
        "\
NAME         CLUSTER   POOL   ADDRESS       READY   AGE
waits        -         v4     -             -       2m
settled      -         v4     10.0.0.1/24   -       2m
of-another   -         v6     -             -       2m
"
    );
}

#[test]
fn scenarios_tell_which_step_runs_or_failed() {
    let step = |name: &str, phase: &str, message: &str| json!({"name": name, "phase": phase, "started": "2026-03-04T05:06:07.000000Z", "message": message});
    let scenario = |name: &str, phase: &str, last: &str| {
        let steps = [
            step("wait", "Passed", "3 of 3"),
            step("look", last, "2 of 3"),
            step("end", "Skipped", ""),
        ];
        object(
            "cloud.nephele.dev/v1alpha1",
            "Scenario",
            name,
            &json!({"spec": {"steps": []}, "status": {"phase": phase, "steps": steps}}),
        )
    };
    let scenarios = vec![
        scenario("runs", "Running", "Running"),
        scenario("fails", "Failed", "Failed"),
    ];
    assert_eq!(
        show(Format::Table, Resource::Scenarios, scenarios.clone()),
        "\
NAME    PHASE     STEPS   STEP   AGE
runs    Running   2/3     look   2m
fails   Failed    3/3     look   2m
"
    );
    let found = Found {
        resource: Resource::Scenarios,
        objects: vec![scenarios[1].clone()],
    };
    let around = around();
    let related = describe::related(&found, &around);
    let text = describe::text(&found, &around, &related, &[], now());
    assert!(
        text.contains(
            "Steps:
  NAME   PHASE     BEGAN   MESSAGE
  wait   Passed    2m      3 of 3
  look   Failed    2m      2 of 3
"
        ),
        "{text}"
    );
}

#[test]
fn table_of_faults_tells_what_each_one_has_hit() {
    let fault = |name, effect: Value, status: Value| {
        object(
            "cloud.nephele.dev/v1alpha1",
            "Fault",
            name,
            &json!({"spec": {"effect": effect}, "status": status}),
        )
    };
    let hit = json!({"time": MADE, "operation": "CreateInstance", "cluster": "demo", "machine": "md-0"});
    let silent = json!({"phase": "Active", "matched": 3, "hits": 2, "lastHits": [hit],
        "affected": [{"cluster": "demo", "machine": "md-0"}]});
    let faults = vec![
        fault("silent", json!({"notReady": {}}), silent),
        fault("down", json!({"apiServer": {"down": {}}}), Value::Null),
        fault("full", json!({"fail": {"reason": "Throttled"}}), Value::Null),
    ];
    assert_eq!(
        show(Format::Table, Resource::Faults, faults.clone()),
        "\
NAME     EFFECT           PHASE    MATCHED   HITS   AFFECTED   AGE
silent   notReady         Active   3         2      1          2m
down     apiServer.down   -        0         0      0          2m
full     fail             -        0         0      0          2m
"
    );
    let wide = show(Format::Wide, Resource::Faults, faults);
    assert!(wide.contains("CreateInstance md-0"), "{wide}");
}

#[test]
fn other_formats_have_the_objects_as_they_are() {
    assert_eq!(
        show(Format::Name, Resource::Clusters, vec![cluster()]),
        "cluster.cluster.x-k8s.io/demo\n"
    );
    let list: Value =
        serde_json::from_str(&show(Format::Json, Resource::Clusters, vec![cluster()])).expect("JSON");
    assert_eq!((&list["kind"], &list["items"][0]), (&json!("List"), &cluster()));
    let found = Found {
        resource: Resource::Clusters,
        objects: vec![cluster()],
    };
    let one = render(Format::Yaml, &found, &Listing::default(), false, true).expect("YAML");
    assert_eq!(serde_yaml_ng::from_str::<Value>(&one).expect("YAML"), cluster());
}

#[test]
fn empty_table_has_no_header() {
    assert_eq!(show(Format::Table, Resource::Clusters, Vec::new()), "");
}

#[test]
fn description_has_conditions_machines_and_the_last_events() {
    let found = Found {
        resource: Resource::Clusters,
        objects: vec![cluster()],
    };
    let around = around();
    let related = describe::related(&found, &around);
    let event = |number: i32| -> Event {
        let time = format!("2026-03-04T05:06:{number:02}Z");
        let involved = json!({"kind": "Cluster", "name": "demo", "uid": "uid-Cluster-demo"});
        let event = json!({"metadata": {"name": "e"}, "involvedObject": involved, "type": "Normal", "reason": "Happened",
            "message": format!("number {number}"), "lastTimestamp": time});
        serde_json::from_value(event).expect("an Event")
    };
    let events: Vec<_> = (0..12).rev().map(event).collect();
    assert_eq!(
        describe::text(&found, &around, &related, &events[..2], now()),
        "\
Namespace:        default
Name:             demo
Phase:            Provisioned
Available:        False
Endpoint:         nephele-workload.nephele-system.svc:20000
Machines:         1/2
Faults:           silent
Version:          v1.36.3
Age:              2m
Infrastructure:   InMemoryCluster
Message:          * ControlPlaneAvailable: * waits

Conditions of Cluster demo:
  TYPE        STATUS   REASON         AGE   MESSAGE
  Available   False    NotAvailable   2m    * ControlPlaneAvailable: * waits

Conditions of InMemoryCluster demo: none

Machines:
  NAME   CLUSTER   PHASE          VM         NODE      ETCD   APISERVER   FAULTS   ADDRESSES          ZONE       TYPE     AGE
  cp-0   demo      Running        Up         Up        Up     Up          -        10.0.0.1,fd00::1   north-1a   medium   2m
  md-0   demo      Provisioning   Starting   Waiting   -      -           silent   10.0.0.1,fd00::1   north-1a   medium   2m

Events:
  AGE    TYPE     REASON     OBJECT    MESSAGE
  117s   Normal   Happened   Cluster   number 10
  116s   Normal   Happened   Cluster   number 11
"
    );
    let all = describe::text(&found, &around, &related, &events, now());
    assert!(!all.contains("number 1\n") && all.contains("number 2\n"), "{all}");
}

#[test]
fn cluster_faults_tell_what_they_have_hit_and_which_namespaces_refuse_them() {
    let refused = json!([{"namespace": "team-3", "message": "exceeded quota"}]);
    let message = "1 of 4 namespaces cannot have the Fault";
    let rest = json!({
        "metadata": {"namespace": null},
        "spec": {"effect": {"apiServer": {"down": {}}}},
        "status": {
            "phase": "Active", "namespaces": 3, "matched": 9, "hits": 7, "refused": refused,
            "conditions": [condition("Ready", "False", "NotReady", message)],
        },
    });
    let object = object("cloud.nephele.dev/v1alpha1", "ClusterFault", "down", &rest);
    assert_eq!(
        show(Format::Table, Resource::ClusterFaults, vec![object.clone()]),
        "\
NAME   EFFECT           PHASE    NAMESPACES   MATCHED   HITS   REFUSED   AGE
down   apiServer.down   Active   3            9         7      1         2m
"
    );
    let found = Found {
        resource: Resource::ClusterFaults,
        objects: vec![object],
    };
    let text = describe::text(
        &found,
        &Surroundings::default(),
        &describe::related(&found, &around()),
        &[],
        now(),
    );
    let section = "Refused by namespaces:\n  NAMESPACE   MESSAGE\n  team-3      exceeded quota\n";
    assert!(text.contains(section), "{text}");
}

#[test]
fn description_of_a_pool_lists_the_claims_that_wait() {
    let found = Found {
        resource: Resource::Pools,
        objects: vec![pool()],
    };
    let text = describe::text(
        &found,
        &around(),
        &describe::related(&found, &around()),
        &[],
        now(),
    );
    assert!(
        text.contains("Waiting claims:\n  NAMESPACE   NAME    AGE   REASON   MESSAGE\n  default     waits"),
        "{text}"
    );
    assert!(
        !text.contains("settled") && !text.contains("of-another"),
        "{text}"
    );
}

async fn create(access: &Access, object: Value) {
    let (group, _) = object["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .expect("a group");
    let resource = access
        .kind(group, object["kind"].as_str().expect("a kind"))
        .await
        .expect("it is served");
    let api: Api<DynamicObject> = Api::namespaced_with(access.client.clone(), "default", &resource);
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object)
        .await
        .expect("created");
}

#[tokio::test]
async fn objects_are_read_from_the_management_cluster() {
    let api = ManagementApi::start();
    let access = Access {
        client: api.client(),
        namespace: "default".to_owned(),
        manager: None,
        token: None,
    };
    let around = around();
    for object in [
        &[cluster(), pool()],
        &around.machines[..],
        &around.simulated_machines,
        &around.claims,
    ]
    .concat()
    {
        create(&access, object).await;
    }
    let reader = Reader::new(access.clone(), Some("default".to_owned()));
    let found = reader
        .find(Resource::Clusters, Some("demo"))
        .await
        .expect("found");
    let listing = rows::listing(
        &found,
        &reader.surroundings(Resource::Clusters).await.expect("read"),
        now(),
    );
    assert_eq!(
        (listing.rows.len(), listing.rows[0].cells[4].as_str()),
        (1, "0/2")
    );
    assert_eq!(
        reader
            .find(Resource::Machines, None)
            .await
            .expect("found")
            .objects
            .len(),
        2
    );
    let pools = reader.find(Resource::Pools, None).await.expect("found");
    assert_eq!(pools.objects[0]["kind"], "InClusterIPPool");
    let around = reader.surroundings(Resource::Pools).await.expect("read");
    assert_eq!(around.claims.len(), 3);
    assert_eq!(
        reader
            .events(&describe::related(&pools, &around))
            .await
            .expect("read"),
        []
    );

    let exit = async |reader: &Reader, name| {
        let error = reader
            .find(Resource::Clusters, Some(name))
            .await
            .expect_err("a failure");
        error.downcast_ref::<Problem>().expect("a problem").exit
    };
    assert_eq!(exit(&reader, "none").await, Exit::NotFound);
    let forbidden = api.forbidding(|_, path| path.ends_with("/clusters/demo"));
    let reader = Reader::new(
        Access {
            client: forbidden,
            ..access
        },
        Some("default".to_owned()),
    );
    assert_eq!(exit(&reader, "demo").await, Exit::Forbidden);
}
