//! The versions that an upgrade passes through: one of each minor version, since Kubernetes cannot skip any.

use std::{cmp::Ordering, collections::BTreeMap, str::FromStr};

use nephele_runtime_sdk::hooks::{
    Failure, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, UpgradeStep,
};
use thiserror::Error;

use crate::{access::shown, settings::KUBERNETES_VERSIONS};

/// The most minor versions that an upgrade may pass through. Kubernetes has come to 36 in eleven years.
const STEPS_MAX: u64 = 100;
/// The largest number in a version. Larger ones would pass for versions and are none, and sums of them have no end.
const NUMBER_MAX: u64 = 65_535;

/// Why there is no plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// A text is not a version.
    #[error("{0:?} is not a version of Kubernetes, such as v1.36.1")]
    Version(String),
    /// A number of a version is too large.
    #[error("{0:?} has a number above {NUMBER_MAX}, as no version of Kubernetes has")]
    Number(String),
    /// The target is older.
    #[error("cannot plan a downgrade from {from} to {to}")]
    Back { from: String, to: String },
    /// The target has another major version, or is far ahead.
    #[error("cannot plan an upgrade from {from} to {to}")]
    Far { from: String, to: String },
}

/// A version as text and in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    text: String,
    number: semver::Version,
}

impl FromStr for Version {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let number = semver::Version::parse(text.strip_prefix('v').unwrap_or(text));
        let number = number.map_err(|_| PlanError::Version(shown(text)))?;
        if number.major.max(number.minor).max(number.patch) > NUMBER_MAX {
            return Err(PlanError::Number(shown(text)));
        }
        Ok(Self {
            text: text.to_owned(),
            number,
        })
    }
}

impl Version {
    /// Whether this version comes before the other one. Builds of one version have no order, except that the version
    /// without a build name comes first.
    fn is_before(&self, other: &Self) -> bool {
        match self.number.cmp_precedence(&other.number) {
            Ordering::Equal => self.number.build.is_empty() && !other.number.build.is_empty(),
            ordering => ordering == Ordering::Less,
        }
    }
}

/// The steps of a control plane: the last known version of each minor version in between, or its `.0` if none is known,
/// and then the target.
///
/// # Errors
/// When a text is not a version, or there is no plan.
pub fn steps(from: &str, to: &str, known: &[&str]) -> Result<Vec<String>, PlanError> {
    let from: Version = from.parse()?;
    let to: Version = to.parse()?;
    let ends = || (from.text.clone(), to.text.clone());
    if from.text == to.text {
        return Ok(Vec::new());
    }
    if to.is_before(&from) {
        let (from, to) = ends();
        return Err(PlanError::Back { from, to });
    }
    let start = &from.number;
    let end = &to.number;
    // The target does not come before, so neither does its minor version, if the major one is the same.
    if start.major != end.major || end.minor.abs_diff(start.minor) > STEPS_MAX {
        let (from, to) = ends();
        return Err(PlanError::Far { from, to });
    }
    let known: Vec<Version> = known.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let mut last: BTreeMap<u64, &Version> = BTreeMap::new();
    for version in known
        .iter()
        .filter(|known| known.number.major == start.major && known.number.pre.is_empty())
    {
        let last = last.entry(version.number.minor).or_insert(version);
        // Of builds of one version, the last in the list.
        if version.number.cmp_precedence(&last.number) != Ordering::Less {
            *last = version;
        }
    }
    let mut steps = Vec::new();
    for minor in start.minor.saturating_add(1)..end.minor {
        let known = last.get(&minor).map(|version| version.text.clone());
        steps.push(known.unwrap_or_else(|| format!("v{}.{minor}.0", start.major)));
    }
    steps.push(to.text);
    Ok(steps)
}

