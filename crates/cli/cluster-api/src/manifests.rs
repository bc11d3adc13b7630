//! The components of providers: files such as `core-components.yaml`, which `clusterctl` installs.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};
use nephele_yaml::{Bounds, Dialect};
use serde_json::Value;

/// A release of Cluster API has files of about a megabyte, and definitions nest some forty levels deep.
const BOUNDS: Bounds = Bounds {
    text: 64 << 20,
    memory: 1 << 30,
    depth: 128,
    dialect: Dialect::Go,
};

/// Cert-manager's kinds. Certificates are files here.
const CERTIFICATES: &str = "cert-manager.io/";

/// What files of providers hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Components {
    pub(crate) objects: Vec<Value>,
    /// Each of them becomes a process.
    pub(crate) deployments: Vec<Value>,
}

/// Reads the files of providers. A variable, as in `${CLUSTER_TOPOLOGY:=false}`, has the value that `variable` returns, or
/// else its default.
///
/// # Errors
/// When a file cannot be read, is not YAML, or has a variable without a value.
pub fn read(files: &[PathBuf], variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Components> {
    let mut components = Components::default();
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
        let before = components.deployments.len();
        components
            .add(&text, variable)
            .with_context(|| format!("failed to take the components in {}", file.display()))?;
        if components.deployments.len() == before {
            bail!(
                "{} has no Deployment: it is not a file of components",
                file.display()
            );
        }
    }
    Ok(components)
}

impl Components {
    fn add(&mut self, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<()> {
        let expanded = expand(text, variable)?;
        for (_, object) in nephele_yaml::read_all(&expanded, &BOUNDS)? {
            let is_certificate = object["apiVersion"]
                .as_str()
                .is_some_and(|version| version.starts_with(CERTIFICATES));
            match object["kind"].as_str() {
                Some("Deployment") => self.deployments.push(object),
                Some(_) if !is_certificate => self.objects.push(object),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The text with values for its variables, as clusterctl expands them: a `$` that begins none is a `$`, as in patterns of
/// definitions.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) {
            let (name, default) = match name.split_once([':', '=', '-']) {
                Some((name, default)) => (name, Some(default.trim_start_matches(['=', '-']))),
                None => (name, None),
            };
            let value = variable(name).or_else(|| default.map(str::to_owned));
            expanded.push_str(&value.with_context(|| {
                format!("{name} has neither a value nor a default; set the environment variable")
            })?);
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_expanded_and_other_dollars_stay() {
        let variable = |name: &str| (name == "SET").then(|| "x".to_owned());
        for (text, expected) in [
            (
                "${SET} ${SET:=d} ${OTHER:=d} ${OTHER:=:8443}",
                Some("x x d :8443"),
            ),
            ("${OTHER:-d} ${OTHER=d} ${OTHER-d} ${OTHER:=}", Some("d d d ")),
            ("pattern: ^a$ '^b$' $$ $(C)", Some("pattern: ^a$ '^b$' $ $(C)")),
            ("${OTHER}", None),
        ] {
            assert_eq!(expand(text, &variable).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_file_without_a_deployment_is_named_also_beside_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let [with, without] = ["with.yaml", "without.yaml"].map(|name| folder.path().join(name));
        fs::write(&with, "kind: Deployment\n").expect("written");
        fs::write(&without, "kind: ConfigMap\n").expect("written");
        assert!(read(std::slice::from_ref(&with), &|_| None).is_ok());
        let error = read(&[with, without.clone()], &|_| None).expect_err("no Deployment");
        assert_eq!(
            error.to_string(),
            format!(
                "{} has no Deployment: it is not a file of components",
                without.display()
            )
        );
    }

    #[test]
    fn deployments_become_processes_and_certificates_nothing() {
        let mut components = Components::default();
        let text = "kind: Deployment\napiVersion: apps/v1\n---\nkind: Issuer\napiVersion: cert-manager.io/v1\n---\n\
                    kind: Service\napiVersion: v1\n";
        components.add(text, &|_| None).expect("components");
        let expected = Components {
            objects: vec![json!({"kind": "Service", "apiVersion": "v1"})],
            deployments: vec![json!({"kind": "Deployment", "apiVersion": "apps/v1"})],
        };
        assert_eq!(components, expected);
    }
}
