//! Restores a checkpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use nephele_api::{conditions, infrastructure::v1beta2::InMemoryCluster, labels};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    clear::{all, clear, refuse_classes_in_use},
    error::{Cause, RestoreError},
    file::Checkpoint,
    kinds::{self, Kind, kind_of},
    order::{self, Generation, Part, is_cluster, is_scenario},
    rehearse::rehearse,
    workloads::Workloads,
};

/// Requests in flight: as many as a busy controller of Cluster API has.
pub(crate) const AT_A_TIME: usize = 10;
/// The time between two attempts to give objects to a manager that still runs clusters.
const RETRY: Duration = Duration::from_millis(200);
/// The field manager of Cluster API's topology controller (`internal/controllers/topology/cluster/structuredmerge` of
/// cluster-api). It rolls machines out again if it does not find itself as the manager of their fields.
const TOPOLOGY_MANAGER: &str = "capi-topology";

/// How to restore a checkpoint.
pub struct Restore<'a, W> {
    pub client: &'a Client,
    pub workloads: &'a W,
    /// Whether to remove what is in the namespaces of the checkpoint.
    pub replace: bool,
    /// How long the removal may take.
    pub time_limit: Duration,
    /// Told what happens, in a few words.
    pub report: &'a (dyn Fn(&str) + Sync),
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Objects of the management cluster.
    pub objects: usize,
    /// Workload clusters with their objects.
    pub clusters: usize,
}

/// An object that was created again.
struct Created<'a> {
    kind: &'a Kind,
    saved: DynamicObject,
    part: Part,
}

