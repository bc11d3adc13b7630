//! Validation of upgrade plans, as in Cluster API (`exp/topology/desiredstate/upgrade_plan.go`).

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use semver::Version;
use thiserror::Error;

use crate::hooks::{GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, UpgradeStep};

/// The most minor versions that workers may be behind their control plane, and that one step of the workers may cross.
const SKEW_MAX: u64 = 3;

/// The part of the cluster that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The control plane.
    ControlPlane,
    /// The workers.
    Workers,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlPlane => "control plane",
            Self::Workers => "workers",
        })
    }
}

/// Why a plan is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UpgradePlanError {
    /// A text is not a version.
    #[error("{0:?} is not a version of Kubernetes, such as v1.36.1")]
    Version(String),
    /// There is nothing to upgrade.
    #[error("{0}: there is nothing to upgrade")]
    Needless(Planned),
    /// A step does not go up.
    #[error("{of}: {to} does not come after {from}")]
    Order {
        of: Planned,
        /// The version before the step.
        from: String,
        to: String,
    },
    /// A step crosses too many minor versions.
    #[error("{of}: from {from} to {to} is too far for one step")]
    Far {
        of: Planned,
        /// The version before the step.
        from: String,
        to: String,
    },
    /// The last step does not end at the target.
    #[error("{of}: the plan ends with {end} instead of {target}")]
    End {
        of: Planned,
        end: String,
        target: String,
    },
    /// Workers would get a version that the control plane never has.
    #[error("workers: {0} is not a version of the control plane")]
    Foreign(String),
}

/// The order of two versions. Builds of one version may have no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Before,
    Same,
    After,
    /// Builds that have no order by themselves. Only the plan of the control plane orders them.
    Beside,
}

/// A version and its original text.
#[derive(Clone, Debug)]
struct Known<'a> {
    text: &'a str,
    version: Version,
}

impl<'a> Known<'a> {
    fn of(text: &'a str) -> Result<Self, UpgradePlanError> {
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let version = Version::parse(numbers).map_err(|_| UpgradePlanError::Version(text.to_owned()))?;
        Ok(Self { text, version })
    }

    /// The order of two versions: build numbers are ordered, other build names are not (`util/version`).
    fn stands(&self, other: &Self) -> Stands {
        let by = |ordering| match ordering {
            Ordering::Less => Stands::Before,
            Ordering::Equal => Stands::Same,
            Ordering::Greater => Stands::After,
        };
        match self.version.cmp_precedence(&other.version) {
            Ordering::Equal => {}
            ordering => return by(ordering),
        }
        let parts = |version: &'_ Version| -> Vec<String> {
            let build = version.build.as_str();
            build
                .split('.')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let own = parts(&self.version);
        let others = parts(&other.version);
        for (one, another) in own.iter().zip(&others) {
            match (one.parse::<u64>(), another.parse::<u64>()) {
                (Ok(one), Ok(another)) if one == another => {}
                (Ok(one), Ok(another)) => return by(one.cmp(&another)),
                (Ok(_), Err(_)) => return Stands::Before,
                (Err(_), Ok(_)) => return Stands::After,
                (Err(_), Err(_)) if one == another => {}
                (Err(_), Err(_)) => return Stands::Beside,
            }
        }
        by(own.len().cmp(&others.len()))
    }

    fn follows(&self, other: &Self) -> bool {
        matches!(self.stands(other), Stands::After | Stands::Beside)
    }
}

/// Validates a plan as Cluster API does, and returns the steps of the workers. If the plan omits them, they are as few
/// as the skew between workers and control plane permits.
///
/// An extension that checks its plan with this function never blocks a cluster's topology with an invalid plan.
///
/// # Errors
/// When Cluster API would refuse the plan.
pub fn judge_upgrade_plan(
    request: &GenerateUpgradePlanRequest,
    response: &GenerateUpgradePlanResponse,
) -> Result<Vec<UpgradeStep>, UpgradePlanError> {
    let current = Known::of(&request.from_control_plane_kubernetes_version)?;
    let target = Known::of(&request.to_kubernetes_version)?;
    let steps = known(&response.control_plane_upgrades)?;
    if current.stands(&target) == Stands::Same {
        if !steps.is_empty() {
            return Err(UpgradePlanError::Needless(Planned::ControlPlane));
        }
    } else {
        control_plane(&current, &steps, &target)?;
    }
    let workers = match request.from_workers_kubernetes_version.as_str() {
        "" => None,
        text => Some(Known::of(text)?).filter(|workers| workers.stands(&target) != Stands::Same),
    };
    let Some(workers) = workers else {
        return if response.workers_upgrades.is_empty() {
            Ok(Vec::new())
        } else {
            Err(UpgradePlanError::Needless(Planned::Workers))
        };
    };
    let has: Vec<_> = std::iter::once(&current).chain(&steps).collect();
    let planned = if response.workers_upgrades.is_empty() {
        fewest(&workers, &has, &target)
    } else {
        known(&response.workers_upgrades)?
    };
    of_workers(&workers, &planned, &has, &target)?;
    Ok(planned.iter().map(|step| UpgradeStep::from(step.text)).collect())
}

