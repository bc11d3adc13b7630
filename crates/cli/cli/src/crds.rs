//! `nephele crds`.

use std::process::ExitCode;

use anyhow::Context;

use crate::output::print;

/// Prints the custom resource definitions, one YAML document each.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    print(&yaml()?)?;
    Ok(ExitCode::SUCCESS)
}

/// The custom resource definitions as YAML documents.
pub(crate) fn yaml() -> anyhow::Result<String> {
    let mut text = String::new();
    for definition in nephele_api::crds() {
        let document = serde_yaml_ng::to_string(&definition)
            .with_context(|| format!("failed to write {:?} as YAML", definition.metadata.name))?;
        text.push_str("---\n");
        text.push_str(&document);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use serde::Deserialize;

    use super::*;

    #[test]
    fn the_documents_read_back_as_the_definitions() {
        let text = yaml().expect("printable");
        let read: Vec<CustomResourceDefinition> = serde_yaml_ng::Deserializer::from_str(&text)
            .map(|document| CustomResourceDefinition::deserialize(document).expect("a definition"))
            .collect();
        assert_eq!(read, nephele_api::crds());
    }
}