impl<W: Workloads + Sync> Restore<'_, W> {
    /// Brings the namespaces of a checkpoint back to it. After a failure, the whole restoration can be repeated.
    ///
    /// # Errors
    /// When there is something in the namespaces and it should not be removed, or the management API would refuse an object:
    /// then nothing was changed. When the management API refuses a request after that, or the manager does not answer.
    pub async fn run(&self, checkpoint: Checkpoint) -> Result<Restored, RestoreError> {
        let Checkpoint {
            header,
            objects,
            clusters,
        } = checkpoint;
        let namespaces = &header.namespaces;
        let restored = Restored {
            objects: objects.len(),
            clusters: clusters.len(),
        };
        let kinds = kinds::discover(self.client).await;
        let kinds = kinds.map_err(request("list the CustomResourceDefinitions"))?;
        // Before anything is removed.
        for object in &objects {
            known(&kinds, object)?;
        }
        let here = self.occupants(&kinds, namespaces).await?;
        refuse_classes_in_use(self.client, &kinds, namespaces, &here).await?;
        rehearse(self.client, &kinds, namespaces, &objects).await?;
        if !here.is_empty() {
            (self.report)(&format!("Removing {} objects", here.len()));
            clear(
                self.client,
                &kinds,
                namespaces,
                here,
                self.time_limit,
                self.report,
            )
            .await?;
        }
        let begun = AtomicUsize::new(0);
        match self.fill(&kinds, namespaces, objects, &clusters, &begun).await {
            Ok(()) => Ok(restored),
            Err(source) => Err(RestoreError::Stopped {
                created: begun.into_inner(),
                objects: restored.objects,
                source: Box::new(source),
            }),
        }
    }

    /// Creates everything in namespaces without objects. `begun` counts what was created.
    async fn fill(
        &self,
        kinds: &[Kind],
        namespaces: &[String],
        objects: Vec<DynamicObject>,
        clusters: &[Value],
        begun: &AtomicUsize,
    ) -> Result<(), RestoreError> {
        (self.report)("Giving the objects of the workload clusters to the manager");
        self.put_back(clusters).await?;
        (self.report)("Creating the objects");
        self.create_namespaces(namespaces).await?;
        let mut uids = BTreeMap::new();
        let mut created = Vec::new();
        let mut generations = order::generations(objects).into_iter().peekable();
        while let Some(Generation { part, objects }) = generations.next() {
            created.extend(self.create_all(kinds, part, objects, &mut uids, begun).await?);
            // What clusters depend on acts before they are there, as after a restart.
            if part == Part::Surroundings && generations.peek().is_none_or(|next| next.part != part) {
                let ready = created.iter().filter(|created| !is_late(created));
                self.each(ready, "resume an object", |created| self.resume(created))
                    .await?;
            }
        }
        // The claims that a Fault holds have their new uids only now, and none of them asks before the Fault acts.
        let holding = created
            .iter()
            .filter(|created| order::holds_claims(&created.saved));
        self.each(holding, "resume a Fault", |created| {
            self.hold_again(created, &uids)
        })
        .await?;
        (self.report)("Resuming the clusters");
        self.all_run(clusters).await?;
        let clusters = created.iter().filter(|created| is_cluster(&created.saved));
        self.each(clusters, "resume a Cluster", |created| self.resume(created))
            .await?;
        let claims = created
            .iter()
            .filter(|created| order::is_lone_claim(&created.saved, created.part));
        self.each(claims, "resume an IPAddressClaim", |created| self.resume(created))
            .await?;
        let scenarios = created.iter().filter(|created| is_scenario(&created.saved));
        self.each(scenarios, "resume a Scenario", |created| self.resume(created))
            .await?;
        let going = created
            .iter()
            .filter(|created| created.saved.metadata.deletion_timestamp.is_some());
        self.each(going, "delete an object that was being deleted", |created| {
            self.delete(created)
        })
        .await?;
        self.workloads.forget().await.map_err(manager)
    }

    /// What is in the namespaces and is to be removed. Refuses if there is something and it is not.
    async fn occupants(
        &self,
        kinds: &[Kind],
        namespaces: &[String],
    ) -> Result<Vec<(Kind, DynamicObject)>, RestoreError> {
        let here = all(self.client, kinds, namespaces).await?;
        if !here.is_empty() && !self.replace {
            let clusters = here.iter().filter(|(_, object)| is_cluster(object));
            return Err(RestoreError::Occupied {
                objects: here.len(),
                clusters: clusters.map(|(_, object)| object.name_any()).collect(),
            });
        }
        Ok(here)
    }

    /// Gives the objects of the workload clusters to the manager, as soon as it has deleted its clusters.
    async fn put_back(&self, clusters: &[Value]) -> Result<(), RestoreError> {
        let begun = Instant::now();
        let lines: Bytes = clusters
            .iter()
            .map(|cluster| format!("{cluster}\n"))
            .collect::<String>()
            .into();
        let wanted = names(clusters);
        loop {
            // The names are few bytes, and the objects may be many.
            let is_free = self.first(&wanted, true).await?.is_none();
            if is_free && self.workloads.put_back(lines.clone()).await.map_err(manager)? {
                return Ok(());
            }
            if begun.elapsed() >= self.time_limit {
                return Err(RestoreError::StillRunning(begun.elapsed()));
            }
            sleep(RETRY).await;
        }
    }

    /// What the InMemoryCluster of a workload cluster, as `namespace/name`, says of itself.
    async fn why_it_does_not_run(&self, cluster: &str) -> String {
        let (namespace, name) = cluster.split_once('/').unwrap_or(("default", cluster));
        let api = Api::<InMemoryCluster>::namespaced(self.client.clone(), namespace);
        let labels = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME));
        let Ok(found) = api.list(&labels).await else {
            return "its InMemoryCluster cannot be read".to_owned();
        };
        let said = found.items.into_iter().find_map(|object| {
            let status = object.status?;
            let ready = conditions::find(&status.conditions, conditions::types::READY)?;
            Some(ready.message.clone())
        });
        said.unwrap_or_else(|| "its InMemoryCluster says nothing yet".to_owned())
    }

    /// Waits until the manager runs the workload clusters, which it does although they are paused.
    async fn all_run(&self, clusters: &[Value]) -> Result<(), RestoreError> {
        let begun = Instant::now();
        let wanted = names(clusters);
        while let Some(cluster) = self.first(&wanted, false).await? {
            if begun.elapsed() >= self.time_limit {
                return Err(RestoreError::DoesNotRun {
                    why: self.why_it_does_not_run(&cluster).await,
                    cluster,
                    waited: begun.elapsed(),
                });
            }
            sleep(RETRY).await;
        }
        Ok(())
    }

    /// The first of these workload clusters that runs, or that does not.
    async fn first(&self, clusters: &Names<'_>, runs: bool) -> Result<Option<String>, RestoreError> {
        for (namespace, names) in clusters {
            let running = self.workloads.names(namespace).await.map_err(manager)?;
            if let Some(name) = names.iter().find(|name| running.contains(**name) == runs) {
                return Ok(Some(format!("{namespace}/{name}")));
            }
        }
        Ok(None)
    }

    async fn create_namespaces(&self, namespaces: &[String]) -> Result<(), RestoreError> {
        for name in namespaces {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.clone());
            match Api::all(self.client.clone())
                .create(&PostParams::default(), &namespace)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                created => drop(created.map_err(request("create a namespace"))?),
            }
        }
        Ok(())
    }

    async fn create_all<'k>(
        &self,
        kinds: &'k [Kind],
        part: Part,
        objects: Vec<DynamicObject>,
        uids: &mut BTreeMap<String, String>,
        begun: &AtomicUsize,
    ) -> Result<Vec<Created<'k>>, RestoreError> {
        let known_uids = &*uids;
        let created = stream::iter(objects).map(|saved| async move {
            let kind = known(kinds, &saved)?;
            self.create(kind, saved, part, known_uids, begun).await
        });
        let created: Vec<_> = created.buffer_unordered(AT_A_TIME).try_collect().await?;
        let (created, pairs): (Vec<_>, Vec<_>) = created.into_iter().unzip();
        uids.extend(pairs);
        Ok(created)
    }

    /// Creates an object again, with its status. Returns its uid in the checkpoint and its new one.
    async fn create<'k>(
        &self,
        kind: &'k Kind,
        saved: DynamicObject,
        part: Part,
        uids: &BTreeMap<String, String>,
        begun: &AtomicUsize,
    ) -> Result<(Created<'k>, (String, String)), RestoreError> {
        let api = kind.api(self.client, &saved.namespace().unwrap_or_default());
        let name = saved.name_any();
        let failed = |what: &str| request(&format!("{what} {} {name}", kind.resource.kind));
        let prepared = order::prepared(&saved, part, uids);
        let made = api.create(&PostParams::default(), &prepared).await;
        let made = made.map_err(failed("create"))?;
        begun.fetch_add(1, Ordering::Relaxed);
        let params = PatchParams::default();
        if kind.has_status
            && let Some(status) = order::status(&saved, made.metadata.generation)
        {
            let patch = json!({ "status": status });
            let written = api.patch_status(&name, &params, &Patch::Merge(&patch)).await;
            written.map_err(failed("write the status of"))?;
        }
        if let Some(fields) = managed_fields(&saved) {
            let patch = json!({ "metadata": { "managedFields": fields } });
            let written = api.patch(&name, &params, &Patch::Merge(&patch)).await;
            written.map_err(failed("write the managed fields of"))?;
        }
        let uids = (saved.uid().unwrap_or_default(), made.uid().unwrap_or_default());
        Ok((Created { kind, saved, part }, uids))
    }

    async fn each<'c, 'k: 'c, F: Future<Output = Result<(), kube::Error>>>(
        &self,
        created: impl Iterator<Item = &'c Created<'k>>,
        what: &str,
        act: impl Fn(&'c Created<'k>) -> F,
    ) -> Result<(), RestoreError> {
        let acts = stream::iter(created.map(act)).buffer_unordered(AT_A_TIME);
        acts.try_collect::<()>().await.map_err(request(what))
    }

    async fn resume(&self, created: &Created<'_>) -> Result<(), kube::Error> {
        match order::resumed(&created.saved, created.part) {
            Some(patch) => {
                let (api, name) = self.place(created);
                api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await
                    .map(drop)
            }
            None => Ok(()),
        }
    }

    /// Resumes a Fault that holds claims, after it knows them by their new uids.
    async fn hold_again(
        &self,
        created: &Created<'_>,
        uids: &BTreeMap<String, String>,
    ) -> Result<(), kube::Error> {
        if let Some(patch) = order::held_claims(&created.saved, uids) {
            let (api, name) = self.place(created);
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        self.resume(created).await
    }

    async fn delete(&self, created: &Created<'_>) -> Result<(), kube::Error> {
        let (api, name) = self.place(created);
        api.delete(&name, &DeleteParams::background()).await.map(drop)
    }

    fn place(&self, created: &Created<'_>) -> (Api<DynamicObject>, String) {
        let namespace = created.saved.namespace().unwrap_or_default();
        (
            created.kind.api(self.client, &namespace),
            created.saved.name_any(),
        )
    }
}

