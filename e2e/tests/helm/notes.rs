//! The commands that `helm install` prints, run by a shell as they are printed.

use anyhow::Context as _;
use nephele_e2e::{Look, shell::Shell, until, wait::LIMIT};

use super::chart::{kubectl, notes};

/// Indents commands in the notes.
const INDENT: &str = "     ";
/// What the notes say before the commands that are for later.
const LATER: &str = "After the uninstallation";
/// The cluster of the commands, with one control plane machine and one worker.
const CLUSTER: &str = "demo";
const NODES: usize = 2;

/// Creates a cluster with the commands, reaches it and deletes it.
pub(crate) async fn create_and_reach_a_cluster() -> anyhow::Result<()> {
    let notes = notes().await?;
    let shell = Shell::new("notes")?;
    let mut forward = None;
    let mut reached = false;
    let (now, _) = notes.split_once(LATER).unwrap_or((&notes, ""));
    for command in &commands(now) {
        if command.contains("port-forward") {
            forward = Some(shell.start(command)?);
        } else if command.contains("get nodes") {
            until("the Nodes by the commands of the notes", LIMIT, async || {
                Ok(match shell.run(command).await {
                    Ok(nodes) => Look::when(nodes.matches(" Ready ").count() == NODES, || nodes),
                    Err(error) => Look::NotYet(format!("{error:#}")),
                })
            })
            .await?;
            reached = true;
        } else {
            shell.run(command).await?;
        }
    }
    assert!(
        forward.is_some() && reached,
        "the notes do not lead to a cluster:\n{notes}"
    );
    kubectl(&["delete", "cluster", CLUSTER]).await.map(drop)
}

/// Runs the commands that the notes of a release that is uninstalled by now give for that time.
pub(crate) async fn tidy_up(notes: &str) -> anyhow::Result<()> {
    let (_, later) = notes
        .split_once(LATER)
        .context("nothing is to be done after the uninstallation")?;
    let shell = Shell::new("notes-later")?;
    for command in &commands(later) {
        shell.run(command).await?;
    }
    Ok(())
}

/// The commands of the notes, each on one line.
fn commands(notes: &str) -> Vec<String> {
    let joined = notes.replace("\\\n", " ");
    joined
        .lines()
        .filter_map(|line| line.strip_prefix(INDENT))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_command_of_several_lines_is_one() {
    let notes = "Installed.\n\n     one \\\n       two | three\n\n   Text.\n     four\n";
    assert_eq!(commands(notes), ["one         two | three", "four"]);
}
