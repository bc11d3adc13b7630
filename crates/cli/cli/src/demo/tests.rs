use std::{process::ExitCode, time::Duration};

use kube::config::Kubeconfig;
use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::InMemoryMachine,
    ipam::v1alpha2::InClusterIPPool,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{DemoArgs, run, view::View};

fn view(available: &str, vm: &str) -> View {
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "small"},
        "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 20000}},
        "status": {"phase": "Provisioned", "conditions": [{
            "type": "Available", "status": available, "reason": "R", "message": "0 of 1 machines are up",
            "lastTransitionTime": "2026-03-04T05:06:07Z"}]},
    }))
    .expect("a Cluster");
    let machine: Machine = serde_json::from_value(json!({
        "metadata": {"name": "small-md-0-x"},
        "spec": {"clusterName": "small", "infrastructureRef": {"kind": "InMemoryMachine", "name": "small-md-0-x"}},
        "status": {"phase": "Provisioning"},
    }))
    .expect("a Machine");
    let infrastructure: InMemoryMachine = serde_json::from_value(json!({
        "metadata": {"name": "small-md-0-x"},
        "spec": {},
        "status": {"addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
            {"type": "Hostname", "address": "small-md-0-x"},
        ], "conditions": [{
            "type": "VMProvisioned", "status": vm, "reason": "WaitingForStartupTimeout", "message": "",
            "lastTransitionTime": "2026-03-04T05:06:07Z"}]},
    }))
    .expect("an InMemoryMachine");
    let used = if available == "True" { 2 } else { 1 };
    let pool = |name: &str, addresses: &str, total: i64| -> InClusterIPPool {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"addresses": [addresses], "prefix": 64},
            "status": {"ipAddresses": {"total": total, "used": used, "free": total - used, "outOfRange": 0}},
        }))
        .expect("a pool")
    };
    let v4 = pool("v4", "10.0.0.1-10.0.0.9", 9);
    let v6 = pool("v6", "fd00::/64", i64::MAX);
    View::new(&[&v4, &v6], &[&cluster], &[&machine], &[&infrastructure])
}

#[test]
fn picture_shows_stages_addresses_and_the_endpoint() {
    assert_eq!(
        view("False", "False").lines(),
        [
            "v4                           Pool          10.0.0.1-10.0.0.9            1 of 9 in use",
            "v6                           Pool          fd00::/64                    1 in use",
            "small                        Provisioned   https://127.0.0.1:20000      0/1 machines",
            "  small-md-0-x               Provisioning  ◐ vm  · node                           10.0.0.1 fd00::1",
        ]
    );
}

#[test]
fn news_are_what_changed() {
    let before = view("False", "False");
    assert_eq!(before.news(&before), Vec::<String>::new());
    assert_eq!(
        before.news(&View::default()),
        [
            "pool v4: 1 of 9 in use",
            "pool v6: 1 in use",
            "small: endpoint https://127.0.0.1:20000",
            "small: small-md-0-x is new",
            "small: small-md-0-x: address 10.0.0.1 fd00::1",
            "small: small-md-0-x is Provisioning",
        ]
    );
    let after = view("True", "True");
    assert_eq!(
        after.news(&before),
        [
            "pool v4: 2 of 9 in use",
            "pool v6: 2 in use",
            "small: small-md-0-x: vm is up",
            "small: available"
        ]
    );
    assert_eq!(View::default().news(&after), ["small: gone"]);
}

#[test]
fn what_is_missing_names_cluster_and_machine() {
    assert_eq!(
        view("False", "False").what_is_missing(),
        "cluster small: 0 of 1 machines are up; machine small-md-0-x is Provisioning: -"
    );
    assert!(view("True", "True").are_available(["small"].into_iter()));
    assert!(!view("True", "True").are_available(["small", "large"].into_iter()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_clusters_come_up_and_their_kubeconfigs_are_written() {
    // An error means that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let folder = std::env::temp_dir().join(format!("nephele-demo-test-{}", std::process::id()));
    let args = DemoArgs {
        once: true,
        time_limit: Duration::from_secs(60),
        kubeconfig_dir: Some(folder.clone()),
        port_range: "29000-29099".to_owned(),
        no_page: false,
    };
    let code = run(args, CancellationToken::new())
        .await
        .expect("everything comes up");
    assert_eq!(code, ExitCode::SUCCESS);
    for name in ["management", "small", "large"] {
        let kubeconfig =
            Kubeconfig::read_from(folder.join(format!("{name}.kubeconfig"))).expect("a kubeconfig");
        let server = kubeconfig.clusters[0]
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.server.clone());
        assert!(
            server.is_some_and(|server| server.starts_with("https://127.0.0.1:")),
            "{name}"
        );
    }
    std::fs::remove_dir_all(folder).expect("ours to remove");
}
