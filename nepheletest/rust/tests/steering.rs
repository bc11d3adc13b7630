//! A test breaks and steers the cloud.

use std::{fs, path::Path, process::Command, time::Duration};

use kube::api::{Patch, PatchParams};
use nepheletest::{Cluster, CommandError, Machine, Nephele, Record};
use serde_json::json;

use crate::objects::{cluster_with, clusters_in, expect_error};

async fn start_small() -> anyhow::Result<(Nephele, Cluster)> {
    let nephele = Nephele::builder()
        .object(cluster_with("default", "small", 1))
        .start()
        .await?;
    let small = nephele.cluster("default", "small").await?;
    Ok((nephele, small))
}

async fn scale(nephele: &Nephele, workers: i32) -> anyhow::Result<()> {
    let wanted = cluster_with("default", "small", workers).data;
    let clusters = clusters_in(nephele.client()?, "default");
    clusters
        .patch("small", &PatchParams::default(), &Patch::Merge(wanted))
        .await?;
    Ok(())
}

/// Waits until a cluster has so many Machines, and so many of them are ready.
async fn wait_for_machines(
    nephele: &Nephele,
    cluster: &Cluster,
    all: usize,
    ready: usize,
) -> anyhow::Result<Vec<Machine>> {
    let what = format!("{ready} of {all} Machines are ready");
    let seen = async || {
        let machines = cluster.machines().await?;
        let count = machines.iter().filter(|machine| machine.is_ready).count();
        anyhow::ensure!(
            machines.len() == all && count == ready,
            "the Machines are {machines:?}"
        );
        Ok(machines)
    };
    Ok(nephele.wait_until(&what, seen).await?)
}

/// Writes a file with a scenario, and returns its path.
fn write_scenario(folder: &Path, name: &str, steps: &[&str]) -> anyhow::Result<String> {
    let path = folder.join(format!("{name}.yaml"));
    let steps = steps.join(", ");
    let content = format!(
        "apiVersion: cloud.nephele.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: {name}}}\nspec: {{steps: [{steps}]}}\n"
    );
    fs::write(&path, content)?;
    Ok(path.display().to_string())
}

