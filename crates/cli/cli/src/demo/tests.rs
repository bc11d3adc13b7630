use std::{process::ExitCode, time::Duration};

use kube::config::Kubeconfig;
use tokio_util::sync::CancellationToken;

use super::{DemoArgs, run};

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
