//! Answers calls to update a machine: looks at its object, decides, and asks.

use kube::{Api, Client, ResourceExt as _};
use nephele_api::infrastructure::v1beta2::{InMemoryMachine, update::UPDATE_ANNOTATION};
use nephele_kit::{Clock, PatchError, Precondition, patch};
use nephele_runtime_sdk::hooks::{Failure, Settings, UpdateMachineRequest, UpdateMachineResponse};
use thiserror::Error;

use super::{INFRASTRUCTURE_GROUP, Pace, Step, step, target};
use crate::script::preloaded;
use crate::settings::{DISABLE_IN_PLACE_UPDATES, is_true};

/// Why a machine cannot be updated.
#[derive(Debug, Error)]
pub(crate) enum UpdateError {
    /// It was said that none is.
    #[error("updates in place are off: {DISABLE_IN_PLACE_UPDATES} is true")]
    Off,
    /// It is none of ours.
    #[error("the machine is no InMemoryMachine but {0:?}")]
    Foreign(String),
    /// Its object could not be read.
    #[error("failed to read InMemoryMachine {name}")]
    Read {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// It could not be asked.
    #[error("failed to ask for the update")]
    Ask(#[source] PatchError),
}

/// Has a machine become what its objects are to be, a bit further with each call.
pub(crate) async fn update_machine(
    client: &Client,
    clock: &Clock,
    request: UpdateMachineRequest,
) -> Result<UpdateMachineResponse, Failure> {
    let settings: &Settings = &request.settings;
    if is_true(settings, DISABLE_IN_PLACE_UPDATES) {
        return Err(UpdateError::Off.into());
    }
    let infrastructure = &request.desired.infrastructure_machine;
    if infrastructure.group() != INFRASTRUCTURE_GROUP || infrastructure.kind() != "InMemoryMachine" {
        return Err(UpdateError::Foreign(infrastructure.kind().to_owned()).into());
    }
    let pace = Pace::of(settings)?;
    let machine = &request.desired.machine;
    let cluster = machine.text("/spec/clusterName").unwrap_or_default();
    let calls = [format!("UpdateMachine-{}", machine.name()), "UpdateMachine".to_owned()];
    let preloaded = preloaded(client, machine.namespace(), cluster, settings, &calls).await?;

    let api: Api<InMemoryMachine> = Api::namespaced(client.clone(), infrastructure.namespace());
    let found = api.get(infrastructure.name()).await;
    let object = found.map_err(|source| UpdateError::Read {
        name: infrastructure.name().to_owned(),
        source: Box::new(source),
    })?;
    let known = object.origin().and_then(|origin| origin.software).unwrap_or_default();
    let target = target(&request.desired, &known);
    match step(&object, &target, preloaded, &pace, clock()) {
        Step::Answer(response) => Ok(response),
        Step::Ask(update, response) => {
            let mut wanted = object.clone();
            wanted.annotations_mut().insert(UPDATE_ANNOTATION.to_owned(), update.text());
            // Who has the machine notes there when an update is over, and that must not be lost.
            match patch::object(&api, &object, &wanted, Precondition::ResourceVersion).await {
                Ok(_) => Ok(response),
                // The next call sees what came before.
                Err(error) if error.is_conflict() => {
                    Ok(UpdateMachineResponse::retry_after(1, response.message))
                }
                Err(error) => Err(UpdateError::Ask(error).into()),
            }
        }
    }
}