#[tokio::test]
async fn fault_keeps_a_machine_out_until_it_is_healed() -> anyhow::Result<()> {
    let (nephele, small) = start_small().await?;
    let effect = "fail: {reason: InsufficientCapacity}";
    let fault = nephele.fault(effect, &["--operation", "CreateInstance"]).await?;
    scale(&nephele, 2).await?;
    wait_for_machines(&nephele, &small, 3, 2).await?;
    let hit = async || {
        anyhow::ensure!(fault.hits().await? > 0, "it has no hits");
        Ok(())
    };
    nephele.wait_until("the Fault has hit", hit).await?;
    let calls = nephele
        .calls(&["--operation", "CreateInstance", "--fault", fault.name()])
        .await?;
    let refused = calls.first().expect("the Fault has hit");
    let expected = Record {
        namespace: "default".to_owned(),
        cluster: "small".to_owned(),
        kind: "Machine".to_owned(),
        operation: "CreateInstance".to_owned(),
        caller: "machine".to_owned(),
        outcome: "InsufficientCapacity".to_owned(),
        event: String::new(),
        message: format!("there is not enough capacity (Fault {})", fault.name()),
        faults: vec![fault.name().to_owned()],
        hit: true,
        ..refused.clone()
    };
    assert_eq!(*refused, expected);
    assert!(refused.name.starts_with("small-workers-"), "{refused:?}");
    assert_eq!(fault.namespace(), Some("default"));
    fault.heal().await?;
    assert_eq!(nephele.run(["get", "faults"]).await?, "");
    wait_for_machines(&nephele, &small, 3, 3).await?;
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn fault_of_all_namespaces_is_healed_also_when_it_is_gone() -> anyhow::Result<()> {
    let nephele = Nephele::builder().start().await?;
    let flags = ["--all-namespaces", "--name", "silence"];
    let fault = nephele.fault("notReady", &flags).await?;
    assert_eq!(
        (fault.to_string().as_str(), fault.namespace()),
        ("ClusterFault silence", None)
    );
    assert_eq!(fault.hits().await?, 0);
    fault.heal().await?;
    let fault = nephele.fault("notReady", &[]).await?;
    nephele.run(["fault", "heal", "--all"]).await?;
    nephele
        .wait_until("the Fault is gone", async || match fault.hits().await {
            Ok(_) => Err("it is there".to_owned()),
            Err(error) => {
                expect_error(
                    Err::<(), _>(error),
                    &["failed to get Fault default/", "not found"],
                );
                Ok(())
            }
        })
        .await?;
    fault.heal().await?;
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn preview_says_what_a_fault_would_hit() -> anyhow::Result<()> {
    let (nephele, _small) = start_small().await?;
    let flags = ["--machines", "!cluster.x-k8s.io/control-plane"];
    let said = nephele.preview("notReady", &flags).await?;
    assert!(said.contains("selects 1 of 2 machines"), "{said}");
    assert_eq!(nephele.run(["get", "faults"]).await?, "");
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn clock_stands_still_until_it_is_stepped() -> anyhow::Result<()> {
    let cloud = json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "SimulatedCloud",
        "metadata": {"namespace": "default", "name": "default"},
        "spec": {},
    });
    let nephele = Nephele::builder()
        .object(cloud)
        .object(cluster_with("default", "small", 1))
        .start()
        .await?;
    let small = nephele.cluster("default", "small").await?;
    nephele.clock(&["--pause"]).await?;
    scale(&nephele, 2).await?;
    let created = async || {
        let calls = nephele.calls(&["--operation", "CreateInstance"]).await?;
        anyhow::ensure!(calls.len() == 3, "the calls are {calls:?}");
        Ok(())
    };
    nephele
        .wait_until("the cloud creates the third instance", created)
        .await?;
    wait_for_machines(&nephele, &small, 3, 2).await?;
    // Its instance and its Node.
    nephele.clock(&["--step", "2"]).await?;
    wait_for_machines(&nephele, &small, 3, 3).await?;
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn scenario_that_fails_names_its_step() -> anyhow::Result<()> {
    let (nephele, _small) = start_small().await?;
    let folder = tempfile::tempdir()?;
    let is_up = "{name: cluster-is-up, wait: {cluster: small, condition: Available, within: 10s}}";
    let run =
        "{name: machines-run, expect: {machines: {cluster: small, phase: Running, count: 9}, within: 1s}}";
    let passes = write_scenario(folder.path(), "passes", &[is_up])?;
    nephele.scenario(&passes, &[]).await?;
    let fails = write_scenario(folder.path(), "fails", &[is_up, run])?;
    let expected = [
        "failed to run `nephele scenario run /",
        "Scenario fails has failed: machines-run: 2 of 2 machines are Running, not 9",
    ];
    expect_error(nephele.scenario(&fails, &[]).await, &expected);
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn restore_gives_back_what_the_checkpoint_has() -> anyhow::Result<()> {
    let (nephele, small) = start_small().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("prepared.json");
    let before = small.machines().await?;
    nephele.checkpoint(&file).await?;
    nephele.fault("notReady", &[]).await?;
    scale(&nephele, 2).await?;
    wait_for_machines(&nephele, &small, 3, 0).await?;
    nephele.restore(&file).await?;
    assert_eq!(wait_for_machines(&nephele, &small, 2, 2).await?, before);
    assert_eq!(nephele.run(["get", "faults"]).await?, "");
    expect_error(nephele.restore("absent.json").await, &["absent.json"]);
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn command_that_is_wrong_fails_in_the_words_of_the_program() -> anyhow::Result<()> {
    let nephele = Nephele::builder().start().await?;
    let wrong = nephele.fault("notReddy: {}", &["--count", "1"]).await;
    let Err(CommandError::Failed {
        arguments, status, ..
    }) = &wrong
    else {
        panic!("{wrong:?}")
    };
    assert_eq!((arguments.len(), status.code()), (5, Some(2)));
    let expected = [
        "failed to run `nephele fault add 'notReddy: {}' --count 1` (exit status: 2): ",
        "there is no effect notReddy; did you mean notReady?",
    ];
    expect_error(wrong, &expected);
    let dry = nephele.fault("notReady", &["--dry-run"]).await;
    expect_error(
        dry,
        &["failed to find the Fault in what `nephele fault add` says: "],
    );
    expect_error(
        nephele.clock(&["--pause"]).await,
        &["only a SimulatedCloud has a clock"],
    );
    expect_error(nephele.scenario("absent", &[]).await, &["absent"]);
    expect_error(nephele.calls(&["--no-such-flag", "a"]).await, &["--no-such-flag"]);
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn command_ends_with_nephele() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let rest = write_scenario(folder.path(), "rest", &["{pause: 10m}"])?;
    let nephele = Nephele::builder()
        .folder(folder.path().join("nephele"))
        .start()
        .await?;
    let kill = async {
        let running = async || {
            let scenarios = nephele.run(["get", "scenarios"]).await?;
            anyhow::ensure!(scenarios.contains("Running"), "{scenarios}");
            Ok(())
        };
        nephele.wait_until("the scenario runs", running).await?;
        // The command follows the scenario within moments.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut kill = Command::new("kill");
        kill.args(["-9", &nephele.process_id().to_string()]);
        anyhow::Ok(kill.status()?)
    };
    // It would follow the scenario for an hour.
    let (ended, killed) = tokio::join!(nephele.scenario(&rest, &[]), kill);
    assert!(killed?.success());
    expect_error(
        ended,
        &[
            "failed to run `nephele scenario run ",
            "nephele has ended",
            "signal: 9",
        ],
    );
    Ok(())
}

#[tokio::test]
async fn failed_wait_names_the_faults_and_ends_with_the_link_to_the_page() -> anyhow::Result<()> {
    let nephele = Nephele::builder()
        .wait_limit(Duration::from_millis(50))
        .start()
        .await?;
    let page = nephele.page().expect("it has a page");
    assert!(page.starts_with("http://127.0.0.1:"), "{page}");
    nephele.fault("notReady", &["--name", "forgotten"]).await?;
    let waited = nephele
        .wait_until("it is so", async || Err::<(), _>("it is not"))
        .await;
    let said = waited.expect_err("it is not so").to_string();
    let expected = format!("\nuntil Nephele ends, its page shows what is there: {page}");
    assert!(said.ends_with(&expected), "{said}");
    assert!(
        said.contains("\nthere are Faults:\n") && said.contains("forgotten"),
        "{said}"
    );
    Ok(nephele.stop().await?)
}
