//! `cargo xtask installed`: our providers as people install them, with clusterctl from release folders, as pods on a
//! real cluster. They replace the providers of the other tests.
//!
//! ```text
//!  repository/infrastructure-in-memory/v0.1.0 ─init─▶ cluster ─upgrade─▶ …/v0.1.1
//! ```

use std::{ffi::OsString, fs, path::Path};

use anyhow::Context;
use serde_json::{Value, json};

use crate::{
    cluster::{Layout, Repository},
    files::write,
    paths,
    provider::{self, Profile},
    release,
    target::{Changing, Target},
};

/// Our providers for clusterctl: name, type, label, components file.
const PROVIDERS: [(&str, &str, &str, &str); 2] = [
    (
        "in-memory",
        "InfrastructureProvider",
        release::LABEL,
        release::COMPONENTS,
    ),
    (
        "in-cluster",
        "IPAMProvider",
        release::IPAM_LABEL,
        release::IPAM_COMPONENTS,
    ),
];

/// The tests that run only when a filter begins with their name, because they take long.
const ASKED_FOR: &str = "takeovers";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Run only tests whose names contain this. With takeovers, the leader changes in each way while Faults are in force,
    /// and NEPHELE_CLUSTERS clusters are asked ten times a second.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.target
        .work(Profile::Dev, |changing| test(changing, args.filter.as_deref()))
}

/// Runs the tests whose names contain the filter.
pub(crate) fn test(changing: &Changing<'_>, filter: Option<&str>) -> anyhow::Result<()> {
    changing.emptied(|emptied| {
        if emptied.is_our_own() {
            provider::check_image_for_arm64()?;
        }
        let folder = paths::cache()?.join("releases");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("failed to remove former releases")?;
        }
        let next = next(release::VERSION)?;
        for version in [release::VERSION, &next] {
            release::lay_out(&folder, version, &emptied.image)?;
        }
        let of_others = emptied
            .is_our_own()
            .then(|| Layout::new().map(|it| Repository::config_file(&it)));
        let config = folder.join("clusterctl.yaml");
        write(
            &config,
            configuration(of_others.transpose()?.as_deref(), &folder)?,
        )?;
        let releases = OsString::from(format!("{} {next}", release::VERSION));
        let mut variables = vec![
            ("NEPHELE_E2E_CLUSTERCTL_CONFIG", config.into_os_string()),
            ("NEPHELE_E2E_RELEASES", releases),
        ];
        // On an existing cluster it is not known how nodes get an image of the program.
        let asked_for = filter.is_some_and(|filter| filter.starts_with(ASKED_FOR));
        let group = if asked_for {
            ASKED_FOR
        } else if emptied.program().is_some() {
            "installed"
        } else {
            "installed::life"
        };
        if let Some(program) = emptied.program() {
            let program = std::path::absolute(program).context("failed to find our program")?;
            variables.push(("NEPHELE_PROGRAM", program.into_os_string()));
            let socket = Layout::new()?.containerd_socket();
            variables.push(("NEPHELE_E2E_CONTAINERD", socket.into_os_string()));
        }
        emptied.run_tests(group, filter, None, &variables)
    })
}

/// The next patch version.
fn next(version: &str) -> anyhow::Result<String> {
    let (series, patch) = version.rsplit_once('.').context("a version has three parts")?;
    Ok(format!(
        "{series}.{}",
        patch.parse::<u32>().context("a version is of numbers")? + 1
    ))
}

/// clusterctl's configuration: other providers as configured for the cluster, ours from the releases, and none of our
/// variables, so that all have their defaults.
fn configuration(of_others: Option<&Path>, releases: &Path) -> anyhow::Result<String> {
    let mut config = match of_others {
        Some(file) => {
            let text =
                fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
            serde_yaml_ng::from_str(&text).with_context(|| format!("failed to read {}", file.display()))?
        }
        None => json!({}),
    };
    let entries = config.as_object_mut().context("a configuration has entries")?;
    entries.retain(|name, _| !name.starts_with("NEPHELE_"));
    let providers = entries.entry("providers").or_insert_with(|| json!([]));
    let providers = providers.as_array_mut().context("providers are a list")?;
    let is_ours = |provider: &Value| PROVIDERS.iter().any(|(name, ..)| provider["name"] == *name);
    providers.retain(|provider| !is_ours(provider));
    for (name, kind, label, file) in PROVIDERS {
        let url = releases.join(label).join(release::VERSION).join(file);
        providers.push(json!({"name": name, "type": kind, "url": url}));
    }
    serde_yaml_ng::to_string(&config).context("failed to write clusterctl's configuration")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_release_is_a_patch_later() {
        assert_eq!(next("v0.1.9").expect("a version"), "v0.1.10");
        assert!(next("v0.1.0-rc").is_err());
    }

    #[test]
    fn ours_come_from_the_releases_and_no_variable_is_set() {
        let folder = std::env::temp_dir().join(format!("nephele-installed-{}", std::process::id()));
        let file = folder.join("clusterctl.yaml");
        let theirs = json!({
            "cert-manager": {"version": "v1"}, "NEPHELE_ADVERTISE_HOST": "x",
            "providers": [{"name": "kubeadm", "url": "/k"}, {"name": "in-memory", "url": "/elsewhere"}],
        });
        write(&file, theirs.to_string()).expect("written");
        let config = configuration(Some(&file), Path::new("/r")).expect("made");
        fs::remove_dir_all(&folder).expect("removed");
        let config: Value = serde_yaml_ng::from_str(&config).expect("YAML");
        let version = release::VERSION;
        let expected = json!({
            "cert-manager": {"version": "v1"},
            "providers": [
                {"name": "kubeadm", "url": "/k"},
                {
                    "name": "in-memory", "type": "InfrastructureProvider",
                    "url": format!("/r/infrastructure-in-memory/{version}/infrastructure-components.yaml"),
                },
                {
                    "name": "in-cluster", "type": "IPAMProvider",
                    "url": format!("/r/ipam-in-cluster/{version}/ipam-components.yaml"),
                },
            ],
        });
        assert_eq!(config, expected);
    }
}
