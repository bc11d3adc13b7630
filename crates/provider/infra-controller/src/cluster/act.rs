//! Creates or deletes a cluster. Everything here is idempotent.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use kube::{Api, Resource as _, ResourceExt as _};
use nephele_api::{
    conditions::reasons,
    finalizers,
    infrastructure::v1beta2::{ControlPlaneEndpoint, InMemoryCluster},
};
use nephele_cloud::{CallError, ClusterError, Deletion, LoadBalancer};
use nephele_controller::{Event, Outcome, Precondition, Severity, patch};
use nephele_model::{ClusterId, Endpoint};
use tracing::warn;

use super::{
    Error,
    acted::{Acted, Applied, outcome},
    credentials,
    plan::Plan,
    validate::{Wanted, first_created},
};
use crate::{
    authorities::AuthoritiesState,
    claims::{self, Claim, Made, Unmet},
    context::Context,
    finalizer::{Finalizer, Removal, is_held},
    messages::retry,
};

fn api(object: &InMemoryCluster, context: &Context) -> Api<InMemoryCluster> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

/// Does what was planned. Returns the object as it was written last, and what was done.
pub(super) async fn act(
    object: Arc<InMemoryCluster>,
    context: &Context,
    plan: Plan,
) -> Result<(Arc<InMemoryCluster>, Acted), Error> {
    let object = match plan.finalizer() {
        Finalizer::Added => hold(object, context).await?,
        Finalizer::Kept | Finalizer::AddedWithSpec | Finalizer::Released => object,
    };
    let acted = match plan {
        Plan::Leave(outcome) => Acted::Left(outcome),
        Plan::Unpause => Acted::Unpaused,
        Plan::WaitForCloud(name) => Acted::WithoutCloud(name),
        Plan::Support(wanted) => Acted::Left(support(&object, context, &wanted)),
        Plan::Pause { message, kept } => {
            let outcome = kept.map(|wanted| keep(&object, context, &wanted));
            Acted::Rested {
                message,
                outcome: outcome.unwrap_or(Outcome::WaitingOn("unpaused")),
            }
        }
        Plan::Abandon(id) => {
            abandon(context, &id);
            Acted::Left(Outcome::Done)
        }
        Plan::Wait { unmet, wanted } => wait(&object, context, unmet, &wanted).await?,
        Plan::Remove(id) => {
            let removal = remove(&object, context, id.as_ref()).await?;
            removed(&object, context, removal).await?
        }
        Plan::ResumeRemoval(wanted) => {
            let removal = resume_removal(&object, context, &wanted).await?;
            removed(&object, context, removal).await?
        }
        Plan::Provide(wanted) => {
            let mut applied = provide(&object, context, &wanted).await?;
            let written = applied.object.take();
            let acted = Acted::Provided {
                id: wanted.spec.id,
                applied: Box::new(applied),
            };
            return Ok((written.map_or(object, Arc::new), acted));
        }
    };
    Ok((object, acted))
}

/// Adds the finalizer, so that the object is not removed before the resources that are created for it. Returns the object as
/// it is then.
async fn hold(object: Arc<InMemoryCluster>, context: &Context) -> Result<Arc<InMemoryCluster>, Error> {
    let held = patch::add_finalizer(&api(&object, context), &object, finalizers::CLUSTER).await;
    Ok(held.map_err(Error::Patch)?.map_or(object, Arc::new))
}

/// Claims the address of the load balancer.
async fn wait(
    object: &InMemoryCluster,
    context: &Context,
    unmet: Unmet,
    wanted: &Wanted,
) -> Result<Acted, Error> {
    let cluster = &wanted.spec.id.name;
    claims::own_again(object, cluster, context)
        .await
        .map_err(Error::Claims)?;
    let made = claims::make(object, cluster, wanted.claim.as_slice(), context).await;
    Ok(match made.map_err(Error::Claims)? {
        Made::All => Acted::Claimed(unmet),
        Made::NotInstalled => Acted::NotInstalled,
    })
}

/// How far a deletion is. Lets the object go when nothing is left.
async fn removed(
    object: &InMemoryCluster,
    context: &Context,
    removal: Removal<CallError>,
) -> Result<Acted, Error> {
    let (message, outcome) = match removal {
        Removal::Done => {
            let_go(object, context).await?;
            return Ok(Acted::Left(Outcome::Done));
        }
        Removal::InProgress => {
            let message = "Waiting for the deletion of the load balancer".to_owned();
            (message, Outcome::WaitingOn("deletion"))
        }
        Removal::Refused(error) => (nephele_controller::chain(&error), retry(error.class())),
        Removal::Releasing(left) => (claims::release_message(&left), Outcome::After(claims::RELEASE)),
    };
    Ok(Acted::Deleting { message, outcome })
}

