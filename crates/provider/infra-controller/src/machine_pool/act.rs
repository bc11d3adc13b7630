//! Creates and deletes machines. Everything here is idempotent.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Resource as _, ResourceExt as _,
    api::{Api, PostParams},
};
use nephele_api::{
    core::Machine,
    finalizers,
    infrastructure::v1beta2::{
        InMemoryMachine, InMemoryMachinePool, PoolMachine,
        pool_machine::{
            FAILURE_DOMAIN_ANNOTATION, POOL_NAME_LABEL, REVISION_ANNOTATION, VERSION_ANNOTATION, label_value,
        },
    },
    labels,
};
use nephele_controller::{Outcome, Precondition, owner_machine, patch, watch_filter_label};
use nephele_model::ClusterId;

use super::{
    Error,
    acted::Acted,
    members::owner_pool,
    plan::{Decision, New, Scale, Victim},
    validate::Model,
};
use crate::{context::Context, expected_capacity::ExpectedCapacity, finalizer::Finalizer, resolved_cloud};

/// The number of concurrent requests for one pool.
const AT_A_TIME: usize = 10;

fn api(object: &InMemoryMachinePool, context: &Context) -> Api<InMemoryMachinePool> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

/// Does what was decided. Returns the object as it was written last, and what was done.
pub(super) async fn act(
    object: Arc<InMemoryMachinePool>,
    context: &Context,
    decision: Decision,
) -> Result<(Arc<InMemoryMachinePool>, Acted), Error> {
    let object = match decision.finalizer() {
        Finalizer::Added => hold(object, context).await?,
        Finalizer::Kept | Finalizer::AddedWithSpec | Finalizer::Released => object,
    };
    let acted = match decision {
        Decision::Leave(outcome) => Acted::Left(outcome),
        Decision::Pause(message) => Acted::Rested(message),
        Decision::Unpause => Acted::Unpaused,
        Decision::Remove { victims, left } => {
            delete(&object, context, victims).await?;
            removed(&object, context, left).await?
        }
        Decision::Scale(wanted) => {
            own_again(&object, context, &wanted.disowned).await?;
            let written = scale(&object, context, &wanted).await?;
            let expected_capacity = expected_capacity(&object, context, &wanted.model);
            let acted = Acted::Scaled {
                scale: wanted,
                expected_capacity,
            };
            return Ok((written.map_or(object, Arc::new), acted));
        }
    };
    Ok((object, acted))
}

/// Lets the object go when no machine is left.
async fn removed(object: &InMemoryMachinePool, context: &Context, left: usize) -> Result<Acted, Error> {
    if left > 0 {
        return Ok(Acted::Deleting { left });
    }
    let api = api(object, context);
    let removed = patch::remove_finalizer(&api, object, finalizers::MACHINE_POOL).await;
    removed.map_err(Error::Patch)?;
    Ok(Acted::Left(Outcome::Done))
}

/// The hardware of the pool's machines.
fn expected_capacity(object: &InMemoryMachinePool, context: &Context, model: &Model) -> ExpectedCapacity {
    let id = ClusterId {
        namespace: object.namespace().unwrap_or_default(),
        name: model.cluster.clone(),
    };
    let PoolMachine {
        instance_type, image, ..
    } = &model.machine;
    let model = resolved_cloud::model(instance_type, image, &model.version);
    ExpectedCapacity::new(context.describe(&id.namespace, context.resolved_clouds.of(&id).as_deref(), &model))
}

/// Adds the finalizer, so that the object is not removed before its machines. Returns the object as it is then.
async fn hold(
    object: Arc<InMemoryMachinePool>,
    context: &Context,
) -> Result<Arc<InMemoryMachinePool>, Error> {
    let held = patch::add_finalizer(&api(&object, context), &object, finalizers::MACHINE_POOL).await;
    Ok(held.map_err(Error::Patch)?.map_or(object, Arc::new))
}

/// Creates and deletes machines, and lists the existing ones in the spec. Returns the object as it was written, if it
/// was.
async fn scale(
    object: &InMemoryMachinePool,
    context: &Context,
    scale: &Scale,
) -> Result<Option<InMemoryMachinePool>, Error> {
    let api = api(object, context);
    let machines: Api<InMemoryMachine> =
        Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let made: Vec<_> = scale
        .made
        .iter()
        .map(|new| machine(object, &scale.model, new))
        .collect();
    stream::iter(made)
        .map(|machine| make(&machines, object, machine))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    delete(object, context, scale.victims.clone()).await?;
    // Before the status says how many machines exist: then Cluster API reads spec and status.
    let mut wanted = object.clone();
    wanted.spec.provider_id_list.clone_from(&scale.provider_ids);
    patch::object(&api, object, &wanted, Precondition::None)
        .await
        .map_err(Error::Patch)
}

