//! `nephele components`: everything the provider consists of, in the one file that clusterctl installs.
//!
//! The objects are those of `config/`, where they can be read and kustomized. clusterctl's rules for the file are in
//! cluster-api, docs/book/src/developer/providers/contracts/clusterctl.md.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;

/// Custom resource definitions first: objects are created in the order of the file.
const DEFINITIONS: [&str; 4] = [
    include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemoryclusters.yaml"),
    include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemoryclustertemplates.yaml"),
    include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachines.yaml"),
    include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachinetemplates.yaml"),
];
const NAMESPACE: &str = include_str!("../../../../config/default/namespace.yaml");
const OBJECTS: [&str; 5] = [
    include_str!("../../../../config/rbac/service_account.yaml"),
    include_str!("../../../../config/rbac/role.yaml"),
    include_str!("../../../../config/rbac/leader_election_role.yaml"),
    include_str!("../../../../config/rbac/metrics_reader_role.yaml"),
    include_str!("../../../../config/manager/manager.yaml"),
];

/// The image in `config/manager/manager.yaml`.
const IMAGE: &str = concat!("ghcr.io/nephele-dev/nephele:v", env!("CARGO_PKG_VERSION"));

/// What to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct ComponentsArgs {
    /// The manager's image, with registry and tag: clusterctl takes no shorter form.
    #[arg(long, default_value = IMAGE)]
    image: String,
}

/// Prints the components.
pub(crate) fn run(args: &ComponentsArgs) -> anyhow::Result<ExitCode> {
    match io::stdout().lock().write_all(render(args).as_bytes()) {
        // The reader has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written.map(|()| ExitCode::SUCCESS).context("failed to print the components"),
    }
}

/// The components as YAML documents.
pub(crate) fn render(args: &ComponentsArgs) -> String {
    // clusterctl expands variables in the whole file; in a definition `$` only ever stands for itself.
    let definitions = DEFINITIONS.map(|definition| definition.replace('$', "$$"));
    let documents = std::iter::once(NAMESPACE.to_owned())
        .chain(definitions)
        .chain(OBJECTS.map(|object| object.replace(IMAGE, &args.image)));
    documents.map(|document| format!("---\n{document}")).collect()
}

#[cfg(test)]
mod tests;
