//! Tests in the source: `path/of/file.rs::function`, or `path/of/file_test.go::Function`.

use std::{fs, path::Path};

use anyhow::{Context, bail, ensure};

use super::programs::{TestPrograms, is_go};

/// Functions in this folder that are not tests are checks of `cargo xtask chart`.
pub(super) const CHART: &str = "crates/dev/xtask/src/chart/";

/// The file and the function in a test's name.
pub(super) fn parts(test: &str) -> Option<(&str, &str)> {
    let is_file = |file: &str| file.ends_with(".rs") || is_go(file);
    test.split_once("::")
        .filter(|(file, function)| is_file(file) && !function.is_empty())
}

/// Fails unless the file has the test, the test is not ignored, and a program can run it.
pub(crate) fn find(programs: &TestPrograms, root: &Path, test: &str) -> anyhow::Result<()> {
    let (file, function) =
        parts(test).context("neither path/of/file.rs::function nor path/of/file_test.go::Function")?;
    let text = fs::read_to_string(root.join(file)).with_context(|| format!("failed to read {file}"))?;
    ensure!(
        !programs.of(file).is_empty(),
        "no program runs the tests of {file}"
    );
    if is_go(file) {
        ensure!(
            text.contains(&format!("\nfunc {function}(t *testing.T) {{")),
            "no such test"
        );
        return Ok(());
    }
    match look(&text, function) {
        Found::Test => Ok(()),
        Found::Function if file.starts_with(CHART) => Ok(()),
        Found::Function => bail!("the function is not a test"),
        Found::Ignored => bail!("ignored"),
        Found::Nothing => bail!("no such function"),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Test,
    Ignored,
    Function,
    Nothing,
}

fn look(text: &str, function: &str) -> Found {
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let is_it = |line: &str| {
        let rest = line
            .split_once("fn ")
            .and_then(|(_, rest)| rest.strip_prefix(function));
        rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    };
    let Some(at) = lines
        .iter()
        .position(|line| !line.starts_with("//") && is_it(line))
    else {
        return Found::Nothing;
    };
    let attributes = || {
        lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
    };
    if attributes().any(|line| line.starts_with("#[ignore")) {
        Found::Ignored
    } else if attributes().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test")) {
        Found::Test
    } else {
        Found::Function
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_function_with_the_attribute_that_is_not_ignored() {
        let text = "\
// fn told() {}
#[tokio::test(start_paused = true)]
// Why.
async fn waits() {}
    #[test]
    fn holds() {}
#[test]
#[ignore = \"slow\"]
fn slow() {}
fn plain<T>() {}
fn holds_more() {}
";
        let found =
            ["waits", "holds", "slow", "plain", "holds_more", "told", "hold"].map(|name| look(text, name));
        use Found::{Function, Ignored, Nothing, Test};
        assert_eq!(found, [Test, Test, Ignored, Function, Function, Nothing, Nothing]);
    }

    #[test]
    fn a_name_has_a_file_and_a_function() {
        assert_eq!(parts("crates/a/src/b.rs::c"), Some(("crates/a/src/b.rs", "c")));
        assert_eq!((parts("crates/a::c"), parts("crates/a/src/b.rs")), (None, None));
    }
}
