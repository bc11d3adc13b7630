//! Answers calls to update a machine: reads its object, decides, and requests the update.

use nephele_controller::{Clock, PatchError, Precondition, patch};
use nephele_runtime_sdk::hooks::{Failure, Settings, UpdateMachineRequest, UpdateMachineResponse};
use thiserror::Error;

use super::{
    groups::INFRASTRUCTURE_GROUP,
    step::{Pace, Step, step},
    target::target,
};
use crate::{
    access::{Access, NameError, object_name, shown},
    script::preloaded,
    settings::{DISABLE_IN_PLACE_UPDATES, is_true},
};

/// The most bytes of a requested update in its object, as JSON; an object may have 1.5 MiB. 64 paths of 512
/// characters with their digests are 40 KB.
const UPDATE_BYTES_MAX: usize = 64 << 10;

/// Why a machine cannot be updated.
#[derive(Debug, Error)]
pub(crate) enum UpdateError {
    /// The settings disable in-place updates.
    #[error("updates in place are off: {DISABLE_IN_PLACE_UPDATES} is true")]
    Off,
    /// The machine is not a simulated one.
    #[error("the machine is a {0:?}, not an InMemoryMachine")]
    Foreign(String),
    /// A name in the request is refused.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A Machine may only refer to infrastructure in its own namespace.
    #[error("the Machine and its InMemoryMachine are in different namespaces")]
    Namespaces,
    /// The requested versions and files are too large for an object.
    #[error("the update takes {bytes} bytes, of at most {UPDATE_BYTES_MAX}")]
    TooLarge {
        /// The length of the update as JSON.
        bytes: usize,
    },
    /// The machine's object could not be read.
    #[error("failed to read InMemoryMachine {name}")]
    Read {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The request could not be written to the object.
    #[error("failed to request the update")]
    Ask(#[source] PatchError),
}

/// Requests the update of a machine, or reports its progress: Cluster API calls again until it is done.
pub(crate) async fn update_machine(
    access: &Access,
    clock: &Clock,
    request: UpdateMachineRequest,
) -> Result<UpdateMachineResponse, Failure> {
    let settings: &Settings = &request.settings;
    if is_true(settings, DISABLE_IN_PLACE_UPDATES) {
        return Err(UpdateError::Off.into());
    }
    let infrastructure = &request.desired.infrastructure_machine;
    if infrastructure.group() != INFRASTRUCTURE_GROUP || infrastructure.kind() != "InMemoryMachine" {
        return Err(UpdateError::Foreign(shown(infrastructure.kind())).into());
    }
    let pace = Pace::of(settings)?;
    let machine = &request.desired.machine;
    if machine.namespace() != infrastructure.namespace() {
        return Err(UpdateError::Namespaces.into());
    }
    let api = access
        .machines(infrastructure.namespace())
        .map_err(UpdateError::Name)?;
    let name = object_name("InMemoryMachine", infrastructure.name()).map_err(UpdateError::Name)?;
    let machine_name = object_name("Machine", machine.name()).map_err(UpdateError::Name)?;
    let cluster = machine.text("/spec/clusterName").unwrap_or_default();
    let calls = [
        format!("UpdateMachine-{machine_name}"),
        "UpdateMachine".to_owned(),
    ];
    let preloaded = preloaded(access, machine.namespace(), cluster, settings, &calls).await?;

    let found = api.get(name).await;
    let object = found.map_err(|source| UpdateError::Read {
        name: name.to_owned(),
        source: Box::new(source),
    })?;
    let known = object
        .origin()
        .and_then(|origin| origin.software)
        .unwrap_or_default();
    let target = target(&request.desired, &known);
    match step(&object, &target, preloaded, &pace, clock()) {
        Step::Answer(response) => Ok(response),
        Step::Ask(update, response) => {
            let bytes = serde_json::to_vec(&update)
                .expect("names and times are JSON")
                .len();
            if bytes > UPDATE_BYTES_MAX {
                return Err(UpdateError::TooLarge { bytes }.into());
            }
            let mut wanted = object.clone();
            wanted.instance_mut().update = Some(*update);
            // The machine's manager writes to the object when an update is over. That must not be overwritten.
            match patch::object(&api, &object, &wanted, Precondition::ResourceVersion).await {
                Ok(_) => Ok(response),
                // The object was changed meanwhile; the next call sees the change.
                Err(error) if error.is_conflict() => {
                    Ok(UpdateMachineResponse::retry_after(1, response.message))
                }
                Err(error) => Err(UpdateError::Ask(error).into()),
            }
        }
    }
}
