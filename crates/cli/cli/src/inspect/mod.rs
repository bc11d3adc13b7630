//! `nephele get` and `nephele describe`: the objects of a management cluster, with what belongs together side by side.
//!
//! ```text
//!  management cluster ──read──▶ objects ──rows──▶ table ──output──▶ text
//!                                  └──describe─▶ sections ─────────▶ text
//! ```
//!
//! Only `read` sends requests. All else is pure.

mod describe;
mod found;
mod listing;
mod output;
mod read;
mod resource;
mod rows;
mod text;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use listing::Listing;
use output::Format;
use read::Reader;
use resource::Resource;
use tokio_util::sync::CancellationToken;

use crate::{access::AccessArgs, output::print};

/// The flags of `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The kind of objects.
    #[arg(value_enum)]
    resource: Resource,
    /// Only the object of this name.
    name: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
    /// Objects of all namespaces.
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "name"])]
    all_namespaces: bool,
    /// How to print them.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// The flags of `describe`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The kind of objects.
    #[arg(value_enum)]
    resource: Resource,
    /// Which one.
    name: String,
    #[command(flatten)]
    access: AccessArgs,
}

/// Prints a list of objects, or one.
pub(crate) async fn get(args: GetArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let GetArgs {
        resource,
        name,
        access,
        all_namespaces,
        output,
    } = args;
    let printed = shutdown.run_until_cancelled(async {
        let access = access.open().await?;
        let scope = (!all_namespaces).then(|| access.namespace.clone());
        let reader = Reader::new(access, scope);
        let found = reader.find(resource, name.as_deref()).await?;
        let listing = match output {
            Format::Table | Format::Wide => {
                rows::listing(&found, &reader.surroundings(resource).await?, Timestamp::now())
            }
            Format::Json | Format::Yaml | Format::Name => Listing::default(),
        };
        let text = output::render(output, &found, &listing, all_namespaces, name.is_some());
        if found.objects.is_empty() {
            eprintln!("{}", reader.nothing(resource));
        }
        print(&text.context("failed to write the objects")?)
    });
    printed.await.unwrap_or(Ok(())).map(|()| ExitCode::SUCCESS)
}

/// Prints everything about one object.
pub(crate) async fn describe(args: DescribeArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let DescribeArgs {
        resource,
        name,
        access,
    } = args;
    let printed = shutdown.run_until_cancelled(async {
        let access = access.open().await?;
        let scope = Some(access.namespace.clone());
        let reader = Reader::new(access, scope);
        let found = reader.find(resource, Some(&name)).await?;
        let surroundings = reader.surroundings(resource).await?;
        let related = describe::related(&found, &surroundings);
        let events = reader.events(&related).await?;
        print(&describe::text(
            &found,
            &surroundings,
            &related,
            &events,
            Timestamp::now(),
        ))
    });
    printed.await.unwrap_or(Ok(())).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
