//! The watches that keep the caches up to date.

use std::sync::Arc;

use futures::{
    Stream, StreamExt as _,
    stream::{BoxStream, SelectAll, iter},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher::{self, Event, Result as Watched, watcher},
    },
};
use nephele_api::{core::Cluster, labels};
use nephele_controller::{Kind, Readable, quietly_watched, trim};
use serde::de::DeserializeOwned;

use crate::{
    cache::{Cache, Caches, Key, Known, Played, checking, played},
    observe::class_of,
};

/// A Cluster that has rounds.
pub(crate) type Scheduled = PartialObjectMeta<Cluster>;

/// The Clusters that need a round.
pub(crate) type Triggers = SelectAll<BoxStream<'static, ObjectRef<Scheduled>>>;

/// Which cache a watch keeps up to date.
type CacheOf<T> = fn(&Caches) -> &Cache<T>;

/// Opens the watches. The caches are kept up to date while the triggers are read.
pub(crate) fn open(client: &Client, caches: &Arc<Caches>) -> (Store<Scheduled>, Triggers) {
    let (store, writer) = reflector::store();
    let open = Watches { client, caches };
    let mut triggers = Triggers::new();
    triggers.push(open.clusters(writer));
    triggers.push(open.classes());
    triggers.push(open.infrastructure());
    let of_clusters = watcher::Config::default().labels(labels::CLUSTER_NAME);
    triggers.push(open.labelled::<Secret>(|caches| &caches.secrets, of_clusters));
    let every = watcher::Config::default;
    triggers.push(open.labelled(|caches| &caches.machines, every()));
    triggers.push(open.labelled(|caches| &caches.infrastructure_machines, every()));
    triggers.push(open.labelled(|caches| &caches.pools, every()));
    triggers.push(open.labelled(|caches| &caches.infrastructure_pools, every()));
    triggers.push(open.whole(|caches| &caches.control_planes, Known::labelled));
    triggers.push(open.whole(|caches| &caches.deployments, Known::labelled));
    triggers.push(open.whole(|caches| &caches.sets, Known::labelled));
    triggers.push(open.whole(|caches| &caches.health_checks, checking));
    (store, triggers)
}

struct Watches<'a> {
    client: &'a Client,
    caches: &'a Arc<Caches>,
}

