use std::{collections::BTreeMap, str::FromStr};

/// The features that can be switched, each off unless named. None so far.
const KNOWN: [&str; 0] = [];
/// Switch all features of a stage (k8s.io/component-base, `featuregate`).
const STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// Features switched on or off, as `Name=true,Other=false`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureGates {
    switched: BTreeMap<String, bool>,
}

/// Why the feature gates cannot be taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FeatureGateError {
    /// No feature has this name.
    #[error("unknown feature gate {0:?}; known: {known}", known = known())]
    Unknown(String),
    /// Not `Name=true` or `Name=false`.
    #[error("failed to read feature gate {0:?} as Name=true or Name=false")]
    Malformed(String),
}

impl FromStr for FeatureGates {
    type Err = FeatureGateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut switched = BTreeMap::new();
        for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
            let malformed = || FeatureGateError::Malformed(gate.to_owned());
            let (name, value) = gate.split_once('=').ok_or_else(malformed)?;
            let on = match value {
                "true" => true,
                "false" => false,
                _ => return Err(malformed()),
            };
            if !KNOWN.contains(&name) && !STAGES.contains(&name) {
                return Err(FeatureGateError::Unknown(name.to_owned()));
            }
            switched.insert(name.to_owned(), on);
        }
        Ok(Self { switched })
    }
}

fn known() -> String {
    let names: Vec<&str> = STAGES.into_iter().chain(KNOWN).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_malformed_gates_are_refused_by_name() {
        let cases = [
            ("", Ok(0)),
            ("AllAlpha=true", Ok(1)),
            ("AllAlpha=true,AllBeta=false", Ok(2)),
            ("Nonsense=true", Err(FeatureGateError::Unknown("Nonsense".into()))),
            ("AllAlpha", Err(FeatureGateError::Malformed("AllAlpha".into()))),
            ("AllAlpha=yes", Err(FeatureGateError::Malformed("AllAlpha=yes".into()))),
        ];
        for (text, expected) in cases {
            let switched = text.parse::<FeatureGates>().map(|gates| gates.switched.len());
            assert_eq!(switched, expected, "{text:?}");
        }
    }

    #[test]
    fn the_message_names_what_there_is() {
        let message = FeatureGateError::Unknown("Nonsense".into()).to_string();
        assert_eq!(message, r#"unknown feature gate "Nonsense"; known: AllAlpha, AllBeta"#);
    }
}
