//! Which chapter is meant, and which ones have begun.

use std::collections::BTreeSet;

use anyhow::Context as _;
use clap::Args;
use kube::{Api, ResourceExt as _};
use nephele_api::cloud::{WORKSHOP_LABEL, v1alpha1::Scenario};
use nephele_page::Progress;
use nephele_scenario_library::workshop::{self, Chapter};
use serde_json::Value;

use crate::{
    exit::{Exit, Problem},
    objects::listed,
};

/// Which chapter.
#[derive(Debug, Args)]
pub(super) struct ChapterArgs {
    /// The number of the chapter.
    #[arg(value_name = "CHAPTER")]
    number: usize,
}

impl ChapterArgs {
    /// The chapter of the number.
    pub(super) fn chapter(&self) -> anyhow::Result<Chapter> {
        let number = self.number;
        let chapter = workshop::find(number)?;
        chapter.ok_or_else(|| {
            let all = workshop::len();
            let message =
                format!("there is no chapter {number}; the workshop has {all}, and `nephele workshop list` prints them");
            Problem::new(Exit::NotFound, message).into()
        })
    }
}

/// A Scenario of a chapter.
pub(super) fn scenario(object: &Value) -> anyhow::Result<Scenario> {
    serde_json::from_value(object.clone()).context("failed to read a Scenario of the workshop")
}

/// The Scenarios of chapters in a namespace, and the numbers of the chapters that have begun and were not cleared.
pub(super) async fn begun(
    api: &Api<Scenario>,
    namespace: &str,
) -> anyhow::Result<(Vec<Scenario>, BTreeSet<usize>)> {
    let scenarios = of_chapters(api, namespace).await?;
    // A check that passed stays when another chapter begins.
    let under_way = scenarios.iter().filter_map(Progress::of);
    let under_way = under_way.filter(|(_, progress)| *progress != Progress::Done);
    let numbers = under_way.map(|(number, _)| number.into()).collect();
    Ok((scenarios, numbers))
}

/// The Scenarios of chapters in a namespace.
pub(super) async fn of_chapters(api: &Api<Scenario>, namespace: &str) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios = listed(api, &format!(" in namespace {namespace}")).await?;
    scenarios.retain(|scenario| scenario.labels().contains_key(WORKSHOP_LABEL));
    Ok(scenarios)
}

/// Whether a Scenario says that another chapter than this one is done.
pub(super) fn is_of_another_that_is_done(scenario: &Scenario, number: usize) -> bool {
    Progress::of(scenario)
        .is_some_and(|(other, progress)| usize::from(other) != number && progress == Progress::Done)
}