/// Answers with the steps of the control plane. The caller derives those of the workers, as few as the allowed skew
/// permits.
///
/// # Errors
/// When there is no plan.
pub fn answer(request: &GenerateUpgradePlanRequest) -> Result<GenerateUpgradePlanResponse, Failure> {
    let known = request
        .settings
        .get(KUBERNETES_VERSIONS)
        .map(String::as_str)
        .unwrap_or_default();
    let known: Vec<&str> = known
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    let steps = steps(
        &request.from_control_plane_kubernetes_version,
        &request.to_kubernetes_version,
        &known,
    )?;
    Ok(GenerateUpgradePlanResponse {
        control_plane_upgrades: steps
            .iter()
            .map(|step| UpgradeStep::from(step.as_str()))
            .collect(),
        ..GenerateUpgradePlanResponse::default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_minor_version_on_the_way_is_a_step_and_the_target_is_the_last() {
        let known = [
            "v1.34.1",
            "v1.34.10",
            "v1.34.9",
            "v1.35.0-rc.0",
            "v1.36.9",
            "v1.33.5",
        ];
        for (from, to, known, expected) in [
            ("v1.36.0", "v1.36.0", &known[..], vec![]),
            ("v1.36.0", "v1.36.3", &[], vec!["v1.36.3"]),
            ("v1.35.2", "v1.36.0", &known[..], vec!["v1.36.0"]),
            ("v1.33.0", "v1.36.0", &[], vec!["v1.34.0", "v1.35.0", "v1.36.0"]),
            (
                "v1.33.0",
                "v1.36.0",
                &known[..],
                vec!["v1.34.10", "v1.35.0", "v1.36.0"],
            ),
            ("v1.36.0+one", "v1.36.0+two", &[], vec!["v1.36.0+two"]),
            ("v1.36.0", "v1.36.0+one", &[], vec!["v1.36.0+one"]),
            ("v1.36.0-rc.1", "v1.36.0", &[], vec!["v1.36.0"]),
            ("v1.36.0-rc.9", "v1.36.0-rc.10", &[], vec!["v1.36.0-rc.10"]),
        ] {
            assert_eq!(
                steps(from, to, known),
                Ok(expected.into_iter().map(String::from).collect()),
                "{from} {to}"
            );
        }
    }

    #[test]
    fn an_invalid_version_or_an_impossible_upgrade_is_an_error() {
        let text = |text: &str| text.to_owned();
        for (from, to, expected) in [
            ("", "v1.36.0", PlanError::Version(text(""))),
            ("v1.36", "v1.36.0", PlanError::Version(text("v1.36"))),
            ("v1.36.0", "v1.x.0", PlanError::Version(text("v1.x.0"))),
            (
                "v1.36.1",
                "v1.36.0",
                PlanError::Back {
                    from: text("v1.36.1"),
                    to: text("v1.36.0"),
                },
            ),
            (
                "v1.36.1",
                "v1.35.9",
                PlanError::Back {
                    from: text("v1.36.1"),
                    to: text("v1.35.9"),
                },
            ),
            (
                "v1.36.0+a",
                "v1.36.0",
                PlanError::Back {
                    from: text("v1.36.0+a"),
                    to: text("v1.36.0"),
                },
            ),
            (
                "v1.36.1",
                "v2.0.0",
                PlanError::Far {
                    from: text("v1.36.1"),
                    to: text("v2.0.0"),
                },
            ),
            (
                "v1.36.1",
                "v1.137.0",
                PlanError::Far {
                    from: text("v1.36.1"),
                    to: text("v1.137.0"),
                },
            ),
            (
                "v1.36.1",
                "v1.65535.0",
                PlanError::Far {
                    from: text("v1.36.1"),
                    to: text("v1.65535.0"),
                },
            ),
            ("v1.36.1", "v1.65536.0", PlanError::Number(text("v1.65536.0"))),
            (
                "v1.18446744073709551615.0",
                "v1.18446744073709551615.1",
                PlanError::Number(text("v1.18446744073709551615.0")),
            ),
        ] {
            assert_eq!(steps(from, to, &[]), Err(expected), "{from} {to}");
        }
        assert_eq!(
            steps("v1.1.0", "v1.3.0", &["two"]),
            Err(PlanError::Version(text("two")))
        );
    }

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("version", 64 * 1024, &["v1.36.0", "v1.", "v1.36.0-a"], |text| {
            let _ = steps("v1.35.0", text, &[text]);
        });
        nephele_growth::assert_linear("known versions", 64 * 1024, &["v1.36.0,"], |text| {
            let settings = [(KUBERNETES_VERSIONS.to_owned(), text.to_owned())].into();
            let _ = answer(&GenerateUpgradePlanRequest {
                settings,
                ..GenerateUpgradePlanRequest::default()
            });
        });
    }

    /// Numbers at the edges of their type and of what is taken, and small ones.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            prop::sample::select(vec![
                0,
                1,
                2,
                35,
                36,
                37,
                NUMBER_MAX - 1,
                NUMBER_MAX,
                NUMBER_MAX + 1,
                u64::from(u32::MAX),
                u64::MAX / 2,
                u64::MAX - 2,
                u64::MAX - 1,
                u64::MAX,
            ]),
            0..40_u64,
        ]
    }

    proptest! {
        // Few pairs have their largest number in one place.
        #![proptest_config(ProptestConfig::with_cases(4096))]
        /// Whatever the numbers are, there are at most [`STEPS_MAX`] steps, each one ahead of the one before, or words.
        #[test]
        fn numbers_at_the_edges_of_their_type_make_few_steps_or_an_error(
            from in [number(), number(), number()], to in [number(), number(), number()], in_common in 0..4_usize,
            known in proptest::collection::vec([number(), number(), number()], 0..6),
        ) {
            let text = |[major, minor, patch]: [u64; 3]| format!("v{major}.{minor}.{patch}");
            let to: [u64; 3] = std::array::from_fn(|place| if place < in_common { from[place] } else { to[place] });
            let known: Vec<String> = known.into_iter().map(text).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            match steps(&text(from), &text(to), &known) {
                Ok(steps) => prop_assert!(steps.len() <= 100),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    proptest! {
        /// Cluster API's rules for a plan (its `topology` controller): strictly ascending, all versions above the
        /// current one, no minor version skipped, the target last.
        #[test]
        fn a_plan_is_one_that_its_caller_takes(
            from in (0_u64..40, 0_u64..5), ahead in 0_u64..8, patch in 0_u64..5,
            known in proptest::collection::vec((0_u64..50, 0_u64..20), 0..20),
        ) {
            let current = format!("v1.{}.{}", from.0, from.1);
            let target = format!("v1.{}.{patch}", from.0 + ahead);
            let known: Vec<String> = known.iter().map(|(minor, patch)| format!("v1.{minor}.{patch}")).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            match steps(&current, &target, &known) {
                Err(error) => prop_assert!(ahead == 0 && patch < from.1, "{error}"),
                Ok(steps) => {
                    let mut before: Version = current.parse().unwrap();
                    for step in &steps {
                        let version: Version = step.parse().unwrap();
                        prop_assert!(before.is_before(&version));
                        prop_assert!(version.number.minor - before.number.minor <= 1);
                        before = version;
                    }
                    prop_assert_eq!(&before.text, &target);
                }
            }
        }

        #[test]
        fn no_text_panics(from in "\\PC{0,12}|v?[0-9.+-]{0,12}", to in "\\PC{0,12}|v?[0-9.+-]{0,12}") {
            let _ = steps(&from, &to, &[&from]);
        }
    }
}
