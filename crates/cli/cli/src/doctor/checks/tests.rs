//! Each set-up that is broken in one way has one finding, which names it.

use super::{
    super::snapshot::{Definition, OURS, Waiting},
    *,
};

fn of(provider: &str, image: &str) -> Manager {
    Manager {
        provider: provider.to_owned(),
        namespace: format!("{provider}-system"),
        name: "manager".to_owned(),
        image: image.to_owned(),
        args: vec!["--feature-gates=MachinePool=true,ClusterTopology=true".to_owned()],
        account: "manager".to_owned(),
        is_available: true,
        trouble: None,
    }
}

/// A cluster where nothing is wrong.
fn healthy() -> Snapshot {
    let image = "registry.example/manager:v1.14.2";
    let ours = Manager {
        args: Vec::new(),
        ..of("infrastructure-in-memory", "localhost/nephele:1")
    };
    Snapshot {
        kubernetes_minor: 36,
        managers: NEEDED
            .iter()
            .map(|provider| of(provider, image))
            .chain([ours])
            .collect(),
        definitions: vec![
            Definition {
                name: "inmemoryclusters.infrastructure.cluster.x-k8s.io".to_owned(),
                provider: "infrastructure-in-memory".to_owned(),
                is_current: true,
            },
            Definition {
                name: "inclusterippools.ipam.cluster.x-k8s.io".to_owned(),
                provider: "ipam-in-cluster".to_owned(),
                is_current: true,
            },
        ],
        ..Snapshot::default()
    }
}

