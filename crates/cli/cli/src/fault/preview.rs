//! `nephele fault preview`: what a Fault or a ClusterFault would hit. It reads objects and writes nothing.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use nephele_api::cloud::v1alpha1::FaultBudget;

use super::{
    flags::{NamespaceArgs, SpecArgs, read, with_flag},
    selection::{Places, Selection, Share, told},
};
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    output::print,
};

pub(super) const AFTER_HELP: &str = "Examples:
  nephele fault preview notReady --zone zone-a --count 1
  nephele fault preview 'addresses: {exhausted: {}}' --namespace-selector workshop=true";

/// The most namespaces of a ClusterFault that are told of one by one, and the most names of each kind in one of them.
const NAMESPACES_MAX: usize = 20;
const NAMES_MAX: usize = 20;

/// The Fault, with the flags of `nephele fault add`.
#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    namespaces: NamespaceArgs,
    #[command(flatten)]
    wanted: SpecArgs,
    /// Ignored, so that the flags of `nephele fault add` can be tried as they are
    #[arg(long, hide = true)]
    name: Option<String>,
}

/// Prints what the Fault would select.
pub(super) async fn run(args: PreviewArgs) -> anyhow::Result<ExitCode> {
    let PreviewArgs {
        access,
        namespaces,
        wanted,
        name: _,
    } = args;
    let wrong = |why: String| Problem::new(Exit::Failed, format!("failed to preview the Fault: {why}"));
    let is_one = namespaces.is_one();
    let spec = read(namespaces.spec(wanted)).map_err(wrong)?;
    let access = access.open().await?;
    let namespace = is_one.then_some(&*access.namespace);
    let places = Places::list(&access.client, namespace, &spec).await?;
    let selections = places.selections(&spec.fault, Timestamp::now());
    let selections = selections.map_err(|mistake| wrong(with_flag(&mistake)))?;
    let text = match namespace {
        Some(namespace) => of_fault(namespace, &spec.fault.budget, &selections),
        None => of_cluster_fault(places.of, &spec.fault.budget, &selections),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What a Fault selects in its namespace, and what of that its budget lets it hit.
fn of_fault(namespace: &str, budget: &FaultBudget, selections: &[(String, Selection)]) -> String {
    let mut text = String::new();
    for (_, selection) in selections {
        let told = told(&selection.shares);
        text += &format!("The Fault selects {told} in namespace {namespace}.\n");
        text += &named(&selection.shares, usize::MAX);
        text += &hits(selection);
    }
    text + &limits(budget, "Of what it matches")
}

/// What a ClusterFault selects in its namespaces, of so many, and what of that its budget lets it hit in each.
fn of_cluster_fault(all: usize, budget: &FaultBudget, selections: &[(String, Selection)]) -> String {
    let plural = if all == 1 { "" } else { "s" };
    let mut text = format!(
        "The ClusterFault selects {} of {all} namespace{plural}.\n",
        selections.len()
    );
    let (hit, empty): (Vec<_>, Vec<_>) = selections
        .iter()
        .partition(|(_, selection)| !selection.is_nothing());
    for (namespace, selection) in hit.iter().take(NAMESPACES_MAX) {
        text += &format!(
            "In namespace {namespace} it selects {}.\n",
            told(&selection.shares)
        );
        text += &named(&selection.shares, NAMES_MAX);
    }
    match hit.len().saturating_sub(NAMESPACES_MAX) {
        0 => {}
        1 => text += "It selects something in 1 more namespace.\n",
        more => text += &format!("It selects something in {more} more namespaces.\n"),
    }
    match empty.len() {
        0 => {}
        1 => text += &format!("It selects nothing in namespace {}.\n", empty[0].0),
        empty => text += &format!("It selects nothing in {empty} of its namespaces.\n"),
    }
    // They depend on the effect alone.
    text += &selections
        .first()
        .map(|(_, selection)| hits(selection))
        .unwrap_or_default();
    text + &limits(budget, "Of what it matches in each namespace")
}

/// The names of what is selected, a line each, and how many more there are.
fn named(shares: &[Share], most: usize) -> String {
    let of_share = |Share { resource, names, .. }: &Share| {
        let lines = names
            .iter()
            .take(most)
            .map(|name| format!("  {resource}/{name}\n"));
        let more = names.len().saturating_sub(most);
        let more = (more > 0).then(|| format!("  and {more} more\n"));
        lines.chain(more).collect::<String>()
    };
    shares.iter().map(of_share).collect()
}

fn hits(selection: &Selection) -> String {
    let hits = selection.hits.as_ref();
    hits.map(|hits| format!("It hits {hits}.\n")).unwrap_or_default()
}

/// What of it the budget lets the Fault hit.
fn limits(budget: &FaultBudget, of_what: &str) -> String {
    let FaultBudget {
        skip,
        probability,
        count,
        ..
    } = budget;
    let limits = [
        skip.map(|skip| format!("spares the first {skip}")),
        probability
            .as_ref()
            .map(|probability| format!("hits each with probability {}", probability.get())),
        count.map(|count| format!("hits at most {count}")),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if limits.is_empty() {
        return String::new();
    }
    format!("{of_what}, it {}.\n", limits.join(", "))
}

#[cfg(test)]
mod tests;
