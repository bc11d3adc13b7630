//! `cargo xtask chart`: renders the Helm chart with many values and checks the result.
//!
//! ```text
//!  types, config/ ──codegen──▶ files/ ─┐
//!  cases: values and what they give ───┼─helm template─▶ facts that always hold, also about the notes
//!                                      │                 what the case expects
//!  refusals: values that do not fit ───┘                 the same objects as `nephele components`
//! ```
//!
//! Needs no cluster. The flags are checked with the program itself.

mod agreement;
mod alerts;
mod cases;
pub(crate) mod cluster;
mod facts;
mod files;
mod flags;
mod flavors;
mod helm;
mod notes;
mod object;
mod refusals;
mod schema;
mod table;

use std::path::PathBuf;

use anyhow::{Context, bail};

use self::flags::Program;
pub(crate) use self::{
    files::{FOLDERS, generated},
    helm::Helm,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check flags with this program, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Then pack the chart into this folder.
    #[arg(long, value_name = "DIR")]
    package: Option<PathBuf>,
    /// Only print the rendered chart, for this namespace.
    #[arg(long, value_name = "NAMESPACE", conflicts_with_all = ["program", "package"])]
    render: Option<String>,
    /// The values for that, as JSON.
    #[arg(long, value_name = "JSON", requires = "render", default_value = "{}")]
    values: String,
}

/// Runs every check and reports all failures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let helm = Helm::new()?;
    if let Some(namespace) = &args.render {
        print!("{}", helm.template(helm::RELEASE, namespace, &[], &args.values)?);
        return Ok(());
    }
    let program = Program::new(args.program.as_deref())?;
    let mut failed = Vec::new();
    let mut checked = 0;
    let mut check = |name: String, result: anyhow::Result<()>| {
        checked += 1;
        if let Err(error) = result {
            eprintln!("{name}: {error:#}");
            failed.push(name);
        }
    };
    let templates = flavors::all()?;
    for case in cases::CASES {
        check(
            format!("case {:?}", case.name),
            case.check(&helm, &program, &templates),
        );
    }
    for refusal in refusals::REFUSALS {
        check(format!("refusal {:?}", refusal.because), refusal.check(&helm));
    }
    check("wrong types".to_owned(), refusals::wrong_types(&helm));
    check(
        "versions of Kubernetes".to_owned(),
        refusals::old_kubernetes(&helm),
    );
    check(
        "agreement with clusterctl's components".to_owned(),
        agreement::check(&helm, &program),
    );
    println!("{checked} checks of the chart, {} failed", failed.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    if let Some(folder) = &args.package {
        let said = helm.package(folder).context("failed to pack the chart")?;
        print!("{said}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{definitions::definitions, paths};

    fn chart() -> serde_json::Value {
        let path = paths::repository().join(paths::CHART).join("Chart.yaml");
        let text = fs::read_to_string(path).expect("readable");
        serde_yaml_ng::from_str(&text).expect("YAML")
    }

    #[test]
    fn artifact_hub_shows_every_kind() {
        let chart = chart();
        let listed = chart["annotations"]["artifacthub.io/crds"]
            .as_str()
            .expect("text");
        let listed: Vec<serde_json::Value> = serde_yaml_ng::from_str(listed).expect("YAML");
        let expected: Vec<_> = definitions()
            .map(|definition| {
                let kind = definition.spec.names.kind;
                let version = definition.spec.versions.into_iter().find(|version| version.storage);
                let version = version.expect("one is stored");
                let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
                let description = schema.and_then(|schema| schema.description).expect("a description");
                let first = description.split(". ").next().unwrap_or_default().trim_end_matches('.');
                serde_json::json!({
                    "kind": kind, "version": version.name, "name": definition.metadata.name, "displayName": kind,
                    "description": format!("{first}."),
                })
            })
            .collect();
        let sorted = |mut kinds: Vec<serde_json::Value>| {
            kinds.sort_by_key(|kind| kind["name"].to_string());
            kinds
        };
        assert_eq!(sorted(listed), sorted(expected));
    }

    #[test]
    fn the_chart_has_the_version_of_the_workspace() {
        let chart = chart();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            (chart["version"].as_str(), chart["appVersion"].as_str()),
            (Some(version), Some(version))
        );
        let images = chart["annotations"]["artifacthub.io/images"]
            .as_str()
            .expect("text");
        assert!(
            images.contains(&format!("image: {}\n", nephele_components::IMAGE)),
            "{images}"
        );
    }
}