/// The healthy cluster after a change.
fn broken(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

#[test]
fn a_fault_and_a_cluster_that_is_not_available_are_told_and_are_no_findings() {
    let fault = |cluster_fault: Option<&str>| Affecting {
        namespace: "n".to_owned(),
        name: "c-lb".to_owned(),
        effect: "loadBalancer.wrongBackends".to_owned(),
        phase: "Exhausted".to_owned(),
        affected: 1,
        hits: 2,
        cluster_fault: cluster_fault.map(str::to_owned),
    };
    let snapshot = broken(|it| {
        it.faults = vec![fault(None), fault(Some("everywhere"))];
        it.unavailable = vec![Waiting {
            kind: "Cluster".to_owned(),
            name: "n/c".to_owned(),
            message: "Remote connection not established yet".to_owned(),
        }];
    });
    let problem = "Fault n/c-lb (loadBalancer.wrongBackends) is Exhausted: affects 1 now, hit 2";
    let told = [
        finding(problem, "`nephele fault heal c-lb --namespace n` ends it"),
        finding(
            problem,
            "`nephele fault heal --all-namespaces everywhere` ends it",
        ),
        finding(
            "Cluster n/c is not available: Remote connection not established yet",
            UNAVAILABLE,
        ),
    ];
    assert_eq!(
        (notes(&snapshot).as_slice(), findings(&snapshot)),
        (&told[..], vec![])
    );
}

#[test]
fn a_healthy_cluster_has_no_findings() {
    assert_eq!(findings(&healthy()), []);
}

#[test]
fn a_cluster_that_is_broken_in_one_way_has_one_finding_that_names_it_and_its_mend() {
    let cases: [(&str, Snapshot, &str, &str); 15] = [
        (
            "old Kubernetes",
            broken(|it| it.kubernetes_minor = 28),
            "Kubernetes 1.28",
            "1.30",
        ),
        (
            "clock",
            broken(|it| it.clock_ahead = SignedDuration::from_secs(-90)),
            "90 s behind",
            "chrony",
        ),
        (
            "full disk",
            broken(|it| it.pressures = vec![("a".into(), "DiskPressure".into())]),
            "node a",
            "disk space",
        ),
        (
            "no Cluster API",
            broken(|it| drop(it.managers.remove(1))),
            "bootstrap-kubeadm",
            "clusterctl init",
        ),
        (
            "old Cluster API",
            broken(|it| it.managers[2].image = "registry.example/manager:v1.8.12".into()),
            "v1.8.12",
            "clusterctl upgrade",
        ),
        (
            "gate",
            broken(|it| it.managers[0].args.clear()),
            "ClusterTopology",
            "--feature-gates",
        ),
        (
            "no manager",
            broken(|it| drop(it.managers.pop())),
            "not installed",
            "nephele install",
        ),
        (
            "no image",
            broken(|it| {
                it.managers[3].is_available = false;
                it.managers[3].trouble = Some("ErrImageNeverPull: not on the node".into());
            }),
            "ErrImageNeverPull",
            "load the image",
        ),
        (
            "port taken",
            broken(|it| {
                it.managers[3].is_available = false;
                it.managers[3].trouble = Some(
                    "CrashLoopBackOff after Error: failed to listen on :9443: Address already in use".into(),
                );
            }),
            "already in use",
            "another port",
        ),
        (
            "no node",
            broken(|it| {
                it.managers[3].is_available = false;
                it.managers[3].trouble = Some("PodScheduled is False: Unschedulable: 0/1 nodes".into());
            }),
            "0/1 nodes",
            "taints",
        ),
        (
            "two managers",
            broken(|it| {
                let mut second = it.managers[3].clone();
                second.namespace = "other".into();
                it.managers.push(second);
            }),
            "several managers",
            "--watch-filter",
        ),
        (
            "kinds of another provider",
            broken(|it| it.definitions[1].provider = "ipam-other".into()),
            "ipam-other",
            "remove that provider",
        ),
        (
            "rights",
            broken(|it| it.missing_rights = vec!["patch machines".into()]),
            "patch machines",
            "its roles",
        ),
        (
            "no certificate",
            broken(|it| it.without_authority = vec!["configuration".into()]),
            "authority",
            "delete the manager's pod",
        ),
        (
            "webhooks",
            broken(|it| it.webhooks = Some("timed out".into())),
            "timed out",
            "port 9443",
        ),
    ];
    for (what, snapshot, problem, mend) in cases {
        let findings = findings(&snapshot);
        let [finding] = findings.as_slice() else {
            panic!("{what}: {findings:?}")
        };
        assert!(
            finding.problem.contains(problem) && finding.mend.contains(mend),
            "{what}: {finding:?}"
        );
    }
}

#[test]
fn managers_that_are_processes_are_known_by_their_webhooks() {
    let processes = || {
        let providers = NEEDED.into_iter().chain([OURS]);
        Snapshot {
            managers: Vec::new(),
            processes: providers.map(str::to_owned).collect(),
            ..healthy()
        }
    };
    assert_eq!(findings(&processes()), []);
    let unreached = Snapshot {
        webhooks: Some("connection refused".to_owned()),
        ..processes()
    };
    let mends: Vec<_> = findings(&unreached).into_iter().map(|found| found.mend).collect();
    assert_eq!(
        mends,
        ["start `nephele up` again: its process has ended, or does not answer"]
    );
}

#[test]
fn managers_with_scopes_of_their_own_do_not_disturb_each_other() {
    let scoped = |first: &str, second: &str| {
        broken(|it| {
            let mut other = it.managers[3].clone();
            it.managers[3].args = vec![first.to_owned()];
            other.args = vec![second.to_owned()];
            it.managers.push(other);
        })
    };
    assert_eq!(findings(&scoped("--namespace=a", "--namespace=b")), []);
    assert_eq!(findings(&scoped("--watch-filter=a", "--watch-filter=b")), []);
    assert_eq!(findings(&scoped("--namespace=a", "--watch-filter=b")).len(), 1);
}

#[test]
fn an_object_that_waits_is_a_finding_with_the_mend_of_its_message() {
    let waiting = |message: &str| {
        let kind = "InMemoryCluster".to_owned();
        let name = "default/a".to_owned();
        broken(|it| {
            it.waiting = vec![Waiting {
                kind,
                name,
                message: message.to_owned(),
            }];
        })
    };
    for (message, mend) in [
        ("no port is free", "--workload-ports"),
        ("the pool is full", "add addresses"),
        ("?", "nephele describe"),
    ] {
        let findings = findings(&waiting(message));
        assert!(
            matches!(findings.as_slice(), [finding] if finding.mend.contains(mend)),
            "{findings:?}"
        );
    }
}

#[test]
fn chart_asks_for_the_same_kubernetes() {
    let chart = include_str!("../../../../../../charts/nephele/Chart.yaml");
    assert!(
        chart.contains(&format!("kubeVersion: \">=1.{KUBERNETES_MINOR_MIN}.0-0\"")),
        "{chart}"
    );
}