/// Creates or updates the cluster, and publishes it in its object.
async fn provide(object: &InMemoryCluster, context: &Context, wanted: &Wanted) -> Result<Applied, Error> {
    let id = &wanted.spec.id;
    claims::own_again(object, &id.name, context)
        .await
        .map_err(Error::Claims)?;
    let advertised_host = context.cloud.advertised_host().to_owned();
    let claimed = wanted.claim.as_ref().and_then(Claim::address).cloned();
    let resolved_cloud = Arc::clone(&wanted.resolved_cloud);
    let new = wanted.observed.is_none();
    show(context, wanted);
    // Asked first: one that returns meanwhile is then in the answer.
    let is_early = !context.machines_reserved.load(Ordering::Acquire);
    let expected = expected(object, context, id, is_early);
    let is_early = is_early && !expected.is_empty();
    let LoadBalancer { endpoint, backends } = match make(context, wanted) {
        Ok(balancer) => balancer,
        Err(error) => {
            // A cluster that was provisioned before a restart runs, whatever the cloud answers to reads.
            if new && object.is_provisioned() {
                support(object, context, wanted);
            }
            return Ok(Applied {
                object: None,
                endpoint: Err(error),
                backends: None,
                expected,
                is_early,
                advertised_host,
                authorities: AuthoritiesState::Missing,
                resolved_cloud,
                claimed,
            });
        }
    };
    if new && object.is_provisioned() && endpoint.host != advertised_host {
        warn!(cluster = %id, %endpoint, advertised_host, "A cluster stays published under another host");
    }
    let published = publish(object, context, &endpoint).await.inspect_err(|_| {
        // Without the finalizer nothing would delete the cluster when the object is deleted now. No client knows the
        // cluster yet, so delete it.
        if new && !is_held(&object.metadata, finalizers::CLUSTER) {
            context.cloud.delete_cluster(id);
        }
    })?;
    // The endpoint is fixed, and the status does not say yet that the cluster is provisioned.
    if context.prepare_credentials && !object.is_provisioned() {
        credentials::prepare(object, context, &wanted.cluster, &endpoint).await;
    }
    let authorities = hand_over(object, context, wanted);
    if new {
        // Machines that were up before a restart wait for their cluster.
        context.machine_triggers.wake(id);
    }
    Ok(Applied {
        object: published,
        endpoint: Ok(endpoint),
        backends: Some(backends),
        expected,
        is_early,
        advertised_host,
        authorities,
        resolved_cloud,
        claimed,
    })
}

/// The machines behind the load balancer, according to the status, that the cloud does not have yet after a restart. When
/// they are back, they are behind it again.
fn expected(object: &InMemoryCluster, context: &Context, id: &ClusterId, is_early: bool) -> BTreeSet<String> {
    let listed = object
        .status
        .iter()
        .flat_map(|status| &status.load_balancer)
        .flat_map(|known| &known.backends);
    let names = listed.map(|backend| backend.name.clone()).collect();
    if is_early {
        names
    } else {
        context.cloud.expected_machines(id, names)
    }
}

/// Creates the cluster and reads its load balancer from the cloud.
fn make(context: &Context, wanted: &Wanted) -> Result<LoadBalancer, ClusterError> {
    let id = &wanted.spec.id;
    context.cloud.ensure_cluster(wanted.spec.clone())?;
    let described = context.cloud.describe_load_balancer(id)?;
    // The load balancer was deleted between the two calls.
    described.ok_or_else(|| ClusterError::Unknown(id.clone()))
}

/// Stores the offer for the machines of a cluster, before the cloud has the cluster.
fn show(context: &Context, wanted: &Wanted) {
    if context
        .resolved_clouds
        .note(&wanted.spec.id, &wanted.resolved_cloud)
    {
        context.machine_triggers.wake(&wanted.spec.id);
    }
}

/// Restores a cluster that was provisioned before a restart, without writing to its object. A cluster that runs is left
/// alone.
fn keep(object: &InMemoryCluster, context: &Context, wanted: &Wanted) -> Outcome {
    let complete = wanted
        .observed
        .as_ref()
        .is_some_and(|observed| observed.authorities_set);
    // The load balancer of a cluster that is being deleted may be gone.
    let is_gone = object.metadata.deletion_timestamp.is_some()
        && wanted.observed.is_none()
        && !context.cloud.expects_load_balancer(&wanted.spec.id);
    match if complete || is_gone {
        Outcome::Done
    } else {
        support(object, context, wanted)
    } {
        Outcome::After(after) => Outcome::After(after),
        Outcome::Done | Outcome::WaitingOn(_) => Outcome::WaitingOn("unpaused"),
    }
}

