//! `nephele scenario stop`: deletes a Scenario, and with it its Faults.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use kube::Api;
use nephele_api::cloud::v1alpha1::Scenario;
use nephele_scenario_library as library;

use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    objects,
    output::print,
};

pub(super) const AFTER_HELP: &str = "\
The Faults of the scenario end. What its steps changed stays, such as numbers of workers and quotas.

Examples:
  nephele scenario stop quota
  nephele scenario stop quota -n workshop";

/// How long the deletion may take: a manager deletes the Faults first.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Which scenario.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The name of the Scenario.
    name: String,
    #[command(flatten)]
    access: AccessArgs,
}

/// Deletes the Scenario, and waits until its Faults are gone.
pub(super) async fn run(args: StopArgs) -> anyhow::Result<ExitCode> {
    let StopArgs { name, access } = args;
    let access = access.open().await?;
    let api: Api<Scenario> = Api::namespaced(access.client, &access.namespace);
    let scenario = read(&api, &access.namespace, &name).await?;
    delete(&api, &scenario).await?;
    print(&format!(
        "Scenario {}/{name} is deleted, and its Faults are gone\n",
        access.namespace
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The Scenario of a name.
pub(super) async fn read(api: &Api<Scenario>, namespace: &str, name: &str) -> anyhow::Result<Scenario> {
    let read = api.get_opt(name).await.map_err(|error| {
        let what = format!("read Scenario {namespace}/{name}");
        Problem::request(&what, "get scenarios.cloud.nephele.dev", error)
    })?;
    read.ok_or_else(|| {
        let mut message = format!("there is no Scenario {name} in namespace {namespace}");
        if library::names().any(|known| known == name) {
            message += &format!("; `nephele scenario run {name}` runs the one of the library");
        }
        Problem::new(Exit::NotFound, message).into()
    })
}

/// Deletes this Scenario and no later one of its name, and waits until it is gone.
pub(crate) async fn delete(api: &Api<Scenario>, scenario: &Scenario) -> anyhow::Result<()> {
    objects::delete(api, scenario, GONE_WITHIN, ", because its Faults are").await
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn only_the_scenario_that_was_read_is_deleted() {
        let management = ManagementApi::start();
        let object = json!({
            "metadata": { "name": "s", "namespace": "default" }, "spec": { "steps": [{ "say": "hello" }] },
        });
        let scenario: Scenario = serde_json::from_value(object).expect("a Scenario");
        management.create(&scenario).await;
        let api = management.api::<Scenario>();
        let first = read(&api, "default", "s").await.expect("it is there");
        delete(&api, &first).await.expect("deleted");
        let error = read(&api, "default", "s").await.expect_err("it is gone");
        assert_eq!(
            error.downcast_ref::<Problem>().expect("a problem").exit,
            Exit::NotFound
        );
        management.create(&scenario).await;
        delete(&api, &first).await.expect_err("another one");
        read(&api, "default", "s").await.expect("it is there");
    }
}
