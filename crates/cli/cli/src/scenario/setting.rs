//! The cluster that a scenario runs on: reads what is there of it, and creates what is missing.

use std::time::Duration;

use anyhow::Context as _;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    runtime::wait::await_condition,
};
use nephele_access::{Kinds, kind_of};
use nephele_fake_capi::AVAILABLE;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::timeout;

use super::needs::{Found, Seen, kinds, named};
use crate::{
    embedded::is_embedded,
    exit::{Exit, Problem},
    output::print,
    template::Flavor,
};

/// How long a cluster may take until it is available: that of the largest entry on a busy machine.
const AVAILABLE_WITHIN: Duration = Duration::from_secs(600);

/// The management cluster, as far as scenarios need it.
pub(crate) struct Setting {
    client: Client,
    kinds: Kinds,
    namespace: String,
}

impl Setting {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            kinds: Kinds::new(client.clone()),
            client,
            namespace: namespace.to_owned(),
        }
    }

    /// Reads what is there of what a scenario needs: the kinds of its steps and, if it is one of the program's, these objects.
    pub(crate) async fn see(&self, scenario: &Value, cluster: Option<&[Value]>) -> anyhow::Result<Seen> {
        let mut seen = Seen {
            // Its API server is that of `nephele up`, where the stand-in plays. An API server that `up --attach --stand-in` uses
            // looks as any other one; there, the manager refuses what the stand-in cannot play.
            has_stand_in: is_embedded(&self.client).await?,
            ..Seen::default()
        };
        let kinds = match cluster {
            Some(_) => kinds(scenario),
            // A step may create a definition that a later one needs.
            None => vec![kind_of(scenario)],
        };
        for kind in kinds {
            let found = self.kinds.find(&kind).await;
            if found.map_err(|error| lookup(&kind.kind, error))?.is_none() {
                seen.unserved.push(kind);
            }
        }
        for object in cluster.unwrap_or_default() {
            seen.objects.push(self.found(object).await?);
        }
        Ok(seen)
    }

    async fn found(&self, object: &Value) -> anyhow::Result<Found> {
        let (kind, name) = named(object);
        let Some(api) = self.api(object).await? else {
            return Ok(Found::NoKind);
        };
        let read = api.get_opt(&name).await.map_err(|error| {
            let what = format!("read {kind} {}/{name}", self.namespace);
            Problem::request(&what, &format!("get objects of the kind {kind}"), error)
        })?;
        Ok(match read {
            Some(read) => Found::Object(serde_json::to_value(read).context("failed to read an object")?),
            None => Found::NoObject,
        })
    }

    /// Creates what is missing of the objects that a scenario needs, and waits until the cluster is available.
    pub(super) async fn make(&self, cluster: &[Value], seen: &Seen) -> anyhow::Result<()> {
        self.create_missing(cluster, seen, print).await?;
        for object in cluster {
            // A paused cluster waits for the scenario.
            if object["kind"] == "Cluster" && object["spec"]["paused"] != true {
                self.available(object).await?;
            }
        }
        Ok(())
    }

    /// Creates what is missing of the objects that a scenario needs, and tells of each.
    pub(crate) async fn create_missing(
        &self,
        cluster: &[Value],
        seen: &Seen,
        tell: fn(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if cluster
            .iter()
            .any(|object| object["spec"]["topology"].is_object())
        {
            self.create_class().await?;
        }
        for (object, found) in cluster.iter().zip(&seen.objects) {
            let (kind, name) = named(object);
            let place = &self.namespace;
            match found {
                Found::Object(_) => tell(&format!("{kind} {place}/{name} is there\n"))?,
                Found::NoObject | Found::NoKind => {
                    self.create(object, false).await?;
                    tell(&format!("{kind} {place}/{name} is created\n"))?;
                }
            }
        }
        Ok(())
    }

    /// Creates the class of the clusters with its templates, as far as they are missing.
    pub(crate) async fn create_class(&self) -> anyhow::Result<()> {
        for object in class()? {
            self.create(&object, true).await?;
        }
        Ok(())
    }

    /// Creates an object, which may exist already if it `is_shared`.
    async fn create(&self, object: &Value, is_shared: bool) -> anyhow::Result<()> {
        let (kind, name) = named(object);
        let api = self.api(object).await?.with_context(|| {
            format!("failed to create {kind} {name}: the management cluster does not serve this kind")
        })?;
        let wanted: DynamicObject =
            serde_json::from_value(object.clone()).context("failed to read an object of the library")?;
        match api.create(&PostParams::default(), &wanted).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 && is_shared => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(Problem::new(
                Exit::NotFound,
                format!(
                    "failed to create {kind} {name}: there is no namespace {0}; run `kubectl create namespace {0}`",
                    self.namespace
                ),
            )
            .into()),
            Err(error) => {
                let what = format!("create {kind} {}/{name}", self.namespace);
                Err(Problem::request(&what, &format!("create objects of the kind {kind}"), error).into())
            }
        }
    }

    async fn available(&self, cluster: &Value) -> anyhow::Result<()> {
        let (_, name) = named(cluster);
        let Some(api) = self.api(cluster).await? else {
            return Ok(());
        };
        let is_available = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| condition(&object.data).is_some_and(|(status, _)| status == "True"))
        };
        let place = &self.namespace;
        print(&format!("Cluster {place}/{name} comes up\n"))?;
        let waited = timeout(
            AVAILABLE_WITHIN,
            await_condition(api.clone(), &name, is_available),
        )
        .await;
        match waited {
            Ok(Ok(_)) => print(&format!("Cluster {place}/{name} is available\n")),
            Ok(Err(error)) => Err(error).with_context(|| format!("failed to watch Cluster {place}/{name}")),
            Err(_) => {
                let read = api.get_opt(&name).await.ok().flatten();
                let why = read.as_ref().and_then(|read| condition(&read.data));
                let why = why.map_or("its status has no condition Available", |(_, message)| message);
                let limit = nephele_go_duration::format(AVAILABLE_WITHIN);
                let message = format!("Cluster {place}/{name} is not available within {limit}: {why}");
                Err(Problem::new(Exit::Failed, message).into())
            }
        }
    }

    /// The API of an object, in the namespace of the scenario.
    async fn api(&self, object: &Value) -> anyhow::Result<Option<Api<DynamicObject>>> {
        let mut placed = object.clone();
        placed["metadata"]["namespace"] = self.namespace.as_str().into();
        let (kind, _) = named(object);
        Ok(self
            .kinds
            .api(&placed)
            .await
            .map_err(|error| lookup(&kind, error))?)
    }
}

fn lookup(kind: &str, error: kube::Error) -> Problem {
    Problem::request(&format!("look up the kind {kind}"), "read /apis", error)
}

/// Status and message of the condition Available.
fn condition(object: &Value) -> Option<(&str, &str)> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == AVAILABLE)?;
    Some((
        found["status"].as_str()?,
        found["message"].as_str().unwrap_or_default(),
    ))
}

/// The class of clusters with a topology, and its templates.
fn class() -> anyhow::Result<Vec<Value>> {
    let text = Flavor::Topology.class().unwrap_or_default();
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let objects: Result<Vec<_>, _> = documents.collect();
    let objects = objects.context("failed to read the class of the template")?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_brings_its_templates() {
        let class = class().expect("readable");
        assert_eq!(class[0]["kind"], "ClusterClass");
        assert!(class.len() > 4);
    }
}