/// Runs the simulated cluster of an object that must not be written to: an externally managed or a paused one.
fn support(object: &InMemoryCluster, context: &Context, wanted: &Wanted) -> Outcome {
    let id = &wanted.spec.id;
    show(context, wanted);
    let endpoint = context
        .cloud
        .ensure_cluster(wanted.spec.clone())
        .inspect_err(|error| {
            let error = nephele_controller::chain(error);
            warn!(cluster = %id, error, "Failed to run the cluster of a paused or externally managed object");
        });
    let authorities = if endpoint.is_ok() {
        hand_over(object, context, wanted)
    } else {
        AuthoritiesState::Missing
    };
    if endpoint.is_ok() && wanted.observed.is_none() {
        context.machine_triggers.wake(id);
    }
    outcome(&endpoint, &authorities)
}

/// Deletes a simulated cluster that has no InMemoryCluster of this provider any more.
pub(crate) fn abandon(context: &Context, id: &ClusterId) {
    context.cloud.delete_cluster(id);
    context.authorities.forget(id);
    context.resolved_clouds.forget(id);
    context.backends_written.forget(id);
}

/// Writes the finalizer, the endpoint and the time of the cluster's creation in one patch.
async fn publish(
    object: &InMemoryCluster,
    context: &Context,
    endpoint: &Endpoint,
) -> Result<Option<InMemoryCluster>, Error> {
    let Endpoint { host, port } = endpoint.clone();
    let mut published = object.clone();
    published.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
        host,
        port: i32::from(port),
    });
    published.set_first_created(first_created(object));
    let mut precondition = Precondition::None;
    if !is_held(&object.metadata, finalizers::CLUSTER) {
        published.finalizers_mut().push(finalizers::CLUSTER.to_owned());
        // The list is replaced as a whole.
        precondition = Precondition::ResourceVersion;
    }
    patch::object(&api(object, context), object, &published, precondition)
        .await
        .map_err(Error::Patch)
}

/// Gives the authorities to the cloud, unless the cloud has them already.
fn hand_over(object: &InMemoryCluster, context: &Context, wanted: &Wanted) -> AuthoritiesState {
    let id = &wanted.spec.id;
    let Some(sources) = &wanted.authorities else {
        return AuthoritiesState::Missing;
    };
    let versions = sources.versions();
    let has_some = wanted
        .observed
        .as_ref()
        .is_some_and(|observed| observed.authorities_set);
    match context.authorities.known(id, &versions) {
        Some(AuthoritiesState::InUse) if !has_some => {}
        Some(state) => return state,
        None => {}
    }
    let state = match sources.read() {
        Err(error) => AuthoritiesState::Invalid(nephele_controller::chain(&error)),
        Ok(authorities) => match context.cloud.set_authorities(id, authorities) {
            Ok(()) => AuthoritiesState::InUse,
            Err(error) => AuthoritiesState::Invalid(nephele_controller::chain(&error)),
        },
    };
    if context.authorities.note(id, versions, &state) {
        context.machine_triggers.wake(id);
        if let AuthoritiesState::Invalid(message) = &state {
            context.events.publish(Event {
                regarding: object.object_ref(&()),
                severity: Severity::Warning,
                reason: reasons::INVALID_CERTIFICATE_AUTHORITY,
                action: "Reconcile",
                note: message.clone(),
            });
        }
    }
    state
}

/// Restores a cluster from before a restart that is to be deleted, and deletes it: until the cloud deletes its load
/// balancer, it runs.
async fn resume_removal(
    object: &InMemoryCluster,
    context: &Context,
    wanted: &Wanted,
) -> Result<Removal<CallError>, Error> {
    if context.cloud.expects_load_balancer(&wanted.spec.id) {
        support(object, context, wanted);
        // Where it cannot run, it would be deleted past Faults.
        if let Err(error) = context.cloud.adopt_load_balancer(&wanted.spec) {
            return Ok(Removal::answered(Some(Err(error))));
        }
    }
    remove(object, context, Some(&wanted.spec.id)).await
}

/// Deletes a cluster, its load balancer first. Returns how far that is.
async fn remove(
    object: &InMemoryCluster,
    context: &Context,
    id: Option<&ClusterId>,
) -> Result<Removal<CallError>, Error> {
    let answer = id.map(|id| context.cloud.delete_load_balancer(id));
    if let (Some(id), Some(Ok(Deletion::Gone))) = (id, &answer) {
        abandon(context, id);
    }
    let removal = Removal::answered(answer);
    if !removal.is_done() {
        return Ok(removal);
    }
    let cluster = id.map(|id| id.name.as_str());
    let left = claims::release(object, cluster, context)
        .await
        .map_err(Error::Claims)?;
    Ok(removal.with_claims(left))
}

/// Removes the finalizer when nothing else is left.
async fn let_go(object: &InMemoryCluster, context: &Context) -> Result<(), Error> {
    let removed = patch::remove_finalizer(&api(object, context), object, finalizers::CLUSTER).await;
    removed.map(drop).map_err(Error::Patch)
}
