//! `nephele scenario rerun`: deletes a Scenario, and creates it again as it was.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use kube::{Api, ResourceExt as _};
use nephele_api::cloud::v1alpha1::Scenario;
use nephele_scenario::again;
use tokio_util::sync::CancellationToken;

use super::{
    run::{FollowArgs, create, follow_to_end},
    stop::{delete, read},
};
use crate::{access::AccessArgs, output::print};

pub(super) const AFTER_HELP: &str = "\
A scenario that still runs begins again. The cluster stays as the last run has left it.

Examples:
  nephele scenario rerun quota
  nephele scenario rerun quota --junit report.xml";

/// Which scenario, and what to do with it.
#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The name of the Scenario.
    name: String,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Runs the Scenario again, and follows it until it is over.
pub(super) async fn run(args: RerunArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let RerunArgs { name, access, follow } = args;
    let access = access.open().await?;
    let api: Api<Scenario> = Api::namespaced(access.client, &access.namespace);
    let former = read(&api, &access.namespace, &name).await?;
    let wanted = again(&former);
    delete(&api, &former).await?;
    if let Err(error) = create(&api, &access.namespace, &wanted).await {
        // It exists nowhere else now.
        let text = serde_yaml_ng::to_string(&wanted).context("failed to write the Scenario")?;
        print(&text)?;
        return Err(error.context(format!(
            "Scenario {}/{name} is deleted, and is not created again; create it from what is printed",
            access.namespace
        )));
    }
    follow_to_end(&api, &wanted.name_any(), follow, shutdown).await
}
