//! Carries out the decided actions on the objects that own Machines, and on health checks.

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _, core::object::HasStatus};
use nephele_controller::Kind;
use serde::Serialize;

use crate::{
    act::{ActError, Actor},
    cache::Written,
    decide::OwnerAction,
    names::{CONTROL_PLANE_FINALIZER, DEPLOYMENT_FINALIZER, SET_FINALIZER},
};

impl Actor<'_> {
    /// An action on a KubeadmControlPlane, MachineDeployment, MachineSet or MachineHealthCheck.
    pub(crate) async fn act_on_owner(&self, action: OwnerAction) -> Result<(), ActError> {
        let control_plane = self.observed.control_plane.as_ref();
        let deployment = |name: &str| find(&self.observed.deployments, name);
        let set = |name: &str| find(&self.observed.sets, name);
        let check = |name: &str| find(&self.observed.health_checks, name);
        match action {
            OwnerAction::CreateControlPlane(object) => self.create(&*object).await,
            OwnerAction::ChangeControlPlane(new) => self.change(control_plane, &*new).await,
            OwnerAction::ReportControlPlane(status) => self.report_on(control_plane, *status).await,
            OwnerAction::DeleteControlPlane => self.delete(control_plane).await,
            OwnerAction::ReleaseControlPlane => self.release(control_plane, CONTROL_PLANE_FINALIZER).await,
            OwnerAction::CreateDeployment(object) => self.create(&*object).await,
            OwnerAction::ChangeDeployment(new) => self.change(deployment(&new.name_any()), &*new).await,
            OwnerAction::ReportDeployment {
                deployment: name,
                status,
            } => self.report_on(deployment(&name), *status).await,
            OwnerAction::DeleteDeployment(name) => self.delete(deployment(&name)).await,
            OwnerAction::ReleaseDeployment(name) => {
                self.release(deployment(&name), DEPLOYMENT_FINALIZER).await
            }
            OwnerAction::CreateSet(object) => self.create(&*object).await,
            OwnerAction::ScaleSet(new) => self.change(set(&new.name_any()), &*new).await,
            OwnerAction::ReportSet { set: name, status } => self.report_on(set(&name), *status).await,
            OwnerAction::DeleteSet(name) => self.delete(set(&name)).await,
            OwnerAction::ReleaseSet(name) => self.release(set(&name), SET_FINALIZER).await,
            OwnerAction::CreateHealthCheck(object) => self.create(&*object).await,
            OwnerAction::ChangeHealthCheck(new) => self.change(check(&new.name_any()), &*new).await,
            OwnerAction::ReportHealthCheck { check: name, status } => {
                self.report_on(check(&name), *status).await
            }
            OwnerAction::DeleteHealthCheck(name) => self.delete(check(&name)).await,
        }
    }
}

impl Actor<'_> {
    /// Changes an object, if it was there.
    async fn change<K>(&self, old: Option<&K>, new: &K) -> Result<(), ActError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Kind + Written + PartialEq,
    {
        let Some(old) = old else { return Ok(()) };
        self.patch(old, new).await
    }

    /// Writes the status of an object, if it was there.
    async fn report_on<K>(&self, old: Option<&K>, status: K::Status) -> Result<(), ActError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Kind + Written + HasStatus<Status: Serialize + PartialEq>,
    {
        let Some(old) = old else { return Ok(()) };
        let mut new = old.clone();
        *new.status_mut() = Some(status);
        self.report(old, &new).await
    }
}

fn find<'a, K: Resource>(objects: &'a [K], name: &str) -> Option<&'a K> {
    objects
        .iter()
        .find(|object| object.meta().name.as_deref() == Some(name))
}
