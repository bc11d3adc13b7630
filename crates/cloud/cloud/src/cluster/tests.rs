use std::time::Duration;

use nephele_apiserver::{Authentication, GroupResource};
use nephele_engine::{Config, Hardware, Seed};
use nephele_model::{ClusterId, Flap, MachineId, Role, SimTime};
use prometheus::Registry;
use tokio_util::task::TaskTracker;

use super::{objects::node_key, *};
use crate::{
    clock::{CloudClock, WallClock},
    driver::Driver,
    frontend::parse_version,
    identity::MachineAddress,
    metrics::Metrics,
    persisted::Persister,
    projection::Component,
};

mod levels;

impl Cluster {
    /// While the returned lock is held, the cluster cannot show anything.
    pub(crate) fn lock_state(&self) -> impl Drop + '_ {
        self.state.lock()
    }

    /// Shows that the instance of a machine has changed so.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Instance)) {
        let shown = self
            .state
            .lock()
            .machines
            .get(name)
            .and_then(|machine| machine.instance.clone());
        let mut instance = shown.unwrap_or_else(new_instance);
        change(&mut instance);
        self.show_machine(name, Some(instance));
    }

    pub(crate) fn reach(&self, name: &str, stages: &[Stage]) {
        let reached = stages.iter().map(|stage| (*stage, Timestamp::UNIX_EPOCH));
        self.change(name, |instance| instance.reached.extend(reached));
    }

    pub(crate) fn affect(&self, name: &str, fault: &str, visible_effect: VisibleEffect) {
        self.change(name, |instance| {
            drop(instance.visible_effects.insert(fault.to_owned(), visible_effect));
        });
    }

    pub(crate) fn clear(&self, name: &str, fault: &str) {
        self.change(name, |instance| drop(instance.visible_effects.remove(fault)));
    }

    pub(crate) fn begin_deletion(&self, name: &str) {
        self.change(name, |instance| instance.is_deleting = true);
    }
}

pub(crate) fn new_instance() -> Instance {
    Instance {
        created: Timestamp::UNIX_EPOCH,
        hardware: Hardware::default(),
        reached: BTreeMap::new(),
        is_deleting: false,
        visible_effects: BTreeMap::new(),
        updated: None,
    }
}

pub(crate) fn driver() -> Driver {
    let seconds = Metrics::register(&Registry::new())
        .expect("a new registry")
        .engine_lock_seconds;
    Driver::new(Config::default(), "seed", seconds)
}

fn cluster() -> Cluster {
    cluster_following(&driver())
}

pub(crate) fn cluster_following(driver: &Driver) -> Cluster {
    cluster_at(driver, Arc::new(|| Timestamp::UNIX_EPOCH))
}

fn cluster_at(driver: &Driver, clock: WallClock) -> Cluster {
    let shared = Shared {
        tasks: TaskTracker::new(),
        metrics: Metrics::register(&Registry::new()).expect("a new registry"),
        persister: Persister::default(),
        hold: Duration::ZERO,
        clock: clock.clone(),
        cloud_clock: CloudClock::new(clock.clone()),
        seed: Seed::new("seed"),
    };
    let spec = ClusterSpec {
        id: ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        },
        labels: BTreeMap::new(),
        region: None,
        cloud_spec: String::new(),
        endpoint: None,
        created_at: Timestamp::UNIX_EPOCH,
        is_read_refused: false,
        pod_cidrs: vec![],
        service_cidrs: vec![],
        service_domain: String::new(),
    };
    let endpoint = Endpoint {
        host: "127.0.0.1".into(),
        port: 20_000,
    };
    let version = parse_version("");
    let settings = Settings {
        version,
        authentication: Authentication::Required,
        clock,
        observer: None,
    };
    let follower = Follower::begin(&spec.id, driver);
    let over = CancellationToken::new();
    let kept = shared
        .persister
        .store(&spec, Timestamp::UNIX_EPOCH)
        .expect("in memory");
    Cluster::new(spec, endpoint, settings, kept, Arc::new(shared), follower, over)
}

pub(crate) fn control_plane(cluster: &Cluster, name: &str) -> MachineSpec {
    MachineSpec {
        id: MachineId {
            cluster: cluster.spec.id.clone(),
            name: name.into(),
        },
        labels: BTreeMap::new(),
        role: Role::ControlPlane,
        caller: Caller::Machine,
        version: "v1.36.3".into(),
        zone: None,
        region: None,
        cloud_spec: String::new(),
        instance_type: None,
        market: nephele_model::Market::OnDemand,
        hardware: None,
        image: None,
        start_up: BTreeMap::new(),
        allocation: Allocation::default(),
        started_at: None,
        reached: BTreeMap::new(),
        is_deregistered: false,
        etcd_member_removed: false,
        etcd_image_tag: None,
        files: None,
        kubeadm: None,
        update: None,
    }
}

