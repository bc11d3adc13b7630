//! Mistakes of users: every field of every kind with every sort of value that its schema excludes, and every
//! forbidden change. Nothing is stored: the tests use dry runs, so one process makes thousands of requests in
//! seconds.
//!
//! ```text
//!  crds() ──walk──▶ nodes ──wrong──▶ cases ──dry run──▶ refused, and the answer names the field
//!                     └── a field that has no case fails the test
//! ```

mod ask;
mod changes;
mod sample;
mod schema;
mod table;
mod wrong;

use std::collections::BTreeMap;

use anyhow::ensure;
use futures::{StreamExt, stream};
use nephele_e2e::Scope;

use self::{
    ask::Asker,
    schema::{Kind, kinds},
    wrong::Case,
};

/// Requests in flight at a time.
const CONCURRENCY: usize = 16;
/// The fewest cases. When this was written, there were about 800 for specs, and as many for statuses.
const CASES_MIN: usize = 700;
/// The most failures that are listed.
const TOLD_MAX: usize = 40;

#[tokio::test]
async fn every_field_with_a_wrong_value_is_refused_by_its_name() -> anyhow::Result<()> {
    let scope = Scope::new("input").await?;
    let asker = Asker::new(&scope);
    let kinds = kinds()?;
    let mut cases = Vec::new();
    let mut unknown = Vec::new();
    for kind in &kinds {
        let taken = asker.create(kind, &table::right(kind)).await?;
        ensure!(
            taken.is_none(),
            "{kind} is refused although nothing is wrong with it: {taken:?}"
        );
        unknown.extend(wrong::of_spec(kind).map(|of_kind| cases.extend(of_kind)).err());
    }
    ensure!(unknown.is_empty(), "{}", texts(&unknown));
    let refusals = stream::iter(&cases)
        .map(|case| asker.spec(case))
        .buffer_unordered(CONCURRENCY);
    judge(&cases, refusals.collect().await)?;
    scope.finish().await
}

#[tokio::test]
async fn every_field_of_a_status_with_a_wrong_value_is_refused_by_its_name() -> anyhow::Result<()> {
    let scope = Scope::new("input-status").await?;
    let asker = Asker::new(&scope);
    let kinds = kinds()?;
    let mut cases = Vec::new();
    let mut unknown = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.status().is_some()) {
        asker.make(kind, &table::right(kind)).await?;
        unknown.extend(wrong::of_status(kind).map(|of_kind| cases.extend(of_kind)).err());
    }
    ensure!(unknown.is_empty(), "{}", texts(&unknown));
    let refusals = stream::iter(&cases)
        .map(|case| asker.status(case))
        .buffer_unordered(CONCURRENCY);
    let refusals = refusals.collect().await;
    for kind in kinds.iter().filter(|kind| kind.status().is_some()) {
        asker.remove(kind).await?;
    }
    judge(&cases, refusals)?;
    scope.finish().await
}

#[tokio::test]
async fn what_cannot_change_is_refused_by_its_name() -> anyhow::Result<()> {
    let scope = Scope::new("input-changes").await?;
    changes::check(&scope).await?;
    scope.finish().await
}

#[tokio::test]
async fn a_cluster_that_another_manager_looks_after_stays_theirs() -> anyhow::Result<()> {
    let scope = Scope::new("input-elsewhere").await?;
    changes::stays_elsewhere(&scope).await?;
    scope.finish().await
}

/// Checks each case against its answer. Fails with the cases that were accepted, or refused without the field's name.
fn judge(cases: &[Case<'_>], answers: Vec<anyhow::Result<(String, Option<String>)>>) -> anyhow::Result<()> {
    let mut by_id = BTreeMap::new();
    for answer in answers {
        let (id, refusal) = answer?;
        by_id.insert(id, refusal);
    }
    ensure!(
        cases.len() >= CASES_MIN,
        "{} cases are too few: the walk misses something",
        cases.len()
    );
    ensure!(
        by_id.len() == cases.len(),
        "{} cases are {} different ones",
        cases.len(),
        by_id.len()
    );
    let mut failed = Vec::new();
    for case in cases {
        match by_id.get(&case.id()).and_then(Option::as_ref) {
            None => failed.push(format!("{}: taken", case.id())),
            Some(message) if !case.is_named_in(message) => {
                failed.push(format!(
                    "{}: {} is not named in: {message}",
                    case.id(),
                    case.named
                ));
            }
            Some(_) => {}
        }
    }
    let told: Vec<_> = failed.iter().take(TOLD_MAX).map(String::as_str).collect();
    ensure!(
        failed.is_empty(),
        "{} of {} cases failed:\n{}",
        failed.len(),
        cases.len(),
        told.join("\n")
    );
    Ok(())
}

fn texts(errors: &[anyhow::Error]) -> String {
    errors
        .iter()
        .map(|error| format!("{error:#}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Normalises the entries of maps, which messages of the API server and our paths write differently.
fn normal(text: &str) -> String {
    text.replace("[key]", ".key")
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}
