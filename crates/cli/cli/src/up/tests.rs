use clap::Parser;
use nephele_controller::wall_clock;

use super::*;
use crate::embedded::Management;

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    up: UpArgs,
}

fn args(arguments: &[&str]) -> Result<UpArgs, clap::Error> {
    Only::try_parse_from(["up"].iter().chain(arguments)).map(|only| only.up)
}

#[test]
fn stand_in_needs_attach_because_it_always_plays_without() {
    assert!(args(&["--stand-in"]).is_err());
    let both = args(&["--stand-in", "--attach", "k", "-f", "a", "-f", "b"]);
    assert_eq!(both.expect("valid").files, ["a", "b"].map(PathBuf::from));
}

/// An API server of its own stands for envtest's: `serve` installs the definitions it lacks, and brings up a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_api_server_gets_a_cluster() {
    // An error means that there is a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let stop = CancellationToken::new();
    let end = CancellationToken::new();
    let other = Management::start("other", &wall_clock(), stop.clone()).expect("it starts");
    let folder = Folder::open(None, "nephele-up-test").expect("a folder");
    let kubeconfig = folder
        .write("other.kubeconfig", &other.kubeconfig)
        .expect("written");
    let file = folder
        .write(
            "cluster.yaml",
            include_str!("../../../../../config/templates/clusterclass-in-memory.yaml"),
        )
        .expect("written");
    let cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a, namespace: team}\n\
        spec: {topology: {classRef: {name: in-memory}, version: v1.36.3}}\n";
    let cluster = folder.write("a.yaml", cluster).expect("written");
    let arguments = args(&[
        "--attach",
        kubeconfig.to_str().expect("text"),
        "--stand-in",
        "-f",
        file.to_str().expect("text"),
        "-f",
        cluster.to_str().expect("text"),
        "--port-range",
        "28400-28499",
    ])
    .expect("valid");
    let documents = documents::read_all(&arguments.files).expect("readable");
    let written = folder.path("team-a.kubeconfig");
    let watching = async {
        let written = async {
            while !written.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = timeout(Duration::from_secs(90), written).await;
        end.cancel();
        seen
    };
    let served = serve(&arguments, documents, &folder, Instant::now(), &end, &stop);
    let (outcome, seen) = tokio::join!(served, watching);
    outcome.expect("an orderly end");
    seen.expect("a kubeconfig");
    stop.cancel();
    folder.discard().expect("removed");
}
