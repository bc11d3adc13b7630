use super::*;
use nephele_scenario_library::{self as library, Entry};

fn entry(name: &str) -> Entry {
    library::find(name).expect("readable").expect("an entry")
}

/// A management cluster that has all objects of an entry, with changes.
fn seen(entry: &Entry, change: impl Fn(&mut Value)) -> Seen {
    let with = |object: &Value| {
        let mut object = object.clone();
        object["spec"]["clusterNetwork"] = json!({ "serviceDomain": "cluster.local" });
        change(&mut object);
        Found::Object(object)
    };
    Seen {
        objects: entry.cluster.iter().map(with).collect(),
        ..Seen::default()
    }
}

/// What is missing, and what mends it.
fn text(entry: &Entry, seen: &Seen) -> (Vec<String>, Vec<String>) {
    let lacks = lacks(&entry.scenario, &entry.cluster, seen);
    let told = lacks.iter().map(|lack| told(lack, "ns")).collect();
    (told, mending(&lacks, entry.name, "ns"))
}

#[test]
fn each_entry_lacks_nothing_beside_its_own_cluster() {
    for entry in library::all().expect("readable") {
        assert_eq!(
            text(&entry, &seen(&entry, |_| ())),
            (vec![], vec![]),
            "{}",
            entry.name
        );
    }
}

#[test]
fn a_missing_cluster_is_made() {
    let quota = entry("quota");
    let nothing = Seen {
        objects: vec![Found::NoObject],
        ..Seen::default()
    };
    let (told, mends) = text(&quota, &nothing);
    assert_eq!(told, ["there is no Cluster demo in namespace ns"]);
    assert_eq!(mends, ["run `nephele scenario run quota --make-cluster -n ns`"]);
}

#[test]
fn a_cluster_of_another_shape_is_told_field_by_field() {
    let seen = seen(&entry("zone-loss"), |object| match object["kind"].as_str() {
        Some("SimulatedCloud") => object["spec"] = json!({ "seed": 1 }),
        _ => {
            let topology = &mut object["spec"]["topology"];
            topology["controlPlane"]["replicas"] = json!(1);
            topology["workers"]["machineDeployments"] = json!([{ "name": "others", "replicas": 1 }]);
            topology["version"] = json!("v1.30.0");
        }
    });
    let (told, mends) = text(&entry("zone-loss"), &seen);
    let regions = "[{\"name\":\"north-1\",\"zones\":[{\"name\":\"north-1a\"},{\"name\":\"nor…";
    assert_eq!(
        told,
        [
            &format!("SimulatedCloud default has no spec.regions, which has to be {regions}"),
            "Cluster demo has spec.topology.controlPlane.replicas 1, not 3",
            "Cluster demo has no spec.topology.workers.machineDeployments[workers], which has to be \
             {\"class\":\"default-worker\",\"name\":\"workers\",\"replicas\":1}",
        ]
    );
    assert_eq!(
        mends,
        [
            "run `kubectl delete simulatedcloud default -n ns`, or choose another namespace (-n)",
            "run `kubectl delete cluster demo -n ns`, or choose another namespace (-n)",
            "run `nephele scenario run zone-loss --make-cluster -n ns`",
        ]
    );
}

#[test]
fn the_version_counts_for_what_is_upgraded() {
    let at = |object: &mut Value| object["spec"]["topology"]["version"] = json!("v1.36.3");
    let upgrade = entry("throttled-upgrade");
    let (told, _) = text(&upgrade, &seen(&upgrade, at));
    assert_eq!(
        told,
        ["Cluster demo has spec.topology.version v1.36.3, not v1.35.4"]
    );
}

#[test]
fn cluster_api_itself_is_named_before_all_else() {
    let spot = entry("spot-reclaim");
    let seen = Seen {
        has_stand_in: true,
        objects: vec![Found::NoKind; spot.cluster.len()],
        ..Seen::default()
    };
    let (told, mends) = text(&spot, &seen);
    assert_eq!(
        told,
        [
            "it needs Cluster API itself (workers with the market Spot of an InMemoryMachineTemplate), which the stand-in \
          of `nephele up` is not"
        ]
    );
    assert_eq!(
        mends,
        [
            "start `nephele up --cluster-api=v1.14.2`, or use a management cluster with Cluster API (--kubeconfig)"
        ]
    );
    let without = Seen {
        has_stand_in: false,
        ..seen
    };
    let (told, _) = text(&spot, &without);
    assert_eq!(told.len(), spot.cluster.len(), "{told:?}");
}

#[test]
fn a_kind_that_is_not_served_is_named_with_what_brings_it() {
    let storm = entry("health-check-storm");
    let kind = |version: &str, kind: &str| kind_of(&json!({ "apiVersion": version, "kind": kind }));
    let health_check = kind("cluster.x-k8s.io/v1beta2", "MachineHealthCheck");
    let scenario = kind("cloud.nephele.dev/v1alpha1", "Scenario");
    assert_eq!(kinds(&storm.scenario), [scenario.clone(), health_check.clone()]);
    let seen = Seen {
        unserved: vec![scenario, health_check],
        ..seen(&storm, |_| ())
    };
    let (told, mends) = text(&storm, &seen);
    assert_eq!(
        told,
        [
            "the management cluster does not serve Scenario of cloud.nephele.dev/v1alpha1",
            "the management cluster does not serve MachineHealthCheck of cluster.x-k8s.io/v1beta2",
        ]
    );
    assert_eq!(mends, ["run `nephele install`", "run `clusterctl init`"]);
}

#[test]
fn kinds_in_manifests_and_branches_are_found_and_what_is_no_yaml_is_passed_over() {
    let mut entry = entry("quota");
    let apply = json!({ "apply": { "manifests": "apiVersion: v1\nkind: A\n---\nnothing\n" } });
    let broken = json!({ "apply": { "manifests": "a: [" } });
    entry.scenario["spec"]["steps"] = json!([broken, { "parallel": [{ "steps": [apply] }] }]);
    let found: Vec<_> = kinds(&entry.scenario).into_iter().map(|kind| kind.kind).collect();
    assert_eq!(found, ["Scenario", "A"]);
}
