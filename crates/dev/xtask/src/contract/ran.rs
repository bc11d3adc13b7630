//! The tests that ran and their results, from the output of `cargo test`: the program, then a line for each of its
//! tests. And from that of `go test -v`, which names no file.

use std::collections::BTreeMap;

use super::{
    programs::{GO, TestPrograms},
    source::{CHART, parts},
};

/// The results of runs.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// By program and path of the test: whether all its runs passed.
    tests: BTreeMap<(String, String), bool>,
    /// The result of `cargo xtask chart`, if it ran.
    chart: Option<bool>,
}

impl Ran {
    /// Adds the results in an output.
    pub(super) fn read(&mut self, output: &str) {
        let mut program = String::new();
        for line in output.lines().map(str::trim) {
            if let Some(started) = line.strip_prefix("Running ") {
                // unittests src/lib.rs (target/debug/deps/nephele_api-0123456789abcdef)
                let file = started
                    .rsplit(['/', '('])
                    .next()
                    .unwrap_or_default()
                    .trim_end_matches(')');
                program = file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned();
            } else if let Some((path, outcome)) = line
                .strip_prefix("test ")
                .and_then(|test| test.rsplit_once(" ... "))
            {
                let path = path.split(' ').next().unwrap_or_default();
                let passed = self
                    .tests
                    .entry((program.clone(), path.to_owned()))
                    .or_insert(true);
                // The outcome may be followed by the time: `ok <1.203s>`.
                *passed &= outcome.split(' ').next() == Some("ok");
            } else if let Some((outcome, test)) =
                line.strip_prefix("--- ").and_then(|test| test.split_once(": "))
            {
                let name = test.split(' ').next().unwrap_or_default();
                let passed = self.tests.entry((GO.to_owned(), name.to_owned())).or_insert(true);
                *passed &= outcome == "PASS";
            } else if let Some((_, failed)) = line.split_once(" checks of the chart, ") {
                self.chart = Some(self.chart.unwrap_or(true) && failed == "0 failed");
            }
        }
    }

    /// Fails with the reason why the test does not count.
    pub(super) fn passed(&self, programs: &TestPrograms, test: &str) -> Result<(), &'static str> {
        let (file, function) = parts(test).ok_or("no test's name")?;
        let places = programs.of(file);
        let is_it = |path: &str, modules: &[String]| {
            let in_file = modules.iter().try_fold(path, |rest, module| {
                rest.strip_prefix(module.as_str())?.strip_prefix("::")
            });
            in_file.is_some_and(|rest| rest == function || rest.ends_with(&format!("::{function}")))
        };
        let outcomes: Vec<_> = (self.tests.iter())
            .filter(|((by, path), _)| {
                places
                    .iter()
                    .any(|place| *by == place.program && is_it(path, &place.modules))
            })
            .map(|(_, passed)| *passed)
            .collect();
        match (outcomes.as_slice(), self.chart) {
            ([], Some(true)) if file.starts_with(CHART) => Ok(()),
            ([], Some(false)) if file.starts_with(CHART) => Err("failed"),
            ([], _) => Err("did not run"),
            (all, _) if all.iter().all(|passed| *passed) => Ok(()),
            _ => Err("failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
     Running unittests src/lib.rs (target/debug/deps/nephele_ipam_controller-0123456789abcdef)

running 3 tests
test claim::plan::tests::a ... ok
test claim::plan::tests::b ... FAILED
test report::tests::c ... ignored
     Running tests/controllers/main.rs (/t/debug/deps/controllers-0123456789abcdef)
test claims::a ... ok
test claims::b - should panic ... ok <0.500s>
     Running tests/main.rs (/t/debug/deps/infra_controller-0123456789abcdef)
test reconcile::machines::e ... ok <1.000s>
test reconcile::f ... FAILED <1.000s>
     Running unittests src/main.rs (target/debug/deps/nephele-0123456789abcdef)
test d ... ok
=== RUN   TestG
--- PASS: TestG (0.00s)
=== RUN   TestH
--- FAIL: TestH (0.00s)
";

    fn programs() -> TestPrograms {
        TestPrograms::new(&[
            (
                "nephele_ipam_controller",
                "crates/ipam/ipam-controller/src/lib.rs",
            ),
            (
                "controllers",
                "crates/ipam/ipam-controller/tests/controllers/main.rs",
            ),
            (
                "infra_controller",
                "crates/provider/infra-controller/tests/main.rs",
            ),
            ("nephele_controller", "crates/provider/controller/src/lib.rs"),
            ("nephele", "crates/cli/cli/src/main.rs"),
        ])
    }

    #[test]
    fn a_test_is_known_by_its_file() {
        let mut ran = Ran::default();
        ran.read(OUTPUT);
        let programs = programs();
        for (test, expected) in [
            ("crates/ipam/ipam-controller/src/claim/plan/tests.rs::a", Ok(())),
            ("crates/ipam/ipam-controller/src/claim/plan.rs::b", Err("failed")),
            ("crates/ipam/ipam-controller/src/report.rs::c", Err("failed")),
            (
                "crates/ipam/ipam-controller/tests/controllers/claims.rs::a",
                Ok(()),
            ),
            (
                "crates/ipam/ipam-controller/tests/controllers/claims.rs::b",
                Ok(()),
            ),
            (
                "crates/ipam/ipam-controller/tests/controllers/claims.rs::c",
                Err("did not run"),
            ),
            (
                "crates/provider/infra-controller/tests/reconcile/machines.rs::e",
                Ok(()),
            ),
            (
                "crates/provider/infra-controller/tests/reconcile.rs::f",
                Err("failed"),
            ),
            (
                "crates/provider/infra-controller/tests/moves.rs::f",
                Err("did not run"),
            ),
            ("crates/cli/cli/src/main.rs::d", Ok(())),
            ("crates/provider/controller/src/lib.rs::d", Err("did not run")),
            ("nepheletest/go/g_test.go::TestG", Ok(())),
            ("nepheletest/go/g_test.go::TestH", Err("failed")),
            ("nepheletest/go/g_test.go::TestI", Err("did not run")),
        ] {
            assert_eq!(ran.passed(&programs, test), expected, "{test}");
        }
    }

    #[test]
    fn one_failure_of_several_runs_is_a_failure() {
        let mut ran = Ran::default();
        ran.read(OUTPUT);
        ran.read(&OUTPUT.replace("::a ... ok", "::a ... FAILED"));
        ran.read(OUTPUT);
        assert_eq!(
            ran.passed(
                &programs(),
                "crates/ipam/ipam-controller/src/claim/plan/tests.rs::a"
            ),
            Err("failed")
        );
    }

    #[test]
    fn checks_of_the_chart_pass_together() {
        let check = "crates/dev/xtask/src/chart/facts.rs::pod";
        let outcome = |output: &str| {
            let mut ran = Ran::default();
            ran.read(output);
            ran.passed(&programs(), check)
        };
        assert_eq!(outcome(OUTPUT), Err("did not run"));
        assert_eq!(outcome("47 checks of the chart, 0 failed\n"), Ok(()));
        assert_eq!(outcome("47 checks of the chart, 1 failed\n"), Err("failed"));
    }
}
