//! The terminals of a person who plays pages of the book: blocks are done in their order, a command that runs on has a terminal
//! of its own, and the variables of a block are there in those after it, also in another terminal.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context as _, ensure};

use crate::{
    Look,
    page::{self, Block, Kind},
    shell::{Shell, Started},
    until,
    wait::LIMIT,
};

/// The file with the variables of the blocks before, in the folder of the shell, without those that no shell lets others set.
const VARIABLES: &str = "variables";

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
        // Those of another page stay with it.
        drop(fs::remove_file(shell.folder().join(VARIABLES)));
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
                let text = self.in_namespace(block.text);
                // A shell with `-e` does not end at a failure in a condition, so the success has to be told.
                let text = match fails {
                    true => format!("if {{ {text}}}; then echo 'no error' >&2; exit 1; fi"),
                    false => text,
                };
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

    /// Ends all commands that run on, as Ctrl-C does.
    ///
    /// # Errors
    ///
    /// When one does not end, or not with success.
    pub async fn finish(&mut self) -> anyhow::Result<()> {
        for program in self.running.keys().cloned().collect::<Vec<_>>() {
            // kubectl ends a port-forward with the status of the signal.
            match program.starts_with("nephele ") {
                true => self.interrupt(&program).await?,
                false => drop(self.running.remove(&program)),
            }
        }
        Ok(())
    }

    /// Fails when a command that runs on has printed something else than a block shows.
    ///
    /// # Errors
    ///
    /// With the difference, or when it was never started in this folder.
    pub fn compare(&self, block: &Block<'_>, program: &str) -> anyhow::Result<()> {
        let said = self.said(program);
        let printed =
            fs::read_to_string(&said).with_context(|| format!("failed to read {}", said.display()))?;
        let difference = page::difference(block, &self.as_in_a_page(&printed));
        ensure!(difference.is_none(), "{}", difference.unwrap_or_default());
        Ok(())
    }

    /// The file with what a command that runs on prints.
    fn said(&self, program: &str) -> PathBuf {
        let name: String = program
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '-'
                }
            })
            .collect();
        self.shell.folder().join(format!("{name}.out"))
    }

    /// Runs commands to their end, and returns what a person reads who does so in the namespace `default`.
    async fn done(&self, commands: &str) -> anyhow::Result<String> {
        let after = format!(
            "declare -p | grep -v '^declare -[a-zA-Z]*r' >'{}'",
            self.variables()
        );
        let printed = self
            .shell
            .show(&format!("{}{commands}\n{after}", self.before()))
            .await?;
        Ok(self.as_in_a_page(&printed))
    }

    /// The variables of the blocks before.
    fn before(&self) -> String {
        let file = self.variables();
        format!("if [ -f '{file}' ]; then . '{file}'; fi\n")
    }

    fn variables(&self) -> String {
        self.shell.folder().join(VARIABLES).display().to_string()
    }

    /// Commands of a page with the namespace of these terminals.
    fn in_namespace(&self, commands: &str) -> String {
        commands.replace(" namespace default", &format!(" namespace {}", self.namespace))
    }

    /// What a person reads who does the same in a home folder and in the namespace `default`.
    fn as_in_a_page(&self, printed: &str) -> String {
        let folder = self.shell.folder().display().to_string();
        printed.replace(&folder, HOME).replace(self.namespace, "default")
    }

    /// Starts a command that runs on, and waits until it has printed what the page shows. As in one terminal, the same command with
    /// other arguments ends first.
    async fn start(&mut self, block: &Block<'_>) -> anyhow::Result<()> {
        let text = self.in_namespace(block.text);
        let (before, command) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
        ensure!(
            block.output.is_some(),
            "the page does not show what {command} prints"
        );
        // Of our programs, one is started again with other arguments.
        let words = if command.starts_with("nephele ") {
            2
        } else {
            usize::MAX
        };
        let program: Vec<_> = command.split_whitespace().take(words).collect();
        let program = program.join(" ");
        if self.running.contains_key(&program) {
            self.interrupt(&program).await?;
        }
        let said = self.said(&program);
        let script = format!(
            "{}{before}\nexec {command} >'{}' 2>&1\n",
            self.before(),
            said.display()
        );
        let file = self.shell.folder().join("terminal.sh");
        fs::write(&file, script).with_context(|| format!("failed to write {}", file.display()))?;
        // What an earlier command has printed there is not of this one.
        fs::write(&said, "").with_context(|| format!("failed to write {}", said.display()))?;
        // The shell of the script becomes the command.
        let mut started = self.shell.start("bash -eu terminal.sh")?;
        let what = format!("{command} to print what the page shows");
        until(&what, LIMIT, async || {
            let has_ended = started.still_runs().err();
            let printed = self.as_in_a_page(&fs::read_to_string(&said).unwrap_or_default());
            Ok(match (page::difference(block, &printed), has_ended) {
                (_, Some(ended)) => Look::Failed(format!("{ended}: {printed}")),
                (None, None) => Look::Done(()),
                (Some(difference), None) => Look::NotYet(difference),
            })
        })
        .await?;
        self.running.insert(program, started);
        Ok(())
    }
}
