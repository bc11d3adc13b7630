//! Reads objects of the management cluster.

use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams, core::DynamicObject};
use nephele_api::{cloud, core, infrastructure, ipam};
use serde_json::Value;

use super::{
    describe::Related,
    found::{Found, Surroundings},
    resource::{Resource, is_of_no_namespace},
};
use crate::{
    access::Access,
    exit::{Exit, Problem, is_forbidden},
};

/// Reads objects in one namespace, or in all.
pub(super) struct Reader {
    access: Access,
    scope: Option<String>,
}

impl Reader {
    pub(super) fn new(access: Access, scope: Option<String>) -> Self {
        Self { access, scope }
    }

    /// All objects of a resource, or the one of this name.
    pub(super) async fn find(&self, resource: Resource, name: Option<&str>) -> anyhow::Result<Found> {
        let (group, kinds) = resource.kinds();
        let mut objects = Vec::new();
        let mut missing = None;
        for kind in kinds {
            match self.list(group, kind, name).await {
                Ok(found) => objects.extend(found),
                // Of four kinds of pools, not all may be there.
                Err(error) if error.downcast_ref().is_some_and(is_not_found) => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (missing, name) {
            (Some(error), None) if objects.is_empty() => Err(error),
            (_, Some(name)) if objects.is_empty() => {
                let place = self
                    .scope_of(resource)
                    .map(|namespace| format!(" in namespace {namespace}"));
                let message = format!(
                    "there is no {} {name}{}",
                    resource.singular(),
                    place.unwrap_or_default()
                );
                Err(Problem::new(Exit::NotFound, message).into())
            }
            _ => Ok(Found { resource, objects }),
        }
    }

    /// What is shown beside the objects of a resource. Without Nephele or without IPAM, some of it is missing.
    pub(super) async fn surroundings(&self, resource: Resource) -> anyhow::Result<Surroundings> {
        let mut around = Surroundings::default();
        match resource {
            Resource::Clusters | Resource::Machines => {
                around.machines = self.list(core::GROUP, "Machine", None).await?;
                around.simulated_machines = self.optional(infrastructure::GROUP, "InMemoryMachine").await?;
                around.faults = match self.optional(cloud::GROUP, "Fault").await {
                    // The right to look at clusters is enough to look at clusters.
                    Err(error) if is_forbidden(&error) => Vec::new(),
                    faults => faults?,
                };
                if resource == Resource::Clusters {
                    around.simulated_clusters =
                        self.optional(infrastructure::GROUP, "InMemoryCluster").await?;
                }
            }
            // Claims of all namespaces wait for a global pool.
            Resource::Pools => {
                let everywhere = Self::new(self.access.clone(), None);
                around.claims = everywhere.optional(ipam::GROUP, "IPAddressClaim").await?;
            }
            Resource::Claims => around.addresses = self.optional(ipam::GROUP, "IPAddress").await?,
            Resource::Clouds | Resource::Faults | Resource::ClusterFaults | Resource::Scenarios => {}
        }
        Ok(around)
    }

    /// The namespace in which objects of a resource are read, if it is one.
    fn scope_of(&self, resource: Resource) -> Option<&str> {
        let (_, kinds) = resource.kinds();
        let is_of_none = kinds.into_iter().all(is_of_no_namespace);
        self.scope.as_deref().filter(|_| !is_of_none)
    }

    /// Events about these objects, in any order.
    pub(super) async fn events(&self, related: &[Related<'_>]) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        for object in related {
            let uid = object.uid();
            // Events about an object without a namespace are in this one.
            let namespace = object.namespace().unwrap_or("default");
            let api = Api::<Event>::namespaced(self.access.client.clone(), namespace);
            let listed = api
                .list(&ListParams::default().fields(&format!("involvedObject.uid={uid}")))
                .await;
            let permission = format!("list events in namespace {namespace}");
            let listed = listed.map_err(|error| Problem::request("read the events", &permission, error))?;
            events.extend(
                listed
                    .items
                    .into_iter()
                    .filter(|event| event.involved_object.uid.as_deref() == Some(uid)),
            );
        }
        Ok(events)
    }

    /// What to say when there is nothing.
    pub(super) fn nothing(&self, resource: Resource) -> String {
        match self.scope_of(resource) {
            Some(namespace) => format!("There is no {} in namespace {namespace}.", resource.singular()),
            None => format!("There is no {}.", resource.singular()),
        }
    }

    async fn optional(&self, group: &str, kind: &str) -> anyhow::Result<Vec<Value>> {
        match self.list(group, kind, None).await {
            Err(error) if error.downcast_ref().is_some_and(is_not_found) => Ok(Vec::new()),
            listed => listed,
        }
    }

    async fn list(&self, group: &str, kind: &str, name: Option<&str>) -> anyhow::Result<Vec<Value>> {
        let resource = self.access.kind(group, kind).await?;
        let global = is_of_no_namespace(kind);
        let api = self
            .access
            .api(&resource, self.scope.as_deref().filter(|_| !global));
        let what = format!("read {}.{group}", resource.plural);
        let place = match &self.scope {
            Some(namespace) if !global => format!("in namespace {namespace}"),
            _ => "in all namespaces".to_owned(),
        };
        let failed = |verb: &str, error| {
            Problem::request(
                &what,
                &format!("{verb} {}.{group} {place}", resource.plural),
                error,
            )
        };
        let objects: Vec<DynamicObject> = match name {
            Some(name) => {
                let found = api.get_opt(name).await.map_err(|error| failed("get", error))?;
                found.into_iter().collect()
            }
            None => {
                api.list(&ListParams::default())
                    .await
                    .map_err(|error| failed("list", error))?
                    .items
            }
        };
        let version = (resource.api_version.as_str(), resource.kind.as_str());
        Ok(objects.into_iter().map(|object| value(object, version)).collect())
    }
}

fn is_not_found(problem: &Problem) -> bool {
    problem.exit == Exit::NotFound
}

/// The object as kubectl shows it. The items of a list come without version and kind.
fn value(mut object: DynamicObject, (api_version, kind): (&str, &str)) -> Value {
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    value
}