async fn make(
    api: &Api<InMemoryMachine>,
    pool: &InMemoryMachinePool,
    machine: InMemoryMachine,
) -> Result<(), Error> {
    let name = machine.name_any();
    match api.create(&PostParams::default(), &machine).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = api.get_opt(&name).await;
            let found = found.map_err(|source| Error::Read {
                kind: "InMemoryMachine",
                name: name.clone(),
                source,
            })?;
            let ours = found.is_none_or(|found| {
                owner_pool(&found.metadata).map(|(_, uid)| uid) == pool.metadata.uid.as_deref()
            });
            if ours { Ok(()) } else { Err(Error::Taken { name }) }
        }
        Err(source) => Err(Error::Create { name, source }),
    }
}

/// Makes the pool the owner of machines that do not say so, or not in the version that is written now.
async fn own_again(
    pool: &InMemoryMachinePool,
    context: &Context,
    disowned: &[Arc<InMemoryMachine>],
) -> Result<(), Error> {
    let machines: Api<InMemoryMachine> =
        Api::namespaced(context.client.clone(), &pool.namespace().unwrap_or_default());
    for machine in disowned {
        let mut wanted = InMemoryMachine::clone(machine);
        let owner = owner(pool);
        wanted
            .owner_references_mut()
            .retain(|other| other.kind != owner.kind || other.name != owner.name);
        wanted.owner_references_mut().push(owner);
        // The list is replaced as a whole.
        let patched = patch::object(&machines, &**machine, &wanted, Precondition::ResourceVersion).await;
        patched.map_err(Error::Own)?;
    }
    Ok(())
}

/// The owner of the machines of a pool. It is not their controller, because the Machine becomes the controller.
fn owner(pool: &InMemoryMachinePool) -> OwnerReference {
    OwnerReference {
        api_version: InMemoryMachinePool::api_version(&()).into_owned(),
        kind: InMemoryMachinePool::kind(&()).into_owned(),
        name: pool.name_any(),
        uid: pool.uid().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// The InMemoryMachine that Cluster API creates a Machine for.
fn machine(pool: &InMemoryMachinePool, model: &Model, new: &New) -> InMemoryMachine {
    let owner = owner(pool);
    let mut own_labels = BTreeMap::from([
        (labels::CLUSTER_NAME.to_owned(), model.cluster.clone()),
        (POOL_NAME_LABEL.to_owned(), label_value(&model.pool)),
    ]);
    own_labels.extend(watch_filter_label(&pool.metadata));
    let mut annotations = BTreeMap::from([(REVISION_ANNOTATION.to_owned(), model.revision.clone())]);
    if !model.version.is_empty() {
        annotations.insert(VERSION_ANNOTATION.to_owned(), model.version.clone());
    }
    if let Some(domain) = &new.failure_domain {
        annotations.insert(FAILURE_DOMAIN_ANNOTATION.to_owned(), domain.clone());
    }
    InMemoryMachine {
        metadata: ObjectMeta {
            name: Some(new.name.clone()),
            namespace: pool.namespace(),
            labels: Some(own_labels),
            annotations: Some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: model.machine.clone().into(),
        status: None,
    }
}

/// Deletes Machines, and InMemoryMachines that have none.
async fn delete(object: &InMemoryMachinePool, context: &Context, victims: Vec<Victim>) -> Result<(), Error> {
    let namespace = object.namespace().unwrap_or_default();
    stream::iter(victims)
        .map(|victim| delete_one(&namespace, context, victim))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await
}

async fn delete_one(namespace: &str, context: &Context, victim: Victim) -> Result<(), Error> {
    let machines: Api<Machine> = Api::namespaced(context.client.clone(), namespace);
    let objects: Api<InMemoryMachine> = Api::namespaced(context.client.clone(), namespace);
    let read = |kind, name: &str| {
        let name = name.to_owned();
        move |source| Error::Read { kind, name, source }
    };
    match victim {
        Victim::Machine(name) => {
            let found = machines.get_opt(&name).await.map_err(read("Machine", &name))?;
            let Some(machine) = found else { return Ok(()) };
            patch::delete(&machines, &machine)
                .await
                .map(drop)
                .map_err(Error::Delete)
        }
        Victim::InMemoryMachine(name) => {
            let found = objects
                .get_opt(&name)
                .await
                .map_err(read("InMemoryMachine", &name))?;
            let Some(object) = found else { return Ok(()) };
            // An InMemoryMachine that got its Machine meanwhile is deleted through the Machine, in the next reconcile.
            let owner = owner_machine(&object.metadata).map_or(&name, |owner| &owner.name);
            if machines
                .get_opt(owner)
                .await
                .map_err(read("Machine", owner))?
                .is_some()
            {
                return Ok(());
            }
            patch::delete(&objects, &object)
                .await
                .map(drop)
                .map_err(Error::Delete)
        }
    }
}