/// Whether it is resumed after the clusters are there.
fn is_late(created: &Created<'_>) -> bool {
    let Created { saved, part, .. } = created;
    is_scenario(saved) || order::holds_claims(saved) || order::is_lone_claim(saved, *part)
}

fn known<'a>(kinds: &'a [Kind], object: &DynamicObject) -> Result<&'a Kind, RestoreError> {
    kind_of(kinds, object).ok_or_else(|| {
        let types = object.types.clone().unwrap_or_default();
        RestoreError::Kind {
            api_version: types.api_version,
            kind: types.kind,
        }
    })
}

/// Who manages the fields of an object of a topology.
fn managed_fields(saved: &DynamicObject) -> Option<Value> {
    let fields = saved.metadata.managed_fields.as_ref()?;
    let of_topology = fields
        .iter()
        .any(|entry| entry.manager.as_deref() == Some(TOPOLOGY_MANAGER));
    of_topology.then(|| json!(fields))
}

/// The names of workload clusters, by namespace.
type Names<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn names(clusters: &[Value]) -> Names<'_> {
    let mut names = Names::new();
    for cluster in clusters {
        let text = |field: &str| cluster[field].as_str().unwrap_or_default();
        names.entry(text("namespace")).or_default().insert(text("name"));
    }
    names
}

fn manager(error: impl Into<Cause>) -> RestoreError {
    RestoreError::Manager(error.into())
}

pub(crate) fn request(what: &str) -> impl FnOnce(kube::Error) -> RestoreError + use<> {
    let what = what.to_owned();
    |source| RestoreError::Request { what, source }
}
