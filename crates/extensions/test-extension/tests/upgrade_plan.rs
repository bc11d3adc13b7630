//! Plans over known versions. The cases are those of Cluster API's own plans over the versions of a class.

use nephele_runtime_sdk::{
    hooks::GenerateUpgradePlanRequest,
    topology::{UpgradePlanError, judge_upgrade_plan},
};
use nephele_test_extension::upgrade_plan::{answer, steps};
use proptest::prelude::*;

fn planned(from: &str, to: &str, known: &[&str]) -> Vec<String> {
    steps(from, to, known).expect("there is a way")
}

/// PLAN-07.
#[test]
fn the_last_known_version_of_each_minor_version_is_taken() {
    let known = [
        "v1.31.0", "v1.31.1", "v1.32.0", "v1.32.2", "v1.32.3", "v1.33.0", "v1.33.1",
    ];
    assert_eq!(planned("v1.31.0", "v1.33.1", &known), ["v1.32.3", "v1.33.1"]);
}

/// PLAN-08.
#[test]
fn within_a_minor_version_there_is_one_step() {
    assert_eq!(
        planned("v1.35.1", "v1.35.3", &["v1.35.1", "v1.35.2", "v1.35.3"]),
        ["v1.35.3"]
    );
}

/// PLAN-09.
#[test]
fn of_builds_of_one_version_the_last_in_the_list_is_taken() {
    let known = [
        "v1.31.0+a",
        "v1.31.0+b",
        "v1.31.0+c",
        "v1.32.0+a",
        "v1.32.0+b",
        "v1.32.0+c",
        "v1.33.1+a",
        "v1.33.1+b",
        "v1.33.1+c",
    ];
    assert_eq!(
        planned("v1.31.0+b", "v1.33.1+b", &known),
        ["v1.32.0+c", "v1.33.1+b"]
    );
}

/// It did not end, and pushed a text for each of 2^64 minor versions.
#[test]
fn the_largest_minor_version_is_refused_in_words() {
    let request = GenerateUpgradePlanRequest {
        from_control_plane_kubernetes_version: format!("v1.{}.0", u64::MAX),
        to_kubernetes_version: format!("v1.{}.1", u64::MAX),
        ..GenerateUpgradePlanRequest::default()
    };
    let failure = answer(&request).expect_err("no version of Kubernetes has such a number");
    let message = "\"v1.18446744073709551615.0\" has a number above 65535, as no version of Kubernetes has";
    assert_eq!(failure.message(), message);
}

fn version() -> impl Strategy<Value = String> {
    let build = prop_oneof![4 => Just(""), 1 => Just("+1"), 1 => Just("+a")];
    let edges = prop::sample::select(vec![0, 1, 65_534, 65_535, 65_536, u64::MAX - 1, u64::MAX]);
    (prop_oneof![20 => 20_u64..40, 1 => edges], 0_u64..4, build)
        .prop_map(|(minor, patch, build)| format!("v1.{minor}.{patch}{build}"))
}

proptest! {
    /// For any request and known versions, Cluster API accepts the plan, or the answer is an error.
    #[test]
    fn cluster_api_accepts_every_plan(
        from in version(), to in version(), behind in 0_u64..3, known in prop::collection::vec(version(), 0..30),
    ) {
        let minor = |version: &str| version.split('.').nth(1).and_then(|minor| minor.parse::<u64>().ok());
        let workers = format!("v1.{}.0", minor(&from).expect("a version").saturating_sub(behind));
        let request = GenerateUpgradePlanRequest {
            from_control_plane_kubernetes_version: from.clone(),
            from_workers_kubernetes_version: workers,
            to_kubernetes_version: to.clone(),
            settings: [("kubernetesVersions".to_owned(), known.join(","))].into(),
            ..GenerateUpgradePlanRequest::default()
        };
        match answer(&request) {
            Ok(response) => {
                let judged = judge_upgrade_plan(&request, &response);
                // The order of two builds with names is unknown.
                let builds = match (from.split_once('+'), to.split_once('+')) {
                    (Some((one, _)), Some((other, _))) => one == other,
                    _ => false,
                };
                let allowed =
                    judged.is_ok() || builds && matches!(judged, Err(UpgradePlanError::Order { .. }));
                prop_assert!(allowed, "{judged:?} of {response:?}");
            }
            Err(failure) => {
                let reasons = ["cannot plan a downgrade", "cannot plan an upgrade", "has a number above 65535"];
                prop_assert!(reasons.iter().any(|reason| failure.message().contains(reason)), "{failure}");
            }
        }
    }
}