/// The names of the members, of the running members, and of the leader.
fn etcd(cluster: &Cluster) -> (Vec<String>, Vec<String>, Option<String>) {
    let etcd = cluster.cluster_server.etcd.lock();
    let mut members: Vec<_> = etcd
        .members()
        .map(|member| (member.name.clone(), member.id))
        .collect();
    members.sort();
    let running = members
        .iter()
        .filter(|(_, id)| etcd.is_running(*id))
        .map(|(name, _)| name.clone());
    let leader = members
        .iter()
        .find(|(_, id)| etcd.leader() == Some(*id))
        .map(|(name, _)| name.clone());
    (
        members.iter().map(|(name, _)| name.clone()).collect(),
        running.collect(),
        leader,
    )
}

#[test]
fn member_of_a_machine_that_stops_is_down_until_the_machine_is_gone() {
    let cluster = cluster();
    for name in ["a", "b"] {
        cluster.admit(control_plane(&cluster, name));
        cluster.reach(name, &[Stage::Etcd]);
    }
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(
        etcd(&cluster),
        (names(&["a", "b"]), names(&["a", "b"]), Some("a".into()))
    );
    cluster.begin_deletion("a");
    assert_eq!(
        etcd(&cluster),
        (names(&["a", "b"]), names(&["b"]), None),
        "one of two is no quorum"
    );
    cluster.show_machine("a", None);
    assert_eq!(etcd(&cluster), (names(&["b"]), names(&["b"]), Some("b".into())));
}

