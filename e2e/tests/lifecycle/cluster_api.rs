//! `nephele up --cluster-api`: Cluster API's own managers as processes, without the cluster that the other tests use.

use std::{collections::BTreeSet, env, fs, path::Path};

use anyhow::Context as _;
use nephele_e2e::{
    Cluster, Look, Management,
    shell::{Shell, Started},
    templates, until,
    wait::LIMIT,
};
use serde_json::json;

const NAME: &str = "small";
/// The processes beside `nephele up`, by the names of their logs.
const PROCESSES: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "cluster-api",
    "bootstrap-kubeadm",
    "control-plane-kubeadm",
];

/// The example of a provider under test, from a folder where a stranger has copied it.
#[tokio::test]
async fn a_provider_of_a_users_own_is_tested_with_cluster_api_itself() -> anyhow::Result<()> {
    let program = env::var("NEPHELE_PROGRAM").context("run cargo xtask e2e")?;
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../nepheletest");
    let shell = Shell::new("provider")?
        .with("NEPHELE", program)
        .with("LIBRARIES", libraries);
    let said = shell
        .run(
            "programs=$(dirname \"$(command -v kube-apiserver)\")
             mkdir cluster-api
             for name in cluster-api bootstrap-kubeadm control-plane-kubeadm; do
                 ln -s \"$programs/$name\" \"$programs\"/../repository/\"$name\"/*/*-components.yaml cluster-api/
             done
             export CLUSTER_API=\"$PWD/cluster-api\" KUBEBUILDER_ASSETS=\"$programs\"
             cp -r \"$LIBRARIES/examples/provider\" provider
             cd provider
             go mod edit -replace \"github.com/nephele-dev/nephele/nepheletest/go=$LIBRARIES/go\"
             go test -count=1 -v ./...",
        )
        .await?;
    for passed in [
        "--- PASS: TestWorkersBootWithOurData/a_worker_that_is_added_gets_data,_too",
        "--- PASS: TestWorkersBootWithOurData/no_data_is_made_before_the_control_plane_answers",
    ] {
        assert!(said.contains(passed), "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn cluster_api_runs_beside_nephele_up_and_ends_when_that_is_killed() -> anyhow::Result<()> {
    let program = env::var("NEPHELE_PROGRAM").context("run cargo xtask e2e")?;
    let shell = Shell::new("cluster-api")?
        // No server of it is behind a proxy.
        .with("HTTPS_PROXY", "http://127.0.0.1:9");
    let mut objects = templates::class()?;
    objects.push(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"topology": {
            "classRef": {"name": "in-memory"}, "version": "v1.36.3", "controlPlane": {"replicas": 1},
            "workers": {"machineDeployments": [{"class": "default-worker", "name": "md-0", "replicas": 1}]},
        }},
    }));
    let text: Vec<_> = objects.iter().map(ToString::to_string).collect();
    fs::write(shell.folder().join("objects.yaml"), text.join("\n---\n"))
        .context("failed to write the objects")?;
    let (shell, mut up) = up_with_cluster_api(shell, &format!("'{program}'"), "-f objects.yaml").await?;
    let folder = shell.folder().join("up");
    let management = until("nephele up to serve", LIMIT, async || {
        up.still_runs()?;
        Ok(
            match Management::of(&folder.join("management.kubeconfig")).await {
                Ok(management) => Look::Done(management),
                Err(error) => Look::NotYet(format!("{error:#}")),
            },
        )
    })
    .await?;
    let cluster = Cluster {
        management,
        namespace: "default".to_owned(),
        name: NAME.to_owned(),
    };
    cluster.available().await?;
    let doctor = format!("'{program}' doctor --kubeconfig up/management.kubeconfig");
    let said = shell.run(&doctor).await?;
    assert_eq!(said, "✓ Nothing is wrong with this management cluster.\n");
    // The manager is in the process of `up`; the API server has none of its routes.
    let said = shell
        .run(&format!(
            "export KUBECONFIG=up/management.kubeconfig
             '{program}' journal show | grep -c 'CreateInstance'
             '{program}' checkpoint save file && '{program}' checkpoint restore --replace file"
        ))
        .await?;
    let said: Vec<_> = said.lines().collect();
    assert!(said[0] != "0", "{said:?}");
    assert!(said[2].ends_with(", workload clusters: 1"), "{said:?}");
    cluster.available().await?;
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 2);
    let load = format!("'{program}' load --clusters 1 --workers 0 --kubeconfig up/management.kubeconfig");
    let said = shell.run(&load).await?;
    for name in PROCESSES.iter().chain(&["nephele"]) {
        assert!(said.contains(&format!("\n{name} ")), "{name} is not in {said}");
    }
    assert_eq!(logs(&folder)?, PROCESSES.map(str::to_owned).into());
    assert_eq!(running(&folder)?.len(), PROCESSES.len());
    // As `kill -9` does.
    drop(up);
    until("every process to end", LIMIT, async || {
        let left = running(&folder)?;
        Ok(Look::when(left.is_empty(), || left.join("\n")))
    })
    .await
}

/// Starts `nephele up` with Cluster API in the folder `up` of a shell.
pub(crate) async fn up_with_cluster_api(
    shell: Shell,
    program: &str,
    flags: &str,
) -> anyhow::Result<(Shell, Started)> {
    // `cargo xtask cluster` lays out the programs and clusterctl's repository side by side.
    let programs = shell.run("dirname \"$(command -v kube-apiserver)\"").await?;
    let repository = Path::new(programs.trim()).with_file_name("repository");
    let shell = shell
        .with("KUBEBUILDER_ASSETS", programs.trim())
        .with("REPOSITORY", repository);
    let up = shell.start(&format!(
        "{program} up --folder up {flags} --cluster-api \
         --provider \"$REPOSITORY\"/cluster-api/*/core-components.yaml \
         --provider \"$REPOSITORY\"/bootstrap-kubeadm/*/bootstrap-components.yaml \
         --provider \"$REPOSITORY\"/control-plane-kubeadm/*/control-plane-components.yaml \
         --run cluster-api=\"$KUBEBUILDER_ASSETS\"/cluster-api \
         --run bootstrap-kubeadm=\"$KUBEBUILDER_ASSETS\"/bootstrap-kubeadm \
         --run control-plane-kubeadm=\"$KUBEBUILDER_ASSETS\"/control-plane-kubeadm"
    ))?;
    Ok((shell, up))
}

/// The processes that have a log in the folder.
fn logs(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).context("failed to list the folder")? {
        let name = entry.context("failed to list the folder")?.file_name();
        let name = name.to_string_lossy();
        names.extend(
            name.strip_suffix(".log")
                .filter(|name| *name != "up")
                .map(str::to_owned),
        );
    }
    Ok(names)
}

/// The command lines of processes that run with files of the folder.
fn running(folder: &Path) -> anyhow::Result<Vec<String>> {
    let folder = folder.to_string_lossy();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("failed to list processes")? {
        let place = entry.context("failed to list processes")?.path();
        // A process may end while the list is read. Its variables name its kubeconfig.
        let [line, variables] =
            ["cmdline", "environ"].map(|file| fs::read(place.join(file)).unwrap_or_default());
        let [line, variables] =
            [line, variables].map(|text| String::from_utf8_lossy(&text).replace('\0', " "));
        if line.contains(&*folder) || variables.contains(&format!("{folder}/")) {
            found.push(line);
        }
    }
    Ok(found)
}
