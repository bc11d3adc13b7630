//! `nephele doctor`: checks a management cluster and prints fixes.
//!
//! ```text
//!  management cluster ──fetch──▶ Snapshot (plain values) ──checks (pure)──▶ findings ──▶ text, exit code
//! ```

mod checks;
mod fetch;
mod snapshot;

use std::process::ExitCode;

use jiff::Timestamp;

use crate::{access::TargetArgs, install::management::Management};

/// The flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
}

/// Looks, and prints a line for each problem and its mend. Fails if there is one.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let management = Management::open(&args.target).await?;
    let snapshot = fetch::snapshot(&management, Timestamp::now()).await?;
    for checks::Finding { problem, mend } in checks::notes(&snapshot) {
        println!("! {problem}\n  {mend}.");
    }
    let findings = checks::findings(&snapshot);
    for checks::Finding { problem, mend } in &findings {
        println!("✗ {problem}\n  {mend}.");
    }
    if findings.is_empty() {
        println!("✓ Nothing is wrong with this management cluster.");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
