//! `nephele runtime lint`.

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use nephele_runtime_sdk::{
    catalog::{Catalog, Release},
    client::{
        Client, ClientConfig, DiscoverCause, Discovered, DiscoveryProblem, InvalidDiscovery, UnknownHooks,
    },
    wire::Bytes,
};

/// The longest timeout of a handler that the Runtime SDK's proposal allows.
const TIMEOUT_ADVISED_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Args)]
pub(crate) struct LintArgs {
    /// URL of the extension: https://host[:port][/path].
    #[arg(value_name = "URL")]
    url: String,
    /// PEM file with the authorities of its certificate [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Release of Cluster API that has to accept it, 1.10 or later; repeatable.
    #[arg(long = "release", value_name = "RELEASE", default_values_t = [Release::LATEST])]
    releases: Vec<Release>,
}

/// Prints each release's verdict on the extension. Fails when a release refuses it.
pub(crate) async fn run(args: LintArgs) -> anyhow::Result<ExitCode> {
    let authorities = |file: &PathBuf| {
        fs::read(file).with_context(|| format!("failed to read authorities from {}", file.display()))
    };
    let ca_bundle = Bytes(args.ca.as_ref().map(authorities).transpose()?.unwrap_or_default());
    let config = ClientConfig {
        url: args.url.clone(),
        ca_bundle,
        ..ClientConfig::default()
    };
    let mut code = ExitCode::SUCCESS;
    for release in args.releases {
        let client = Client::builder(Catalog::cluster_api_at(release)).build();
        let found = match client.discover(&args.url, &config, UnknownHooks::Refuse).await {
            Ok(discovered) => Ok(discovered),
            Err(error) => match error.cause {
                DiscoverCause::Invalid(InvalidDiscovery(problems)) => Err(problems),
                // This error does not depend on the release.
                cause => return Err(cause).with_context(|| format!("failed to ask {}", args.url)),
            },
        };
        if found.is_err() {
            code = ExitCode::FAILURE;
        }
        print!("{}", report(release, &found));
    }
    Ok(code)
}

/// A release's verdict on an extension, in lines.
fn report(release: Release, found: &Result<Discovered, Vec<DiscoveryProblem>>) -> String {
    let lines: Vec<String> = match found {
        Ok(Discovered { handlers, .. }) => {
            let mut lines = vec![format!(
                "Cluster API {release} takes it, with {} handlers",
                handlers.len()
            )];
            for handler in handlers {
                let advice = match handler.timeout > TIMEOUT_ADVISED_MAX {
                    true => " (longer than the 10s that the proposal allows)",
                    false => "",
                };
                let name = &handler.name;
                let hook = &handler.hook.hook;
                let timeout = handler.timeout.as_secs();
                lines.push(format!("  {name}: {hook}, {timeout}s{advice}"));
            }
            lines
        }
        Err(problems) => {
            let mut lines = vec![format!("Cluster API {release} refuses it as a whole:")];
            lines.extend(problems.iter().map(|problem| format!("  {problem}")));
            lines
        }
    };
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use nephele_runtime_sdk::{
        client::validate,
        hooks::{
            BeforeClusterCreate, DiscoveryResponse, ExtensionHandler, GroupVersionHook, Hook, UpdateMachine,
        },
    };

    use super::*;

    fn handler(name: &str, hook: GroupVersionHook, timeout_seconds: Option<i32>) -> ExtensionHandler {
        ExtensionHandler {
            name: name.into(),
            request_hook: hook,
            timeout_seconds,
            ..ExtensionHandler::default()
        }
    }

    fn reported(release: Release) -> String {
        let response = DiscoveryResponse {
            handlers: vec![
                handler("update", (&UpdateMachine::id()).into(), None),
                handler("create", (&BeforeClusterCreate::id()).into(), Some(20)),
            ],
            ..DiscoveryResponse::default()
        };
        let judged = validate(&response, &Catalog::cluster_api_at(release), UnknownHooks::Refuse);
        report(release, &judged.map_err(|InvalidDiscovery(problems)| problems))
    }

    #[test]
    fn each_release_is_told_what_it_would_refuse() {
        let taken = "Cluster API 1.14 takes it, with 2 handlers\n  \
                     create: BeforeClusterCreate, 20s (longer than the 10s that the proposal allows)\n  \
                     update: UpdateMachine, 10s\n";
        assert_eq!(reported(Release::LATEST), taken);
        let refused = "Cluster API 1.11 refuses it as a whole:\n  requestHook \
                       hooks.runtime.cluster.x-k8s.io/v1alpha1/UpdateMachine of handler \"update\" is not in the \
                       Runtime SDK catalog\n";
        assert_eq!(reported(Release::new(11)), refused);
    }
}
