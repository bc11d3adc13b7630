//! The pages of the book as a person plays them: objects are applied, commands are run, and what they print is what the page
//! shows. All at the same time, each in a namespace of its own, on one `nephele up`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use futures::future::join_all;
use nephele_e2e::{
    page::{self, Block},
    terminal::Terminals,
};

use super::chapters::{SAID, kubeconfig, shell, shell_in_namespace};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src");
/// The page that makes the cluster of the examples, and how other pages say that they have it.
const CLUSTER: &str = "try.md";
const NEEDS_CLUSTER: &str = "[the cluster of Try it](try.md)";
/// The command that runs on while others follow. The test has started it.
const UP: &str = "nephele up --folder cloud\n";
/// The test has set it, with a namespace of the page.
const KUBECONFIG: &str = "export KUBECONFIG=$PWD/cloud/management.kubeconfig\n";

#[tokio::test]
async fn pages_show_what_their_commands_print() -> anyhow::Result<()> {
    let up_shell = shell("book")?;
    let mut up = up_shell.start(&format!("nephele up --folder up --no-page >{SAID}"))?;
    let kubeconfig = kubeconfig(&up_shell, &mut up).await?;
    let cluster =
        fs::read_to_string(Path::new(BOOK).join(CLUSTER)).context("failed to read the first page")?;
    let pages = pages()?;
    ensure!(
        pages.iter().any(|(file, _)| file.ends_with(CLUSTER)),
        "{CLUSTER} is not played"
    );
    let all = pages.iter().map(async |(file, text)| {
        let played = play(file, text, &cluster, &kubeconfig).await;
        played.with_context(|| format!("{}", file.display()))
    });
    // All end before the first failure is reported: their commands need the server.
    let all = join_all(all).await;
    let failed: Vec<_> = all
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

/// The pages with commands to play, and their files.
fn pages() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut pages = page::pages(Path::new(BOOK))?;
    pages.retain(|(_, text)| page::commands(text).next().is_some() && !page::is_marked(text));
    Ok(pages)
}

/// Plays a page, and compares.
async fn play(file: &Path, text: &str, cluster: &str, kubeconfig: &Path) -> anyhow::Result<()> {
    let name = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .context("the page has no name")?;
    let namespace = format!("page-{name}");
    let shell = shell_in_namespace(&namespace, kubeconfig).await?;
    // What a page writes into the home folder stays with it.
    let home = shell.folder().to_owned();
    let shell = shell.with("HOME", home);
    let mut terminals = Terminals::new(&shell, &namespace);
    let mut play = async |block: &Block<'_>| match [UP, KUBECONFIG].contains(&block.text) {
        true => Ok(None),
        false => terminals.play(block).await,
    };
    if page::in_one_line(text).contains(NEEDS_CLUSTER) {
        for block in page::blocks(cluster) {
            play(&block).await?;
        }
    }
    let mut seen = Vec::new();
    for block in page::blocks(text) {
        if let Some(said) = play(&block).await? {
            seen.push((block, said));
        }
    }
    terminals.finish().await?;
    page::compare(text, &seen, file)
}
