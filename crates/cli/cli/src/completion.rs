//! `nephele completion` and `nephele manual`: shell completions and man pages, from the declarations of the flags.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::print;

/// The flags of `nephele completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell that completes.
    #[arg(value_enum)]
    shell: Shell,
}

/// What the flags do not say.
pub(crate) const AFTER_HELP: &str = "\
For this session: source <(nephele completion bash). Packages install the text where the shell looks for it, for example \
in /usr/share/bash-completion/completions/nephele.";

/// Prints the completions of a shell.
pub(crate) fn run(args: &CompletionArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "nephele", &mut text);
    print(&String::from_utf8(text).context("failed to write the completions as text")?)?;
    Ok(ExitCode::SUCCESS)
}

/// The flags of `nephele manual`.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// The folder for the man pages.
    folder: PathBuf,
}

/// Writes a man page for each command.
pub(crate) fn write_manual(args: &ManualArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    fs::create_dir_all(&args.folder)
        .with_context(|| format!("failed to create {}", args.folder.display()))?;
    // The names of subcommands contain those of the commands above them only then.
    command.build();
    write_page(&command, &args.folder)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and its subcommands. Their depth is that of the declarations.
fn write_page(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .render(&mut page)
        .context("failed to write a man page")?;
    fs::write(&path, page).with_context(|| format!("failed to write {}", path.display()))?;
    command
        .get_subcommands()
        .filter(is_shown)
        .try_for_each(|subcommand| write_page(subcommand, folder))
}

/// Whether documents have the command.
pub(crate) fn is_shown(command: &&Command) -> bool {
    command.get_name() != "help" && !command.is_hide_set()
}
