use std::{collections::BTreeSet, sync::Arc};

use futures::{Stream, StreamExt, TryStreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    by_namespace::{ByNamespace, Names},
    events::{Event, Severity},
    failures::ObjectKey,
    listed::{Listed, Listing},
    lists::{Lists, Step, Steps},
    own_task::own_task,
    readable::{Kind, Readable},
    services::Services,
    stretch::in_stretches,
    watch_failure::watch_failed,
};

/// The annotation with a copy of the object, which `kubectl apply` writes.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The most touched objects that a slow subscriber may lag behind. A subscriber that lags further gets every object of
/// the cache instead, and misses deletions alone. 1,024 pointers are 16 KiB.
const TOUCHED_BACKLOG: usize = 1024;

/// The API of the kind `K` in one namespace, or in all namespaces; [`Readable`] objects for watches.
#[must_use]
pub fn scoped<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Drops the fields that no controller reads: managed fields and the copy of `kubectl apply`. Together they are often
/// more than half of an object.
pub fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    let annotations = &mut object.meta_mut().annotations;
    if let Some(present) = annotations {
        present.remove(LAST_APPLIED_ANNOTATION);
        if present.is_empty() {
            *annotations = None;
        }
    }
}

/// A local copy of the objects of one kind, kept up to date by one watch and shared by every controller that reads
/// them. Cheap to clone.
pub struct Cache<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    by_namespace: ByNamespace<K>,
    listed: Listed,
    touched: broadcast::Sender<Arc<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            by_namespace: self.by_namespace.clone(),
            listed: self.listed.clone(),
            touched: self.touched.clone(),
        }
    }
}

impl<K: Kind> Cache<K> {
    /// A cache of the objects that `api` and `config` select, and the future that keeps it up to date until
    /// `shutdown`.
    ///
    /// A readiness gate of the kind's name is closed until the first list is complete.
    pub fn start(
        services: &Services,
        api: Api<Readable<K>>,
        config: watcher::Config,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::start_through(services, api, config, shutdown, |_, _| {})
    }

    /// As [`Cache::start`], with `pass_on`, which is called with the store and the objects that may have changed before
    /// anyone else is told of them, and with the first list before the cache is ready.
    pub fn start_through(
        services: &Services,
        api: Api<Readable<K>>,
        config: watcher::Config,
        shutdown: CancellationToken,
        mut pass_on: impl FnMut(&Store<K>, &[Arc<K>]) + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (touched, _) = broadcast::channel(TOUCHED_BACKLOG);
        let (store, by_namespace, _, changes) = followed(api, config, services);
        let (listing, listed) = Listing::start();
        let gate = services.readiness.gate(format!("cache {}", K::kind(&())));
        let cache = Self {
            store: store.clone(),
            by_namespace,
            listed,
            touched: touched.clone(),
        };
        let follow = async move {
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = shutdown.run_until_cancelled(changes.next()).await.flatten() {
                let is_list = matches!(change, Change::Listed { .. });
                let objects = change.objects(&store);
                pass_on(&store, &objects);
                if is_list {
                    listing.finished();
                    gate.open();
                }
                for object in objects {
                    // Fails only without a subscriber.
                    let _ = touched.send(object);
                }
            }
        };
        (cache, own_task("cache", follow))
    }

    /// The object of this name, if it exists.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name).within(namespace))
    }

    /// The store behind the cache, for lookups other than by name.
    #[must_use]
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    /// The objects by their namespace.
    #[must_use]
    pub fn by_namespace(&self) -> &ByNamespace<K> {
        &self.by_namespace
    }

    /// Waits for the first list. False if the watch ended before it, on shutdown.
    pub async fn ready(&self) -> bool {
        self.listed.clone().wait().await
    }

    /// Every object that was created, changed or deleted, after the cache has the change. A subscriber that lags behind by
    /// more than 1,024 objects gets all objects of the cache instead.
    pub fn touched(&self) -> impl Stream<Item = Arc<K>> + Send + 'static {
        let store = self.store.clone();
        let touched = BroadcastStream::new(self.touched.subscribe()).flat_map(move |touched| match touched {
            Ok(object) => stream::iter(vec![object]),
            Err(_lagged) => stream::iter(store.state()),
        });
        in_stretches(touched)
    }
}

