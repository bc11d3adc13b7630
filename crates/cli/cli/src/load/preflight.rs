//! Refuses a run that cannot work, before anything is created.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::ListParams};
use nephele_api::core::{Cluster, Machine};
use serde_json::Value;

use super::{
    create::variable,
    management::Management,
    names::listed,
    plan::{LABEL, Shape},
};
use crate::exit::{Exit, Problem};

/// Looks whether the run can work. Returns the version of the API server.
pub(super) async fn check(management: &Management, shape: &Shape) -> anyhow::Result<String> {
    let version =
        management.client.apiserver_version().await.map_err(|error| {
            Problem::request("read the version of the API server", "read /version", error)
        })?;
    let names = shape.names();
    let first = names.first().map(String::as_str).unwrap_or_default();
    // Reads the templates, too.
    let objects = shape
        .shared()?
        .into_iter()
        .chain(shape.objects(first, &variable)?);
    for object in objects {
        management.api(&object).await?;
    }
    let client = &management.client;
    let place = format!("in namespace {}", shape.namespace);
    let clusters = Api::<Cluster>::namespaced(client.clone(), &shape.namespace);
    let clusters = clusters.list(&ListParams::default()).await.map_err(|error| {
        Problem::request(
            "list Clusters",
            &format!("list and watch clusters {place}"),
            error,
        )
    })?;
    let machines = Api::<Machine>::namespaced(client.clone(), &shape.namespace);
    machines
        .list(&ListParams::default().limit(1))
        .await
        .map_err(|error| {
            Problem::request(
                "list Machines",
                &format!("list and watch machines {place}"),
                error,
            )
        })?;
    let there = clusters.iter().map(kube::ResourceExt::name_any);
    let taken: Vec<_> = there.filter(|name| names.binary_search(name).is_ok()).collect();
    if let Some(message) = taken_message(&taken, &place) {
        return Err(Problem::new(Exit::Failed, message).into());
    }
    // An account that may not read namespaces sees later that one is missing.
    let namespaces = Api::<Namespace>::all(client.clone());
    if let Ok(None) = namespaces.get_opt(&shape.namespace).await {
        let message = format!("there is no namespace {}", shape.namespace);
        return Err(Problem::new(Exit::NotFound, message).into());
    }
    for object in shape.shared()? {
        refuse_shared(management, &object, &place).await?;
    }
    Ok(version.git_version)
}

/// Refuses an object of an earlier run, which its clusters may still use.
async fn refuse_shared(management: &Management, object: &Value, place: &str) -> anyhow::Result<()> {
    let api = management.api(object).await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let found = api.get_opt(name).await.map_err(|error| {
        Problem::request(
            &format!("read {kind} {name}"),
            &format!("get {kind} {place}"),
            error,
        )
    })?;
    let Some(found) = found else { return Ok(()) };
    let run = found.labels().get(LABEL);
    let mend = match run {
        Some(run) => format!("delete what that run has left: the objects with the label {LABEL}={run}"),
        None => "it is of no run: choose another namespace".to_owned(),
    };
    let message = format!("{kind} {name} exists already {place}; {mend}");
    Err(Problem::new(Exit::Failed, message).into())
}

fn taken_message(taken: &[String], place: &str) -> Option<String> {
    if taken.is_empty() {
        return None;
    }
    Some(format!(
        "Clusters with these names exist already {place}: {}; delete them, or choose other names with --name-prefix",
        listed(taken)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_are_listed_up_to_a_few() {
        assert_eq!(taken_message(&[], "here"), None);
        let names: Vec<_> = (1..=7).map(|number| format!("load-{number}")).collect();
        let message = taken_message(&names, "in namespace a").expect("taken");
        assert!(
            message.contains("in namespace a: load-1, load-2, load-3, load-4, load-5 and 2 more;"),
            "{message}"
        );
    }
}
