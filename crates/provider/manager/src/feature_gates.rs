/// The known feature gates. There are no features yet, so these are only the gates of all features of a stage, as in
/// Kubernetes' components (k8s.io/component-base, `featuregate`).
const KNOWN: [&str; 2] = ["AllAlpha", "AllBeta"];

/// Why the feature gates are invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FeatureGateError {
    /// No feature has this name.
    #[error("unknown feature gate {0:?}; known: {known}", known = KNOWN.join(", "))]
    Unknown(String),
    /// Not `Name=true` or `Name=false`.
    #[error("failed to read feature gate {0:?} as Name=true or Name=false")]
    Malformed(String),
}

/// Checks feature gates such as `Name=true,Other=false`. Tools that install providers set the flag for each of them.
/// Nothing depends on the values.
pub(crate) fn check(text: &str) -> Result<(), FeatureGateError> {
    for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
        match gate.split_once('=') {
            Some((name, "true" | "false")) if KNOWN.contains(&name) => {}
            Some((name, "true" | "false")) => return Err(FeatureGateError::Unknown(name.to_owned())),
            _ => return Err(FeatureGateError::Malformed(gate.to_owned())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_malformed_gates_are_refused_by_name() {
        for (text, expected) in [
            ("", Ok(())),
            ("AllAlpha=true", Ok(())),
            ("AllAlpha=true,AllBeta=false", Ok(())),
            ("Nonsense=true", Err(FeatureGateError::Unknown("Nonsense".into()))),
            ("AllAlpha", Err(FeatureGateError::Malformed("AllAlpha".into()))),
            (
                "AllAlpha=yes",
                Err(FeatureGateError::Malformed("AllAlpha=yes".into())),
            ),
        ] {
            assert_eq!(check(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_message_names_the_gates_that_exist() {
        let message = FeatureGateError::Unknown("Nonsense".into()).to_string();
        assert_eq!(
            message,
            r#"unknown feature gate "Nonsense"; known: AllAlpha, AllBeta"#
        );
    }
}
