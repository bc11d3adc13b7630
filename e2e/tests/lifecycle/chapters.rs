//! The chapters of the workshop, as a person does them who reads the book: the commands of its pages, the check that fails, the
//! solution, and the check that passes. All at the same time, each in a namespace of its own.
//!
//! What a command prints stands below it. The test compares the two; with `OUTPUTS=overwrite` it writes what it saw.

use std::{env, fs, path::Path, time::Instant};

use anyhow::{Context as _, ensure};
use futures::future::join_all;
use nephele_e2e::{
    Look,
    shell::{Shell, Started},
    until,
    wait::LIMIT,
};
use nephele_scenario_library::workshop::{self, Chapter};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/workshop");
/// Where a shell has what `nephele up` prints.
pub(crate) const SAID: &str = "up.out";

#[tokio::test]
async fn chapters_fail_before_their_solution_and_pass_after_it() -> anyhow::Result<()> {
    let shell = shell("workshop")?;
    let up = shell.start(&format!("nephele up --folder up --no-page >{SAID}"))?;
    let took = play(&shell, up, true).await?;
    println!("{took}");
    Ok(())
}

/// A shell that finds our program by its name.
pub(crate) fn shell(name: &str) -> anyhow::Result<Shell> {
    let program = env::var("NEPHELE_PROGRAM").context("run cargo xtask e2e")?;
    Shell::new(name)?.with_nephele(program)
}

/// Does all chapters on the management cluster of `nephele up` in the folder `up`, which prints into [`SAID`], and returns how long each took.
pub(crate) async fn play(shell: &Shell, mut up: Started, are_recorded: bool) -> anyhow::Result<String> {
    until("nephele up to be ready", LIMIT, async || {
        up.still_runs()?;
        let said = fs::read_to_string(shell.folder().join(SAID)).context("it says nothing")?;
        Ok(Look::when(said.contains("Everything is up"), || said))
    })
    .await?;
    let kubeconfig = shell.folder().join("up/management.kubeconfig");
    let chapters = workshop::all().context("failed to read the chapters")?;
    let all = chapters.iter().map(async |chapter| {
        let started = Instant::now();
        let done = done(chapter, &kubeconfig, are_recorded).await;
        done.with_context(|| format!("chapter {}", chapter.name))?;
        anyhow::Ok(format!("{}: {} s\n", chapter.name, started.elapsed().as_secs()))
    });
    // All end before the first failure is reported: their commands need the server.
    join_all(all).await.into_iter().collect()
}

/// Does one chapter.
async fn done(chapter: &Chapter, kubeconfig: &Path, are_recorded: bool) -> anyhow::Result<()> {
    let Chapter {
        number,
        name,
        solution,
        ..
    } = chapter;
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
    let said = shell.run(&format!("nephele workshop start {number}")).await?;
    ensure!(
        said.contains("## Your task\n"),
        "start does not tell the task: {said}"
    );
    let mut seen = seen(&shell, chapter.task(), name).await?;
    let check = format!("nephele workshop check {number}");
    let failed = shell.run(&check).await.err().context("done before it is")?;
    let failed = format!("{failed:#}");
    ensure!(failed.contains("is not done yet: "), "{failed}");
    shell.run(solution).await?;
    seen.extend(self::seen(&shell, chapter.answers(), name).await?);
    let said = shell.run(&check).await?;
    ensure!(said.contains(&format!("Chapter {number} is done.\n")), "{said}");
    if are_recorded {
        compare(chapter, &seen)?;
    }
    // Another chapter finds nothing of this one.
    let said = shell
        .run("nephele workshop reset 1 && kubectl get clusters,faults.cloud.nephele.dev --no-headers")
        .await?;
    ensure!(said.ends_with("`nephele workshop show 1`\n"), "{said}");
    Ok(())
}

/// Runs the commands of a text, and returns what each block printed.
async fn seen(shell: &Shell, text: &str, namespace: &str) -> anyhow::Result<Vec<String>> {
    let mut seen = Vec::new();
    for Block { commands, .. } in blocks(text) {
        let said = shell.run(commands).await?;
        // A person reads it in the namespace of the kubeconfig.
        seen.push(said.replace(namespace, "default"));
    }
    Ok(seen)
}

/// Commands of a chapter, and what they print if the chapter shows it.
struct Block<'a> {
    commands: &'a str,
    output: Option<&'a str>,
}

fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    text.split("```sh\n").skip(1).filter_map(|rest| {
        let (commands, rest) = rest.split_once("```\n")?;
        let output = rest
            .strip_prefix("\n```text\n")
            .and_then(|rest| rest.split_once("```"));
        Some(Block {
            commands,
            output: output.map(|(output, _)| output),
        })
    })
}

/// Fails when a command printed something else than its chapter shows. Or writes what it printed into the chapter.
fn compare(chapter: &Chapter, seen: &[String]) -> anyhow::Result<()> {
    let mut text = chapter.text.to_owned();
    let mut differences = String::new();
    for (Block { commands, output }, seen) in blocks(chapter.text).zip(seen) {
        let Some(output) = output else { continue };
        if normal(output) != normal(seen) {
            differences += &format!("{commands}shows\n{output}and printed\n{seen}");
            text = text.replacen(
                &format!("{commands}```\n\n```text\n{output}"),
                &format!("{commands}```\n\n```text\n{seen}"),
                1,
            );
        }
    }
    if env::var("OUTPUTS").is_ok_and(|wanted| wanted == "overwrite") {
        let file = Path::new(FOLDER).join(chapter.name).join("chapter.md");
        return fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()));
    }
    ensure!(differences.is_empty(), "{differences}");
    Ok(())
}

/// An output without what differs each time: drawn names, ages, and the order of lines that follows from names.
fn normal(output: &str) -> Vec<String> {
    let mut lines: Vec<_> = output
        .lines()
        .map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

fn word(word: &str) -> String {
    if is_age(word) {
        return "AGE".to_owned();
    }
    let parts = word.split_inclusive(|of: char| !of.is_ascii_alphanumeric());
    parts
        .map(|part| {
            let text = part.trim_end_matches(|of: char| !of.is_ascii_alphanumeric());
            let rest = part.strip_prefix(text).unwrap_or_default();
            if is_drawn(text) {
                format!("DRAWN{rest}")
            } else {
                part.to_owned()
            }
        })
        .collect()
}

/// As the API server makes the end of a name.
fn is_drawn(text: &str) -> bool {
    text.len() == 5 && text.chars().all(|of| "bcdfghjklmnpqrstvwxz2456789".contains(of))
}

/// As `kubectl` prints an age: `40s`, `2m10s`.
fn is_age(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h'])
        && word.chars().all(|of| of.is_ascii_digit() || "smh".contains(of))
}

#[test]
fn what_is_drawn_makes_no_difference() {
    let one = "NAME        AGE\ndemo-4hk2d   40s\ndemo-zzzzz   3s\n\"a-bbbbb\" deleted\n";
    let other = "NAME   AGE\ndemo-22222   2m10s\ndemo-m9m9m   1s\n\"a-ccccc\" deleted\n";
    assert_eq!(normal(one), normal(other));
    assert_ne!(normal(one), normal("NAME AGE\ndemo-4hk2d 40s\n"));
    assert_ne!(normal("Running\n"), normal("Deleting\n"));
}
