//! `nephele runtime openapi`.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use clap::Args;
use nephele_runtime_sdk::{
    catalog::{Catalog, Release},
    openapi::{Info, document},
};
use serde_json::Value;

use crate::output::print;

#[derive(Debug, Clone, Args)]
pub(crate) struct OpenapiArgs {
    /// Release of Cluster API, 1.10 or later.
    #[arg(long, value_name = "RELEASE", default_value_t = Release::LATEST)]
    release: Release,
    /// The hooks of the simulated cloud instead, for extensions that a CloudExtensionConfig registers.
    #[arg(long, conflicts_with = "release")]
    cloud: bool,
}

/// Prints the document.
pub(crate) fn run(args: &OpenapiArgs) -> anyhow::Result<ExitCode> {
    let document = if args.cloud {
        of(nephele_machine_hooks::catalog())
    } else {
        of_release(args.release)
    };
    let mut text = serde_json::to_string_pretty(&document).context("failed to write JSON")?;
    text.push('\n');
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn of_release(release: Release) -> Value {
    of(Catalog::cluster_api_at(release))
}

fn of(catalog: Catalog) -> Value {
    document(&BTreeMap::from([(String::new(), catalog)]), &Info::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_hooks_of_the_release() {
        let paths = |release| of_release(release)["paths"].as_object().expect("paths").len();
        // Discovery and nine other hooks before 1.12, seven more since.
        assert_eq!((paths(Release::FIRST), paths(Release::LATEST)), (10, 17));
    }

    #[test]
    fn the_hooks_of_the_cloud_are_described_too() {
        let document = of(nephele_machine_hooks::catalog());
        let paths: Vec<_> = document["paths"].as_object().expect("paths").keys().collect();
        assert_eq!(
            paths,
            [
                "/hooks.nephele.dev/v1alpha1/aftermachinedelete/{name}",
                "/hooks.nephele.dev/v1alpha1/beforemachinecreate/{name}",
                "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery",
            ]
        );
        let instance = &document["components"]["schemas"];
        assert!(
            instance
                .as_object()
                .is_some_and(|schemas| schemas.keys().any(|name| name.ends_with("Instance")))
        );
    }
}
