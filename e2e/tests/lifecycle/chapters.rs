//! The chapters of the workshop, as a person does them who reads the book: the commands of its pages, the check that fails, the
//! solution, and the check that passes. All at the same time, each in a namespace of its own. A chapter that needs Cluster API itself is
//! refused here, and done by the test beside this one that has it.
//!
//! What a command prints stands below it. The tests compare the two; with `OUTPUTS=overwrite` they write what they saw.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use futures::future::join_all;
use nephele_e2e::{
    Look, page,
    shell::{Shell, Started},
    until,
    wait::LIMIT,
};
use nephele_scenario_library::{
    Needs,
    workshop::{self, Chapter},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/workshop");
/// Where a shell has what `nephele up` prints.
pub(crate) const SAID: &str = "up.out";

/// What plays Cluster API's part.
#[derive(Clone, Copy)]
pub(crate) enum Player {
    StandIn,
    ClusterApi,
}

#[tokio::test]
async fn chapters_fail_before_their_solution_and_pass_after_it() -> anyhow::Result<()> {
    let shell = shell("workshop")?;
    let up = shell.start(&format!("nephele up --folder up --no-page >{SAID}"))?;
    let took = play(&shell, up, Player::StandIn).await?;
    println!("{took}");
    Ok(())
}

/// A shell that finds our program by its name.
pub(crate) fn shell(name: &str) -> anyhow::Result<Shell> {
    let program = env::var("NEPHELE_PROGRAM").context("run cargo xtask e2e")?;
    Shell::new(name)?.with_nephele(program)
}

/// Does all chapters on the management cluster of `nephele up` in the folder `up`, which prints into [`SAID`], and returns how long
/// each took.
pub(crate) async fn play(shell: &Shell, mut up: Started, player: Player) -> anyhow::Result<String> {
    let kubeconfig = kubeconfig(shell, &mut up).await?;
    let chapters = workshop::all().context("failed to read the chapters")?;
    let all = chapters.iter().map(async |chapter| {
        let started = Instant::now();
        let done = match (&chapter.about.needs, player) {
            (Needs::ClusterApi(needed), Player::StandIn) => refused(chapter, needed, &kubeconfig).await,
            (Needs::ClusterApi(_), Player::ClusterApi) | (Needs::Up, Player::StandIn) => {
                done(chapter, &kubeconfig, true).await
            }
            (Needs::Up, Player::ClusterApi) => done(chapter, &kubeconfig, false).await,
        };
        done.with_context(|| format!("chapter {}", chapter.name))?;
        anyhow::Ok(format!("{}: {} s\n", chapter.name, started.elapsed().as_secs()))
    });
    // All end before the first failure is reported: their commands need the server.
    join_all(all).await.into_iter().collect()
}

/// Waits until `nephele up` is ready, and returns the path of its kubeconfig.
pub(super) async fn kubeconfig(shell: &Shell, up: &mut Started) -> anyhow::Result<PathBuf> {
    until("nephele up to be ready", LIMIT, async || {
        up.still_runs()?;
        let said = fs::read_to_string(shell.folder().join(SAID)).context("it says nothing")?;
        Ok(Look::when(said.contains("Everything is up"), || said))
    })
    .await?;
    Ok(shell.folder().join("up/management.kubeconfig"))
}

/// A shell whose commands have a namespace of this name to themselves.
pub(super) async fn shell_in_namespace(name: &str, kubeconfig: &Path) -> anyhow::Result<Shell> {
    // The manager of `up --cluster-api` is found beside the kubeconfig.
    let file = kubeconfig.with_file_name(format!("{name}.kubeconfig"));
    fs::copy(kubeconfig, &file).context("failed to copy a kubeconfig")?;
    let shell = shell(name)?.with("KUBECONFIG", &file);
    shell
        .run(&format!(
            "kubectl create namespace {name}
             kubectl config set-context --current --namespace {name}"
        ))
        .await?;
    Ok(shell)
}

/// Expects that a chapter does not begin without Cluster API itself, says how to get it, and makes nothing.
async fn refused(chapter: &Chapter, needed: &str, kubeconfig: &Path) -> anyhow::Result<()> {
    let Chapter { number, name, .. } = chapter;
    let shell = shell_in_namespace(name, kubeconfig).await?;
    let said = shell.run(&format!("nephele workshop start {number}")).await.err();
    let said = format!("{:#}", said.context("it has begun")?);
    for part in [
        &format!("chapter {number} cannot run there yet"),
        &format!("it needs Cluster API itself ({needed})"),
        "start `nephele up --cluster-api=",
    ] {
        ensure!(said.contains(part), "{part} is not in {said}");
    }
    let left = shell
        .run("kubectl get clusters,scenarios,simulatedclouds --no-headers --ignore-not-found")
        .await?;
    ensure!(left.is_empty(), "{left}");
    Ok(())
}

/// Does one chapter.
async fn done(chapter: &Chapter, kubeconfig: &Path, are_recorded: bool) -> anyhow::Result<()> {
    let Chapter {
        number,
        name,
        solution,
        ..
    } = chapter;
    let shell = shell_in_namespace(name, kubeconfig).await?;
    let said = shell.run(&format!("nephele workshop start {number}")).await?;
    ensure!(
        said.contains("## Your task\n"),
        "start does not tell the task: {said}"
    );
    let mut seen = seen(&shell, chapter.task(), name, are_recorded).await?;
    let check = format!("nephele workshop check {number}");
    let failed = shell.run(&check).await.err().context("done before it is")?;
    let failed = format!("{failed:#}");
    ensure!(failed.contains("is not done yet: "), "{failed}");
    shell.run(solution).await?;
    seen.extend(self::seen(&shell, chapter.answers(), name, are_recorded).await?);
    let said = shell.run(&check).await?;
    ensure!(said.contains(&format!("Chapter {number} is done.\n")), "{said}");
    if are_recorded {
        compare(chapter, seen)?;
    }
    // Another chapter finds nothing of this one.
    let said = shell
        .run("nephele workshop reset 1 && kubectl get clusters,faults.cloud.nephele.dev --no-headers")
        .await?;
    ensure!(said.ends_with("`nephele workshop show 1`\n"), "{said}");
    Ok(())
}

/// Runs the commands of a text, and returns what each block printed. Where that is compared with nothing, each command of a pipe has
/// to succeed.
async fn seen(shell: &Shell, text: &str, namespace: &str, are_recorded: bool) -> anyhow::Result<Vec<String>> {
    let mut seen = Vec::new();
    for block in page::commands(text) {
        seen.push(match are_recorded {
            true => shown(shell, block.text, namespace).await?,
            false => shell.run(block.text).await?,
        });
    }
    Ok(seen)
}

/// What commands print for a person who reads it in the namespace of the kubeconfig.
pub(super) async fn shown(shell: &Shell, commands: &str, namespace: &str) -> anyhow::Result<String> {
    Ok(shell.show(commands).await?.replace(namespace, "default"))
}

/// Fails when a command printed something else than its chapter shows. Or writes what it printed into the chapter.
fn compare(chapter: &Chapter, seen: Vec<String>) -> anyhow::Result<()> {
    let printed: Vec<_> = page::commands(chapter.text).zip(seen).collect();
    let file = Path::new(FOLDER).join(chapter.name).join("chapter.md");
    page::compare(chapter.text, &printed, &file)
}
