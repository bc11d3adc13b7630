//! `nephele workshop check`: says whether the task of a chapter is done, and what is missing.

use std::process::ExitCode;

use clap::Args;
use kube::Api;
use nephele_api::cloud::v1alpha1::Scenario;
use nephele_scenario_library::workshop;
use tokio_util::sync::CancellationToken;

use super::{
    chapter::{ChapterArgs, begun, scenario},
    run::Run,
    text::answers,
    trial::{Verdict, prove},
};
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    output::print,
    process::INTERRUPTED,
    scenario::{delete, failure},
};

/// Which chapter, and where.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    chapter: ChapterArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// Runs the check of a chapter.
pub(super) async fn run(args: CheckArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let CheckArgs { chapter, access } = args;
    let chapter = chapter.chapter()?;
    let number = chapter.number;
    let access = access.open().await?;
    let namespace = &access.namespace;
    let api: Api<Scenario> = Api::namespaced(access.client.clone(), namespace);
    let (scenarios, numbers) = begun(&api, namespace).await?;
    if !numbers.contains(&number) {
        let message = format!(
            "chapter {number} has not begun in namespace {namespace}; `nephele workshop start {number}` begins it"
        );
        return Err(Problem::new(Exit::NotFound, message).into());
    }
    let run = Run {
        api: &api,
        namespace,
        former: &scenarios,
        shutdown: &shutdown,
    };
    let Some(ended) = run.followed(&scenario(&chapter.check)?).await? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let missing = match (failure(&ended), &chapter.trial) {
        (Some(why), _) => Some(why),
        (None, None) => None,
        (None, Some(trial)) => match prove(number, trial, &run).await? {
            Verdict::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            Verdict::Missing(why) => {
                // Otherwise the list and the board of a class would say that the chapter is done.
                delete(&api, &ended).await?;
                Some(why)
            }
            Verdict::Proved => None,
        },
    };
    if let Some(why) = missing {
        let message = format!(
            "chapter {number} is not done yet: {why}\n`nephele workshop hint {number}` helps, and `nephele workshop reset {number}` begins again"
        );
        return Err(Problem::new(Exit::Failed, message).into());
    }
    print(&(answers(&chapter) + &done(number)?))?;
    Ok(ExitCode::SUCCESS)
}

/// What a person reads whose task is done.
fn done(number: usize) -> anyhow::Result<String> {
    let next = workshop::find(number.saturating_add(1))?;
    let next = next.map_or_else(
        || "This was the last chapter.".to_owned(),
        |next| {
            format!(
                "Next: `nephele workshop start {}`, {}",
                next.number, next.about.title
            )
        },
    );
    Ok(format!("Chapter {number} is done.\n{next}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_chapter_is_named_until_the_last() {
        assert_eq!(
            done(1).expect("readable"),
            "Chapter 1 is done.\nNext: `nephele workshop start 2`, Desired and actual\n"
        );
        let last = done(workshop::len()).expect("readable");
        assert!(last.ends_with("\nThis was the last chapter.\n"), "{last}");
    }
}
