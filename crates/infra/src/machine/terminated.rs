//! Instances that vanished behind the provider's back.
//!
//! A person has one vanish by an annotation ([`TERMINATE_ANNOTATION`]). It is noted on the object before the cloud is
//! asked, so that no restart and no other management cluster brings the instance back. Conditions tell, and nothing
//! else: the object stays, and stays provisioned, and a MachineHealthCheck or a person replaces its Machine.
//!
//! [`TERMINATE_ANNOTATION`]: nephele_api::infrastructure::v1beta2::termination::TERMINATE_ANNOTATION

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use nephele_api::conditions::{self, condition, reasons, types};
use nephele_api::infrastructure::v1beta2::termination::Termination;
use nephele_api::infrastructure::v1beta2::{InMemoryMachine, InMemoryMachineStatus};
use nephele_cloud::{Deletion, MachineId, Role};
use nephele_kit::{Outcome, Precondition, patch};
use tracing::info;

use super::validate::Validated;
use super::{Error, report};
use crate::context::Context;

const MESSAGE: &str = "The simulated instance was terminated and does not come back";

/// A machine whose instance is not there any more, or is about to vanish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terminated {
    id: MachineId,
    role: Role,
    /// Whether the object says so already.
    noted: bool,
}

/// Whether the instance of a machine is gone or has to go, behind the back of who wants it. Pure.
pub(super) fn terminated(object: &InMemoryMachine, validated: &Validated) -> Option<Terminated> {
    let Validated::Wanted(wanted) = validated else { return None };
    let status = object.status.as_ref();
    let pauses = status.is_some_and(|status| conditions::is_true(&status.conditions, types::PAUSED));
    if pauses || object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let noted = object.termination().is_some();
    let runs = status.is_some_and(|status| status.start_time.is_some());
    let (id, role) = (wanted.spec.id.clone(), wanted.spec.role);
    (noted || (runs && object.is_to_terminate())).then_some(Terminated { id, role, noted })
}

/// Has the instance vanish, and says so.
pub(super) async fn reconcile(
    object: &InMemoryMachine,
    context: &Context,
    terminated: Terminated,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let Terminated { id, role, noted } = terminated;
    let mut written = None;
    if !noted || object.keeps_annotations() {
        let api: Api<InMemoryMachine> = Api::namespaced(context.client.clone(), &id.cluster.namespace);
        let mut wanted = object.clone();
        wanted.instance_mut().termination.get_or_insert(Termination { time: MicroTime(now) });
        written = patch::object(&api, object, &wanted, Precondition::None).await.map_err(Error::Patch)?;
        if !noted {
            info!(machine = %id, "An instance was terminated");
        }
    }
    let object = written.as_ref().unwrap_or(object);
    let deletion = context.cloud.delete_machine(&id);
    report::write(object, context, status(object, role, now)).await.map_err(Error::Patch)?;
    Ok(match deletion {
        Deletion::Gone => Outcome::Done,
        Deletion::InProgress => Outcome::WaitingOn("deletion"),
    })
}

/// The status of a machine without an instance. Where it was and what it was called stays. Pure.
fn status(object: &InMemoryMachine, role: Role, now: Timestamp) -> InMemoryMachineStatus {
    let vm = condition(types::VM_PROVISIONED, conditions::FALSE, reasons::INSTANCE_TERMINATED, MESSAGE);
    report::not_booting(object, vm, role, now)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use nephele_api::infrastructure::v1beta2::instance::InstanceRecord;
    use nephele_api::infrastructure::v1beta2::termination::TERMINATE_ANNOTATION;
    use nephele_cloud::ClusterId;
    use nephele_testkit::objects;

    use super::super::fetch::Fetched;
    use super::super::validate::validate;
    use super::*;

    fn cluster() -> ClusterId {
        ClusterId { namespace: "default".into(), name: "demo".into() }
    }

    fn validated(object: &InMemoryMachine) -> Validated {
        let fetched = Fetched {
            owned: true,
            machine: Some(Arc::new(objects::worker("demo", "m"))),
            id: Some(cluster()),
            cluster: Some(Arc::new(objects::cluster("demo"))),
            ..Fetched::default()
        };
        validate(object, fetched)
    }

    fn object(annotations: &[(&str, &str)]) -> InMemoryMachine {
        let mut object = objects::in_memory_machine(&objects::worker("demo", "m"));
        for (name, value) in annotations {
            objects::annotate(&mut object, name, value);
        }
        let start_time = Some(MicroTime(Timestamp::UNIX_EPOCH));
        object.status = Some(InMemoryMachineStatus { start_time, ..InMemoryMachineStatus::default() });
        object
    }

    /// An object that notes that the instance of this machine was terminated.
    fn terminated_before(machine: &str) -> InMemoryMachine {
        let mut object = object(&[]);
        let termination = Some(Termination { time: MicroTime(Timestamp::UNIX_EPOCH) });
        let instance = InstanceRecord { machine: machine.into(), termination, ..InstanceRecord::default() };
        object.spec.instance = Some(Box::new(instance));
        object
    }

    #[test]
    fn an_instance_vanishes_when_it_is_there_and_once_it_has_whatever_is_said_later() {
        let noted = |object: &InMemoryMachine| {
            let terminated = terminated(object, &validated(object))?;
            let id = MachineId { cluster: cluster(), name: "m".into() };
            assert_eq!((terminated.id, terminated.role), (id, Role::Worker));
            Some(terminated.noted)
        };
        assert_eq!(noted(&object(&[])), None);
        let asked = object(&[(TERMINATE_ANNOTATION, "")]);
        assert_eq!(noted(&asked), Some(false));
        // There is none yet.
        assert_eq!(noted(&InMemoryMachine { status: None, ..asked.clone() }), None);
        let gone = terminated_before("m");
        assert_eq!(noted(&gone), Some(true));
        // As after a move to another management cluster.
        assert_eq!(noted(&InMemoryMachine { status: None, ..gone.clone() }), Some(true));
        assert_eq!(noted(&terminated_before("other")), None);
        let mut going = gone.clone();
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(noted(&going), None);
        let mut paused = gone;
        let condition = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, "");
        paused.status.get_or_insert_default().conditions.push(condition);
        assert_eq!(noted(&paused), None);
    }
}
