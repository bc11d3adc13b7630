//! The scenarios of `config/scenarios` where the stand-in plays Cluster API.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use nephele_scenario_library::{Entry, Needs};
use serde_json::Value;

use crate::{
    book::{NAMESPACE, available, scenario},
    quiet::Quiet,
    world::paused_runtime,
};

const LEASE: Duration = Duration::from_secs(36_000);

/// Runs each scenario in a world of its own, on the cluster that it needs. One that needs Cluster API itself has to say so at once.
///
/// # Errors
/// With the first scenario that does not do so.
pub fn library() -> Result<(), String> {
    let entries = nephele_scenario_library::all().map_err(|error| error.to_string())?;
    for entry in entries {
        paused_runtime().block_on(async {
            let world = Quiet::start(LEASE).await;
            let played = play(&world.api.client(), &entry).await;
            world.stop().await;
            played.map_err(|error| format!("the scenario {}: {error:#}", entry.name))
        })?;
    }
    Ok(())
}

async fn play(client: &Client, entry: &Entry) -> anyhow::Result<()> {
    let wanted = placed(&entry.scenario);
    if let Needs::ClusterApi(_) = entry.needs {
        let refusal = scenario(client, &wanted).await.err().context("it passed")?;
        let said = refusal.to_string();
        ensure!(
            said.ends_with("which the stand-in for Cluster API does not have"),
            "it says: {said}"
        );
        return Ok(());
    }
    for object in &entry.cluster {
        create(client, &placed(object)).await?;
    }
    available(client).await?;
    scenario(client, &wanted).await
}

/// An object in the namespace of the scenarios.
fn placed(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = NAMESPACE.into();
    object
}

async fn create(client: &Client, object: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}
