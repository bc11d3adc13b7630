//! Does what the plan says. Each action can be repeated.

use futures::{StreamExt as _, stream};
use kube::{Api, Client, ResourceExt as _, api::PostParams, core::Status};
use nephele_api::cloud::v1alpha1::{ClusterFault, Fault, REFUSAL_MESSAGE_MAX, RefusedNamespace};
use nephele_controller::{PatchError, Precondition, patch};

use super::plan::{Act, wanted};

/// How many requests are sent at a time for a ClusterFault. The manager's other requests have to get through, too.
const REQUESTS_AT_A_TIME: usize = 8;

/// How an action ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// It is done, or the namespace or the Fault has changed meanwhile: then a watch tells of it.
    Done,
    /// The management API does not take the Fault in this namespace.
    Refused(RefusedNamespace),
    /// It may work at the next attempt.
    Failed(PatchError),
}

/// Does everything, in order.
pub(super) async fn act(client: &Client, object: &ClusterFault, acts: Vec<Act>) -> Vec<Ending> {
    let doing = stream::iter(acts).map(|act| act_in(client, object, act));
    doing.buffered(REQUESTS_AT_A_TIME).collect().await
}

async fn act_in(client: &Client, object: &ClusterFault, act: Act) -> Ending {
    let faults = |namespace: &str| Api::<Fault>::namespaced(client.clone(), namespace);
    match act {
        Act::Create(namespace) => {
            let fault = wanted(object, &namespace);
            let created = faults(&namespace).create(&PostParams::default(), &fault).await;
            let object = format!("Fault {namespace}/{}", fault.name_any());
            let failed = |source| PatchError::Request {
                verb: "create",
                object,
                source,
            };
            ended(Some(&namespace), created.map_err(failed))
        }
        Act::Restore { known, wanted } => {
            let namespace = known.namespace().unwrap_or_default();
            let api = faults(&namespace);
            let restored = patch::object(&api, &*known, &*wanted, Precondition::ResourceVersion).await;
            ended(Some(&namespace), restored)
        }
        Act::Delete(fault) => {
            let api = faults(&fault.namespace().unwrap_or_default());
            ended(None, patch::delete(&api, &*fault).await)
        }
    }
}

/// The ending of an action that gives a Fault to a namespace, or to none.
fn ended<T>(namespace: Option<&str>, result: Result<T, PatchError>) -> Ending {
    let Err(error) = result else { return Ending::Done };
    let PatchError::Request {
        source: kube::Error::Api(status),
        ..
    } = &error
    else {
        return Ending::Failed(error);
    };
    match (status.code, namespace) {
        // The namespace is gone, or another write was faster.
        (404 | 409, _) => Ending::Done,
        (403, _) if is_of_ending_namespace(status) => Ending::Done,
        // Such as a quota of the namespace, an admission webhook, or a missing permission.
        (400 | 403 | 422, Some(namespace)) => {
            let message = status.message.chars().take(REFUSAL_MESSAGE_MAX).collect();
            Ending::Refused(RefusedNamespace {
                namespace: namespace.to_owned(),
                message,
            })
        }
        _ => Ending::Failed(error),
    }
}

/// Whether nothing can be created because the namespace is being deleted.
fn is_of_ending_namespace(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}