fn known(steps: &[UpgradeStep]) -> Result<Vec<Known<'_>>, UpgradePlanError> {
    steps.iter().map(|step| Known::of(&step.version)).collect()
}

fn control_plane(
    current: &Known<'_>,
    steps: &[Known<'_>],
    target: &Known<'_>,
) -> Result<(), UpgradePlanError> {
    let of = Planned::ControlPlane;
    let end = steps.iter().try_fold(current, |from, to| {
        let ends = || (from.text.to_owned(), to.text.to_owned());
        if !to.follows(from) {
            let (from, to) = ends();
            return Err(UpgradePlanError::Order { of, from, to });
        }
        if to.version.minor > from.version.minor.saturating_add(1) {
            let (from, to) = ends();
            return Err(UpgradePlanError::Far { of, from, to });
        }
        Ok(to)
    })?;
    ends_with(of, end, target)
}

fn of_workers(
    current: &Known<'_>,
    steps: &[Known<'_>],
    has: &[&Known<'_>],
    target: &Known<'_>,
) -> Result<(), UpgradePlanError> {
    let of = Planned::Workers;
    // Once the control plane is at the target, its former versions are unknown, and the workers may take any versions.
    let follow = has.len() > 1;
    let order = |known: &Known<'_>| has.iter().position(|had| had.text == known.text);
    let end = steps.iter().try_fold(current, |from, to| {
        let ends = || (from.text.to_owned(), to.text.to_owned());
        if follow && order(to).is_none() {
            return Err(UpgradePlanError::Foreign(to.text.to_owned()));
        }
        let up = match to.stands(from) {
            Stands::After => true,
            Stands::Beside => matches!((order(from), order(to)), (Some(from), Some(to)) if from <= to),
            Stands::Before | Stands::Same => false,
        };
        if !up {
            let (from, to) = ends();
            return Err(UpgradePlanError::Order { of, from, to });
        }
        if to.version.minor > from.version.minor.saturating_add(SKEW_MAX) {
            let (from, to) = ends();
            return Err(UpgradePlanError::Far { of, from, to });
        }
        Ok(to)
    })?;
    ends_with(of, end, target)
}

fn ends_with(of: Planned, end: &Known<'_>, target: &Known<'_>) -> Result<(), UpgradePlanError> {
    if end.stands(target) == Stands::Same {
        return Ok(());
    }
    Err(UpgradePlanError::End {
        of,
        end: end.text.to_owned(),
        target: target.text.to_owned(),
    })
}

/// As few steps as the skew permits, over versions of the control plane.
fn fewest<'a>(workers: &Known<'a>, has: &[&Known<'a>], target: &Known<'a>) -> Vec<Known<'a>> {
    // The last version of each minor version.
    let lines: BTreeMap<u64, &Known<'a>> = has.iter().map(|had| (had.version.minor, *had)).collect();
    let first = workers.version.minor;
    let last = target.version.minor;
    // The minor versions that are a whole number of the largest steps ahead.
    let is_on_the_way = |minor: u64| {
        let ahead = minor
            .checked_sub(first)
            .filter(|ahead| *ahead > 0 && minor < last);
        ahead.is_some_and(|ahead| ahead.is_multiple_of(SKEW_MAX))
    };
    let on_the_way = lines.into_iter().filter(|(minor, _)| is_on_the_way(*minor));
    let mut steps: Vec<Known<'a>> = on_the_way.map(|(_, known)| known.clone()).collect();
    if steps.last().is_none_or(|step| step.text != target.text) {
        steps.push(target.clone());
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(versions: &[&str]) -> Vec<UpgradeStep> {
        versions
            .iter()
            .map(|version| UpgradeStep::from(*version))
            .collect()
    }

    /// The steps of the workers, or the error in the plan.
    fn judged(
        from: &str,
        to: &str,
        control_plane: &[&str],
        workers_from: &str,
        workers: &[&str],
    ) -> Result<Vec<String>, String> {
        let request = GenerateUpgradePlanRequest {
            from_control_plane_kubernetes_version: from.into(),
            from_workers_kubernetes_version: workers_from.into(),
            to_kubernetes_version: to.into(),
            ..GenerateUpgradePlanRequest::default()
        };
        let response = GenerateUpgradePlanResponse {
            control_plane_upgrades: steps(control_plane),
            workers_upgrades: steps(workers),
            ..GenerateUpgradePlanResponse::default()
        };
        let judged = judge_upgrade_plan(&request, &response);
        judged
            .map(|steps| steps.into_iter().map(|step| step.version).collect())
            .map_err(|error| error.to_string())
    }

    /// PLAN-01, PLAN-02.
    #[test]
    fn a_plan_of_the_control_plane_goes_up_step_by_step_to_the_target() {
        for (plan, wrong) in [
            (
                &["foo"][..],
                "\"foo\" is not a version of Kubernetes, such as v1.36.1",
            ),
            (&["v1.30.0"], "control plane: v1.30.0 does not come after v1.30.0"),
            (
                &["v1.32.1"],
                "control plane: from v1.30.0 to v1.32.1 is too far for one step",
            ),
            (
                &["v1.31.1", "v1.30.0"],
                "control plane: v1.30.0 does not come after v1.31.1",
            ),
            (
                &["v1.31.1", "v1.32.0"],
                "control plane: the plan ends with v1.32.0 instead of v1.33.1",
            ),
            (
                &["v1.31.1", "v1.32.0", "v1.33.1", "v1.34.1"],
                "control plane: the plan ends with v1.34.1 instead of v1.33.1",
            ),
            (
                &[],
                "control plane: the plan ends with v1.30.0 instead of v1.33.1",
            ),
        ] {
            assert_eq!(
                judged("v1.30.0", "v1.33.1", plan, "", &[]),
                Err(wrong.into()),
                "{plan:?}"
            );
        }
        assert_eq!(
            judged("v1.30.0", "v1.33.1", &["v1.31.1", "v1.32.0", "v1.33.1"], "", &[]),
            Ok(vec![])
        );
        let there = judged("v1.33.1", "v1.33.1", &["v1.33.1"], "", &[]);
        assert_eq!(there, Err("control plane: there is nothing to upgrade".into()));
        assert_eq!(judged("v1.33.1", "v1.33.1", &[], "", &[]), Ok(vec![]));
        assert!(judged("1.x", "v1.33.1", &[], "", &[]).is_err());
        assert!(judged("v1.33.1", "", &[], "", &[]).is_err());
    }

    /// PLAN-03.
    #[test]
    fn a_plan_of_workers_goes_over_versions_of_the_control_plane_to_the_target() {
        let plan = ["v1.31.1", "v1.32.0", "v1.33.1"];
        for (workers, wrong) in [
            (
                &["v1.31.2", "v1.33.1"][..],
                "workers: v1.31.2 is not a version of the control plane",
            ),
            (
                &["v1.32.0", "v1.31.1"],
                "workers: v1.31.1 does not come after v1.32.0",
            ),
            (
                &["foo"],
                "\"foo\" is not a version of Kubernetes, such as v1.36.1",
            ),
            (&["v1.30.0"], "workers: v1.30.0 does not come after v1.30.0"),
            (
                &["v1.31.1", "v1.32.0"],
                "workers: the plan ends with v1.32.0 instead of v1.33.1",
            ),
        ] {
            let judged = judged("v1.30.0", "v1.33.1", &plan, "v1.30.0", workers);
            assert_eq!(judged, Err(wrong.into()), "{workers:?}");
        }
        let late = judged("v1.33.1", "v1.33.1", &[], "v1.32.0", &["v1.33.1", "v1.34.1"]);
        assert_eq!(
            late,
            Err("workers: the plan ends with v1.34.1 instead of v1.33.1".into())
        );
        let far = ["v1.31.1", "v1.32.0", "v1.33.1", "v1.34.1"];
        assert_eq!(
            judged("v1.30.0", "v1.34.1", &far, "v1.30.0", &["v1.34.1"]),
            Err("workers: from v1.30.0 to v1.34.1 is too far for one step".into())
        );
        for without in ["", "v1.33.1"] {
            let judged = judged("v1.30.0", "v1.33.1", &plan, without, &["v1.33.1"]);
            assert_eq!(judged, Err("workers: there is nothing to upgrade".into()));
        }
        let whole = plan.map(str::to_owned).to_vec();
        assert_eq!(judged("v1.30.0", "v1.33.1", &plan, "v1.30.0", &plan), Ok(whole));
    }

    /// PLAN-04, PLAN-05.
    #[test]
    fn workers_without_a_plan_go_as_far_as_they_can_each_time() {
        let plan = ["v1.31.1", "v1.32.0", "v1.33.1", "v1.34.1"];
        assert_eq!(
            judged("v1.30.0", "v1.33.1", &plan[..3], "v1.30.0", &[]),
            Ok(vec!["v1.33.1".to_owned()])
        );
        assert_eq!(
            judged("v1.30.0", "v1.34.1", &plan, "v1.30.0", &[]),
            Ok(vec!["v1.33.1".to_owned(), "v1.34.1".to_owned()])
        );
        // The control plane is at the target, and the workers are not.
        assert_eq!(
            judged("v1.34.1", "v1.34.1", &[], "v1.33.1", &[]),
            Ok(vec!["v1.34.1".to_owned()])
        );
    }

    /// PLAN-06.
    #[test]
    fn builds_of_one_version_are_in_the_order_of_the_control_plane() {
        let current = "v1.31.1+foo.1-bar.1";
        let plan = [
            "v1.31.1+foo.2-bar.1",
            "v1.32.1+foo.2-bar.1",
            "v1.32.1+foo.1-bar.1",
        ];
        let judged = |workers: &[&str]| judged(current, plan[2], &plan, current, workers);
        assert_eq!(judged(&plan), Ok(plan.map(str::to_owned).to_vec()));
        assert_eq!(
            judged(&[plan[0], plan[2], plan[1]]),
            Err("workers: v1.32.1+foo.2-bar.1 does not come after v1.32.1+foo.1-bar.1".into())
        );
        assert_eq!(judged(&[]), Ok(vec![plan[2].to_owned()]));
        let stands = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| Known::of(text).unwrap());
            one.stands(&other)
        };
        for (one, other, expected) in [
            ("v1.31.1+1", "v1.31.1+2", Stands::Before),
            ("v1.31.1+10", "v1.31.1+9", Stands::After),
            ("v1.31.1+1", "v1.31.1+a", Stands::Before),
            ("v1.31.1+a", "v1.31.1+1", Stands::After),
            ("v1.31.1+a", "v1.31.1+b", Stands::Beside),
            ("v1.31.1+a", "v1.31.1+a.1", Stands::Before),
            ("v1.31.1", "v1.31.1+a", Stands::Before),
            ("v1.31.1+a", "v1.31.1+a", Stands::Same),
            ("v1.31.1-rc.1+b", "v1.31.1+a", Stands::Before),
        ] {
            assert_eq!(stands(one, other), expected, "{one} {other}");
        }
    }

    /// A version with numbers at the edges of their type, or one after the other.
    fn version() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            prop::sample::select(vec![
                0,
                1,
                2,
                3,
                4,
                u64::MAX - 3,
                u64::MAX - 2,
                u64::MAX - 1,
                u64::MAX
            ]),
            30..36_u64,
        ];
        (number.clone(), number).prop_map(|(minor, patch)| format!("v1.{minor}.{patch}"))
    }

    proptest! {
        /// The generated steps for workers would be valid as an explicit plan.
        #[test]
        fn what_is_made_for_workers_is_a_plan_for_them(first in 20_u64..40, ahead in 1_u64..12, behind in 0_u64..4) {
            let from = format!("v1.{first}.0");
            let to = format!("v1.{}.3", first + ahead);
            let plan: Vec<String> =
                (1..=ahead).map(|ahead_by| format!("v1.{}.3", first + ahead_by)).collect();
            let plan: Vec<&str> = plan.iter().map(String::as_str).collect();
            let workers = format!("v1.{}.0", first - behind);
            let made = judged(&from, &to, &plan, &workers, &[]);
            prop_assert!(made.is_ok(), "{made:?}");
            let made = made.unwrap();
            let said: Vec<&str> = made.iter().map(String::as_str).collect();
            prop_assert_eq!(judged(&from, &to, &plan, &workers, &said), Ok(made.clone()));
        }

        /// The time of an answer depends on the number of the steps, not on the numbers in their versions.
        #[test]
        fn numbers_at_the_edges_of_their_type_are_judged_at_once(
            from in version(), to in version(), workers in version(),
            steps in prop::collection::vec(version(), 0..4), planned in prop::collection::vec(version(), 0..4),
        ) {
            let [steps, planned] = [&steps, &planned]
                .map(|list| list.iter().map(String::as_str).collect::<Vec<_>>());
            if let Ok(made) = judged(&from, &to, &steps, &workers, &planned) {
                prop_assert!(made.len() <= steps.len() + planned.len() + 1);
            }
        }

        #[test]
        fn no_text_panics(
            from in "\\PC{0,8}|v?[0-9.+-]{0,12}", to in "\\PC{0,8}|v?[0-9.+-]{0,12}",
            step in "\\PC{0,8}|v?[0-9.+-]{0,12}",
        ) {
            let _ = judged(&from, &to, &[&step], &step, &[&to]);
        }
    }
}