/// A large cluster that is deleted would read each pod for each of its machines.
#[cfg(debug_assertions)]
#[test]
fn machine_goes_without_a_look_at_the_pods_of_others() {
    let objects_read = |pods: usize| {
        let cluster = cluster();
        cluster.admit(control_plane(&cluster, "a"));
        cluster.reach("a", &[Stage::Node]);
        for number in 0..pods {
            let key = Key::new("", "pods", "default", &format!("p{number}"));
            let node = if number < 3 {
                "a".to_owned()
            } else {
                format!("n{number}")
            };
            let pod =
                serde_json::json!({"spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
            cluster
                .cluster_server
                .store
                .create(Timestamp::UNIX_EPOCH, &key, pod)
                .expect("a pod");
        }
        let before = nephele_apiserver::objects_parsed();
        cluster.begin_deletion("a");
        cluster.show_machine("a", None);
        let pods_left = cluster
            .cluster_server
            .store
            .count(&GroupResource::new("", "pods"));
        assert_eq!(pods_left, pods - 3);
        nephele_apiserver::objects_parsed() - before
    };
    assert_eq!(objects_read(400), objects_read(100));
}

#[test]
fn machine_that_was_refused_keeps_its_number_until_it_is_released() {
    let cluster = cluster();
    let ordinal = |name: &str| {
        let allocation = Allocation {
            owner_set: "workers".into(),
            ..Allocation::default()
        };
        match cluster.admit(MachineSpec {
            allocation,
            ..control_plane(&cluster, name)
        }) {
            Admission::New(spec) => spec.allocation.ordinal,
            Admission::Known | Admission::Conflict => panic!("{name} is there already"),
        }
    };
    assert_eq!([ordinal("a"), ordinal("b")], [Some(0), Some(1)]);
    cluster.forget_refused("a");
    cluster.forget_refused("b");
    assert_eq!(
        [ordinal("b"), ordinal("c"), ordinal("a")],
        [Some(1), Some(2), Some(0)]
    );
    cluster.forget_refused("a");
    cluster.release("a");
    assert_eq!(ordinal("d"), Some(0));
}

#[test]
fn member_on_a_dual_stack_machine_is_reached_at_its_first_address() {
    let cluster = cluster();
    let address = |address: &str| MachineAddress {
        kind: "InternalIP".into(),
        address: address.into(),
    };
    for (name, addresses) in [("a", ["fd00::7", "10.0.0.7"]), ("b", ["10.0.0.8", "fd00::8"])] {
        let allocation = Allocation {
            addresses: addresses.map(address).into(),
            ..Allocation::default()
        };
        cluster.admit(MachineSpec {
            allocation,
            ..control_plane(&cluster, name)
        });
        // The pod belongs to its Node, so the Node comes first.
        for stage in [Stage::Node, Stage::Etcd] {
            cluster.reach(name, &[stage]);
        }
    }
    let etcd = cluster.cluster_server.etcd.lock();
    let mut urls: Vec<_> = etcd
        .members()
        .flat_map(|member| member.client_urls.clone())
        .collect();
    urls.sort();
    assert_eq!(urls, ["https://10.0.0.8:2379", "https://[fd00::7]:2379"]);
    let pod = Key::new("", "pods", "kube-system", "etcd-a");
    let pod = cluster
        .cluster_server
        .store
        .get(&pod)
        .expect("it is there")
        .value();
    assert_eq!(
        pod["status"]["podIPs"],
        serde_json::json!([{"ip": "fd00::7"}, {"ip": "10.0.0.7"}])
    );
}

#[test]
fn control_plane_with_a_long_name_has_a_node_whose_member_tls_can_name() {
    use rustls::pki_types::ServerName;
    let cluster = cluster();
    // 63 characters, as many as Cluster API allows.
    let long = |last: char| format!("team-payments-eu-central-production-blue-green-canary-42-xk2v{last}z");
    let mut nodes = BTreeSet::new();
    for name in [long('a'), long('b'), "short".to_owned()] {
        cluster.admit(control_plane(&cluster, &name));
        for stage in [Stage::Node, Stage::Etcd, Stage::ApiServer] {
            cluster.reach(&name, &[stage]);
        }
        let node = control_plane(&cluster, &name).node_name().into_owned();
        ServerName::try_from(Component::Etcd.pod_name(&node)).expect("TLS can name it");
        let shown = cluster
            .cluster_server
            .store
            .get(&node_key(&node))
            .expect("it is there")
            .value();
        assert_eq!(shown["spec"]["providerID"], format!("in-memory://{name}"));
        for component in Component::ALL {
            let pod = component.pod_name(&node);
            let key = Key::new("", "pods", "kube-system", &pod);
            assert_eq!(
                cluster
                    .cluster_server
                    .store
                    .get(&key)
                    .expect("it is there")
                    .value()["spec"]["nodeName"],
                node
            );
        }
        nodes.insert(node);
    }
    assert_eq!(etcd(&cluster).0, nodes.iter().cloned().collect::<Vec<_>>());
    assert_eq!(nodes.len(), 3);
    cluster.begin_deletion(&long('a'));
    cluster.show_machine(&long('a'), None);
    assert_eq!(
        cluster
            .cluster_server
            .store
            .count(&GroupResource::new("", "nodes")),
        2
    );
}

#[test]
fn member_that_was_removed_before_a_restart_stays_removed() {
    let cluster = cluster();
    for name in ["a", "b", "c"] {
        let removed = name == "a";
        cluster.admit(MachineSpec {
            etcd_member_removed: removed,
            ..control_plane(&cluster, name)
        });
        cluster.reach(name, &[Stage::Etcd]);
    }
    let left: Vec<String> = ["b", "c"].map(str::to_owned).into();
    assert_eq!(etcd(&cluster), (left.clone(), left, Some("b".into())));
}

/// The status of the condition Ready of a machine's Node.
fn ready(cluster: &Cluster, name: &str) -> String {
    let node = cluster
        .cluster_server
        .store
        .get(&node_key(name))
        .expect("it is there")
        .value();
    let conditions = node["status"]["conditions"].as_array().expect("a list").iter();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready
        .next()
        .and_then(|ready| ready["status"].as_str())
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn kubelet_is_silent_and_reports_in_turn_until_it_is_healed() {
    let start = tokio::time::Instant::now();
    let clock: WallClock = Arc::new(move || Timestamp::UNIX_EPOCH + start.elapsed());
    let cluster = Arc::new(cluster_at(&driver(), clock));
    for name in ["a", "b"] {
        cluster.admit(control_plane(&cluster, name));
        cluster.reach(name, &[Stage::Node]);
    }
    let persister = cluster.clone();
    let kept = tokio::spawn(async move { persister.keep_flapping().await });
    let second = Duration::from_secs(1);
    tokio::time::sleep(5 * second).await;
    let flap =
        VisibleEffect::Flapping(Flap::new(10 * second, 30 * second)).begun(SimTime::from_millis(5_000));
    cluster.affect("a", "f", flap);
    // The half seconds keep out of the way of the turns.
    tokio::time::sleep(second / 2).await;
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(ready(&cluster, "a"));
        tokio::time::sleep(10 * second).await;
    }
    let turn = ["Unknown", "True", "True", "True"];
    assert_eq!(seen, [&turn[..], &turn[..], &turn[..2]].concat());
    assert_eq!(ready(&cluster, "b"), "True");
    // 105.5 s, long before the next turn at 125 s.
    let version = cluster.cluster_server.store.resource_version();
    tokio::time::sleep(10 * second).await;
    assert_eq!(
        cluster.cluster_server.store.resource_version(),
        version,
        "nothing is written between turns"
    );
    tokio::time::sleep(10 * second).await;
    assert_eq!(ready(&cluster, "a"), "Unknown");
    cluster.clear("a", "f");
    assert_eq!(ready(&cluster, "a"), "True");
    tokio::time::sleep(100 * second).await;
    assert_eq!(ready(&cluster, "a"), "True");
    cluster.cluster_server.over.cancel();
    kept.await.expect("it ends with the cluster");
}