impl Watches<'_> {
    /// The Clusters, and the store of those that can have rounds.
    fn clusters(&self, mut writer: Writer<Scheduled>) -> BoxStream<'static, ObjectRef<Scheduled>> {
        let events = self.dynamic(&ApiResource::erase::<Cluster>(&()));
        let events = events.map(move |event| {
            let event = event?;
            writer.apply_watcher_event(&mapped(event.clone(), scheduled));
            Ok(mapped(event, |object| {
                let topology = object
                    .data
                    .pointer("/spec/topology")
                    .filter(|topology| !topology.is_null());
                let topology = topology.cloned();
                read(object, |cluster| played(cluster, topology))
            }))
        });
        self.follow(|caches| &caches.clusters, events, |_, _| Vec::new())
    }

    /// The ClusterClasses: each changes the Clusters whose topology names it.
    fn classes(&self) -> BoxStream<'static, ObjectRef<Scheduled>> {
        let kind = GroupVersionKind::gvk(nephele_api::core::GROUP, "v1beta2", "ClusterClass");
        let events = self.dynamic(&ApiResource::from_gvk_with_plural(&kind, "clusterclasses"));
        let known = |object: DynamicObject| Known::new(&object.metadata, None, Some(object.data));
        let events = events.map(move |event| event.map(|event| mapped(event, known)));
        let naming = |caches: &Caches, class: &Key| {
            caches.clusters.keys(|key, played: &Played| {
                let topology = played.topology.as_ref();
                topology
                    .and_then(|topology| class_of(topology, &key.namespace))
                    .as_ref()
                    == Some(class)
            })
        };
        self.follow(|caches| &caches.classes, events, naming)
    }

    /// The InMemoryClusters, which have no label before their Clusters own them.
    fn infrastructure(&self) -> BoxStream<'static, ObjectRef<Scheduled>> {
        let api = Api::all(self.client.clone());
        let events = quietly_watched(api, watcher::Config::default());
        let events = events.map(|event| event.map(|event| mapped(event, labelled)));
        let naming = |caches: &Caches, infrastructure: &Key| {
            caches.clusters.keys(|key, played: &Played| {
                let named = played.cluster.spec.infrastructure_ref.as_ref();
                key.namespace == infrastructure.namespace
                    && named.is_some_and(|reference| reference.name == infrastructure.name)
            })
        };
        self.follow(|caches| &caches.infrastructure, events, naming)
    }

    /// Objects with the label of their cluster. What of one cannot be read counts as absent, as for others.
    fn labelled<K: Kind>(
        &self,
        cache: CacheOf<K>,
        config: watcher::Config,
    ) -> BoxStream<'static, ObjectRef<Scheduled>> {
        let events = quietly_watched(Api::<Readable<K>>::all(self.client.clone()), config);
        let events = events.map(|event| event.map(|event| mapped(event, labelled)));
        self.follow(cache, events, |_, _| Vec::new())
    }

    /// Objects of a kind whose definition takes any field. One that cannot be read counts as absent: a user's mistake must
    /// not hide the others.
    fn whole<K>(
        &self,
        cache: CacheOf<K>,
        known: fn(K) -> Known<K>,
    ) -> BoxStream<'static, ObjectRef<Scheduled>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let events = self.dynamic(&ApiResource::erase::<K>(&()));
        let events = events.map(move |event| event.map(|event| mapped(event, |object| read(object, known))));
        self.follow(cache, events, |_, _| Vec::new())
    }

    fn dynamic(
        &self,
        resource: &ApiResource,
    ) -> impl Stream<Item = Watched<Event<DynamicObject>>> + Send + use<> {
        let api = Api::all_with(self.client.clone(), resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        events.map(|event| event.map(|event| mapped(event, trimmed)))
    }

    /// Takes the events of a watch. Returns the Clusters that have objects which changed, and those that name one.
    fn follow<T: Clone + Send + Sync + 'static>(
        &self,
        cache: CacheOf<T>,
        events: impl Stream<Item = Watched<Event<Known<T>>>> + Send + 'static,
        naming: fn(&Caches, &Key) -> Vec<Key>,
    ) -> BoxStream<'static, ObjectRef<Scheduled>> {
        let caches = Arc::clone(self.caches);
        let touched = events.flat_map(move |event| {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::debug!(error = %nephele_controller::chain(&error), "A watch failed");
                    return iter(Vec::new());
                }
            };
            let mut clusters = match &event {
                Event::Apply(known) | Event::Delete(known) => naming(&caches, &known.key),
                Event::Init | Event::InitApply(_) | Event::InitDone => Vec::new(),
            };
            let is_list = matches!(event, Event::InitDone);
            clusters.extend(cache(&caches).take(event));
            // The watches are opened at once, and before the last list nothing is decided.
            if is_list && caches.are_listed() {
                clusters = caches.clusters.keys(|_, _| true);
            }
            iter(clusters)
        });
        touched
            .map(|key| ObjectRef::new(&key.name).within(&key.namespace))
            .boxed()
    }
}

/// An object as its kind, or what is known of one that cannot be read.
fn read<K: DeserializeOwned, T>(object: DynamicObject, known: impl FnOnce(K) -> Known<T>) -> Known<T> {
    let metadata = object.metadata.clone();
    let cluster = labels::value(&metadata, labels::CLUSTER_NAME);
    let object = serde_json::to_value(object).and_then(serde_json::from_value);
    object.map_or_else(|_| Known::new(&metadata, cluster, None), known)
}

fn labelled<K: Resource>(object: K) -> Known<K> {
    Known::labelled(trimmed(object))
}

fn trimmed<K: Resource>(mut object: K) -> K {
    trim(&mut object);
    object
}

fn scheduled(object: DynamicObject) -> Scheduled {
    PartialObjectMeta {
        types: None,
        metadata: object.metadata,
        _phantom: std::marker::PhantomData,
    }
}

fn mapped<K, T>(event: Event<K>, map: impl Fn(K) -> T) -> Event<T> {
    match event {
        Event::Apply(object) => Event::Apply(map(object)),
        Event::InitApply(object) => Event::InitApply(map(object)),
        Event::Delete(object) => Event::Delete(map(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}