/// A change that the store already has.
pub(crate) enum Change<K: Resource<DynamicType = ()>> {
    /// This object was created or changed.
    Applied(Arc<K>),
    /// This object is gone.
    Deleted(Arc<K>),
    /// The whole list was read, at the start or after the watch broke: any object may have changed.
    Listed {
        /// The objects of the list before that are not in this one. No watch reports their deletion. An object of the same
        /// name and another uid is another object.
        gone: Vec<Arc<K>>,
    },
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Change<K> {
    /// The objects that may have changed.
    fn objects(self, store: &Store<K>) -> Vec<Arc<K>> {
        match self {
            Self::Applied(object) | Self::Deleted(object) => vec![object],
            Self::Listed { gone } => [store.state(), gone].concat(),
        }
    }
}

/// The trimmed objects of a watch, each read by itself. The one place of a manager that opens watches.
///
/// An object that cannot be read in whole does not end the watch, and comes without the parts that cannot be read
/// ([`unreadable`](crate::unreadable)). People learn of it once, until it changes: from the log, from an Event about it, and
/// from a metric. An object without a name cannot come at all.
pub fn watched<K: Kind>(
    services: &Services,
    api: Api<Readable<K>>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static {
    let services = services.clone();
    let mut known = BTreeSet::new();
    let mut listing = BTreeSet::new();
    let events = watcher(api, config).default_backoff();
    in_stretches(events.filter_map(move |event| {
        let event = match event {
            Ok(watcher::Event::Apply(object)) => {
                taken(object, &services, &mut known).map(|object| Ok(watcher::Event::Apply(object)))
            }
            Ok(watcher::Event::InitApply(object)) => {
                taken(object, &services, &mut listing).map(|object| Ok(watcher::Event::InitApply(object)))
            }
            Ok(watcher::Event::Delete(object)) => object.into_parts().0.map(|object| {
                note(&services, Some(&object), None, &mut known);
                Ok(watcher::Event::Delete(trimmed(object)))
            }),
            Ok(watcher::Event::Init) => {
                listing.clear();
                Some(Ok(watcher::Event::Init))
            }
            Ok(watcher::Event::InitDone) => {
                known
                    .difference(&listing)
                    .for_each(|key| services.metrics.readable(&K::kind(&()), key));
                known = std::mem::take(&mut listing);
                Some(Ok(watcher::Event::InitDone))
            }
            Err(error) => Some(Err(error)),
        };
        std::future::ready(event)
    }))
}

/// The trimmed object, after people were told what of it cannot be read. None without a name.
fn taken<K: Kind>(object: Readable<K>, services: &Services, known: &mut BTreeSet<ObjectKey>) -> Option<K> {
    let (object, mistake) = object.into_parts();
    note(services, object.as_ref(), mistake, known);
    object.map(trimmed)
}

fn trimmed<K: Resource>(mut object: K) -> K {
    trim(&mut object);
    object
}

/// As [`watched`], for what looks beside a manager, which tells people.
pub fn quietly_watched<K: Kind>(
    api: Api<Readable<K>>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static {
    measured(api, config).map_ok(|(event, _)| event)
}

/// The same, each event with the bytes of its object as the API server sent it: 0 for one without an object.
pub fn measured<K: Kind>(
    api: Api<Readable<K>>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<(watcher::Event<K>, usize)>> + Send + 'static {
    watcher(api, config).default_backoff().filter_map(|event| {
        let whole = |object: Readable<K>, wrap: fn(K) -> watcher::Event<K>| {
            let bytes = object.bytes();
            let object = object.into_parts().0;
            object.map(|object| Ok((wrap(object), bytes)))
        };
        std::future::ready(match event {
            Ok(watcher::Event::Apply(object)) => whole(object, watcher::Event::Apply),
            Ok(watcher::Event::InitApply(object)) => whole(object, watcher::Event::InitApply),
            Ok(watcher::Event::Delete(object)) => whole(object, watcher::Event::Delete),
            Ok(watcher::Event::Init) => Some(Ok((watcher::Event::Init, 0))),
            Ok(watcher::Event::InitDone) => Some(Ok((watcher::Event::InitDone, 0))),
            Err(error) => Some(Err(error)),
        })
    })
}

/// Notes whether an object can be read in whole, and tells people if it newly cannot. `known` has those of a watch that cannot.
fn note<K: Kind>(
    services: &Services,
    object: Option<&K>,
    mistake: Option<String>,
    known: &mut BTreeSet<ObjectKey>,
) {
    let kind = K::kind(&());
    let key = object
        .map(|object| key_of(&reference(object)))
        .unwrap_or_default();
    let Some(mistake) = mistake else {
        if known.remove(&key) {
            services.metrics.readable(&kind, &key);
        }
        return;
    };
    let is_news = services.metrics.unreadable(&kind, &key, &mistake);
    known.insert(key.clone());
    if !is_news {
        return;
    }
    let ObjectKey { namespace, name } = key;
    warn!(%kind, namespace, object = name, mistake, "An object cannot be read; what cannot be read counts as absent");
    if let Some(object) = object {
        services.events.publish(Event {
            regarding: object.object_ref(&()),
            severity: Severity::Warning,
            reason: "Unreadable",
            action: "Read",
            note: mistake,
        });
    }
}

/// A store of trimmed objects, its objects by namespace, whether it has its first list, and the stream of its changes. The
/// store is updated only while the stream is read.
///
/// Objects of a list are announced after the store has the whole list. `kube`'s own stream announces them as they
/// arrive. A controller would then read an old state of others, and not be woken again.
///
/// The store takes the objects of each list but the first one by one. `kube`'s reflector gathers them in a second store, and
/// puts that in the place of the first: with thousands of objects, this kept the thread for 100 ms.
pub(crate) fn followed<K: Kind>(
    api: Api<Readable<K>>,
    config: watcher::Config,
    services: &Services,
) -> (
    Store<K>,
    ByNamespace<K>,
    Listed,
    impl Stream<Item = Change<K>> + Send + 'static,
) {
    let (store, mut writer) = reflector::store::<K>();
    let (listing, listed) = Listing::start();
    let errors = services.metrics.watch_errors(&K::kind(&()));
    let mut lists = Lists::new(store.clone());
    let steps = watched(services, api, config).flat_map(move |event| {
        stream::iter(match event {
            Ok(event) => lists.steps(event),
            Err(error) => {
                errors.inc();
                watch_failed(&K::kind(&()), &error);
                Steps::none()
            }
        })
    });
    let reader = store.clone();
    let by_namespace = ByNamespace::new(store.clone());
    let names_of = by_namespace.clone();
    let mut is_first = true;
    // The store has the objects of the first list at its end.
    let mut first = Names::default();
    let changes = in_stretches(steps).filter_map(move |step| {
        let change = match step {
            Step::Apply(object) => {
                let key = ObjectRef::from_obj(&object);
                writer.apply_watcher_event(&watcher::Event::Apply(object));
                let change = reader.get(&key).map(Change::Applied);
                if let Some(Change::Applied(object)) = &change {
                    names_of.applied(object);
                }
                change
            }
            Step::Delete(object) => {
                names_of.deleted(&object);
                let event = watcher::Event::Delete(object);
                writer.apply_watcher_event(&event);
                match event {
                    watcher::Event::Delete(object) => Some(Change::Deleted(Arc::new(object))),
                    _ => None,
                }
            }
            Step::Begin => {
                if is_first {
                    first = Names::default();
                    writer.apply_watcher_event(&watcher::Event::Init);
                }
                None
            }
            Step::Listed(object) => {
                match is_first {
                    true => first.add(&object),
                    false => names_of.applied(&object),
                }
                writer.apply_watcher_event(&match is_first {
                    true => watcher::Event::InitApply(object),
                    false => watcher::Event::Apply(object),
                });
                None
            }
            Step::Kept => None,
            Step::Missing(object) => {
                names_of.deleted(&*object);
                writer.apply_watcher_event(&watcher::Event::Delete((*object).clone()));
                None
            }
            Step::End { gone } => {
                if std::mem::take(&mut is_first) {
                    writer.apply_watcher_event(&watcher::Event::InitDone);
                    names_of.listed(std::mem::take(&mut first));
                }
                debug!(kind = %K::kind(&()), objects = reader.len(), "Listed");
                listing.finished();
                Some(Change::Listed { gone })
            }
        };
        std::future::ready(change)
    });
    (store, by_namespace, listed, changes)
}

/// The key of an object by its reference.
pub(crate) fn key_of<K: Resource<DynamicType = ()>>(reference: &ObjectRef<K>) -> ObjectKey {
    ObjectKey {
        namespace: reference.namespace.clone().unwrap_or_default(),
        name: reference.name.clone(),
    }
}

/// The reference of an object, as a controller's queue uses it.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectRef<K> {
    let reference = ObjectRef::new(&object.name_any());
    match object.namespace() {
        Some(namespace) => reference.within(&namespace),
        None => reference,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::{
        api::core::v1::ConfigMap,
        apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
    };

    use super::*;

    fn config_map(annotations: &[(&str, &str)]) -> ConfigMap {
        let annotations: BTreeMap<String, String> = annotations
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("c".into()),
                annotations: (!annotations.is_empty()).then_some(annotations),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    #[test]
    fn trimming_keeps_what_controllers_read() {
        let mut trimmed = config_map(&[(LAST_APPLIED_ANNOTATION, "{}"), ("cluster.x-k8s.io/paused", "")]);
        trimmed.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
        trim(&mut trimmed);
        assert_eq!(trimmed, config_map(&[("cluster.x-k8s.io/paused", "")]));
    }

    #[test]
    fn trimming_leaves_no_empty_map_behind() {
        let mut trimmed = config_map(&[(LAST_APPLIED_ANNOTATION, "{}")]);
        trim(&mut trimmed);
        assert_eq!(trimmed, config_map(&[]));
    }
}
