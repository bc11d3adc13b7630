//! The terminals of a person who plays pages of the book: blocks are done in their order, a command that runs on has a terminal
//! of its own, and the variables of a block are there in those after it.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, ensure};

use crate::{
    Look,
    page::{self, Block, Kind},
    shell::{Shell, Started},
    until,
    wait::LIMIT,
};

/// Around the commands of a block, which a shell of its own runs: the variables of those before it, and its own for those after it.
const BEFORE: &str = "if [ -f variables ]; then . ./variables; fi\nset -a\n";
const AFTER: &str = "\nexport -p >variables";

/// What stands in a page for the folder of the shell.
const HOME: &str = "/home/ada";

/// Terminals in the folder of a shell.
pub struct Terminals<'a> {
    shell: &'a Shell,
    /// What stands for the namespace `default` of a page.
    namespace: &'a str,
    /// The commands that run on, by their program and its first argument.
    running: BTreeMap<String, Started>,
}

impl<'a> Terminals<'a> {
    /// Terminals whose commands have this namespace where the page has `default`.
    #[must_use]
    pub fn new(shell: &'a Shell, namespace: &'a str) -> Self {
        Self {
            shell,
            namespace,
            running: BTreeMap::new(),
        }
    }

    /// Plays a block, and returns what it has printed if that belongs to the page.
    ///
    /// # Errors
    ///
    /// When a command fails whose output in the page is no error, or one that runs on does not print what the page shows.
    pub async fn play(&mut self, block: &Block<'_>) -> anyhow::Result<Option<String>> {
        match block.kind {
            Kind::Objects => {
                let apply = format!("kubectl apply -f - <<'END'\n{}END", block.text);
                self.done(&apply).await.map(|_| None)
            }
            Kind::File(name) => {
                let file = self.shell.folder().join(format!("{name}.yaml"));
                fs::write(&file, block.text)
                    .with_context(|| format!("failed to write {}", file.display()))?;
                Ok(None)
            }
            Kind::RunsOn => self.start(block).await.map(|()| None),
            Kind::Commands => {
                // A person sees what a command says that fails, and continues.
                let fails = block.output.is_some_and(|output| output.starts_with("Error: "));
                let namespace = format!("namespace {}", self.namespace);
                let text = block.text.replace("namespace default", &namespace);
                let text = if fails { format!("! {{ {text}}}") } else { text };
                self.done(&text).await.map(Some)
            }
        }
    }

    /// Fails when a command that runs on has ended, named by its program and its first argument.
    ///
    /// # Errors
    ///
    /// Also when it was never started.
    pub fn still_runs(&mut self, program: &str) -> anyhow::Result<()> {
        let started = self.running.get_mut(program);
        let started = started.with_context(|| format!("{program} was not started"))?;
        started.still_runs().with_context(|| program.to_owned())
    }

    /// Ends a command that runs on, as Ctrl-C does.
    ///
    /// # Errors
    ///
    /// When it does not end, or not with success, or was never started.
    pub async fn interrupt(&mut self, program: &str) -> anyhow::Result<()> {
        let started = self.running.remove(program);
        let started = started.with_context(|| format!("{program} was not started"))?;
        let status = started.interrupt().await?;
        ensure!(status.success(), "{program} ended: {status}");
        Ok(())
    }

    /// Runs commands to their end, and returns what a person reads who does so in the namespace `default`.
    async fn done(&self, commands: &str) -> anyhow::Result<String> {
        let printed = self.shell.show(&format!("{BEFORE}{commands}{AFTER}")).await?;
        let folder = self.shell.folder().display().to_string();
        Ok(printed.replace(&folder, HOME).replace(self.namespace, "default"))
    }

    /// Starts a command that runs on, and waits until it has printed what the page shows. As in one terminal, the same command with
    /// other arguments ends first.
    async fn start(&mut self, block: &Block<'_>) -> anyhow::Result<()> {
        let (before, command) = block
            .text
            .trim_end()
            .rsplit_once('\n')
            .unwrap_or(("", block.text.trim_end()));
        ensure!(
            block.output.is_some(),
            "the page does not show what {command} prints"
        );
        let program: Vec<_> = command.split_whitespace().take(2).collect();
        let program = program.join(" ");
        if self.running.contains_key(&program) {
            self.interrupt(&program).await?;
        }
        let said = format!("{}.out", program.replace(' ', "-"));
        let script = format!("{BEFORE}{before}\nexec {command} >{said} 2>&1\n");
        let file = self.shell.folder().join("terminal.sh");
        fs::write(&file, script).with_context(|| format!("failed to write {}", file.display()))?;
        let said = self.shell.folder().join(said);
        // What an earlier command has printed there is not of this one.
        fs::write(&said, "").with_context(|| format!("failed to write {}", said.display()))?;
        // The shell of the script becomes the command.
        let mut started = self.shell.start("bash -eu terminal.sh")?;
        let what = format!("{command} to print what the page shows");
        until(&what, LIMIT, async || {
            let printed = fs::read_to_string(&said).unwrap_or_default();
            started.still_runs().with_context(|| printed.clone())?;
            Ok(match page::difference(block, &printed) {
                None => Look::Done(()),
                Some(difference) => Look::NotYet(difference),
            })
        })
        .await?;
        self.running.insert(program, started);
        Ok(())
    }
}
