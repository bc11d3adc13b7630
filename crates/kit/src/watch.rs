use std::{fmt::Debug, sync::Arc};

use futures::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, reflector},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::{sync::broadcast, task::yield_now};
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{
    listed::{Listed, Listing},
    metrics::Metrics,
    services::Services,
    watch_failure::watch_failed,
    when_woken::when_woken,
};

/// The annotation with a copy of the object, which `kubectl apply` writes.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The most touched objects that a slow subscriber may lag behind. A subscriber that lags further gets every object of
/// the cache instead, and misses deletions alone. 1,024 pointers are 16 KiB.
const TOUCHED_BACKLOG: usize = 1024;

/// The API of the kind `K` in one namespace, or in all namespaces.
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
    listed: Listed,
    touched: broadcast::Sender<Arc<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), listed: self.listed.clone(), touched: self.touched.clone() }
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A cache of the objects that `api` and `config` select, and the future that keeps it up to date until
    /// `shutdown`.
    ///
    /// A readiness gate of the kind's name is closed until the first list is complete.
    pub fn start(
        services: &Services,
        api: Api<K>,
        config: watcher::Config,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (touched, _) = broadcast::channel(TOUCHED_BACKLOG);
        let (store, listed, changes) = followed(api, config, &services.metrics);
        let gate = services.readiness.gate(format!("cache {}", K::kind(&())));
        let cache = Self { store: store.clone(), listed, touched: touched.clone() };
        let follow = async move {
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = shutdown.run_until_cancelled(changes.next()).await.flatten() {
                if let Change::Listed { .. } = change {
                    gate.open();
                }
                for object in change.objects(&store) {
                    // Fails only without a subscriber.
                    let _ = touched.send(object);
                }
            }
        };
        (cache, when_woken(follow))
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

    /// Waits for the first list. False if the watch ended before it, on shutdown.
    pub async fn ready(&self) -> bool {
        self.listed.clone().wait().await
    }

    /// Every object that was created, changed or deleted, after the cache has the change. A subscriber that lags behind by
    /// more than 1,024 objects gets all objects of the cache instead.
    pub fn touched(&self) -> impl Stream<Item = Arc<K>> + Send + 'static {
        let store = self.store.clone();
        BroadcastStream::new(self.touched.subscribe()).flat_map(move |touched| match touched {
            Ok(object) => stream::iter(vec![object]),
            Err(_lagged) => stream::iter(store.state()),
        })
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

/// The most events of a watch that are told before others run. Each is made of text first, and a page of a list at once.
const AT_ONCE_MAX: u32 = 500;

/// A store of trimmed objects, whether it has its first list, and the stream of its changes. The store is updated only
/// while the stream is read.
///
/// Objects of a list are announced after the store has the whole list. `kube`'s own stream announces them as they
/// arrive, while the store still has the earlier state. A controller would then read the old state and not be woken
/// again.
pub(crate) fn followed<K>(
    api: Api<K>,
    config: watcher::Config,
    metrics: &Metrics,
) -> (Store<K>, Listed, impl Stream<Item = Change<K>> + Send + 'static)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store::<K>();
    let (listing, listed) = Listing::start();
    let errors = metrics.watch_errors(&K::kind(&()));
    let reader = store.clone();
    let at_once = config.page_size.unwrap_or(AT_ONCE_MAX).clamp(1, AT_ONCE_MAX);
    let events = reflector(writer, watcher(api, config).default_backoff().modify(trim));
    let mut told = 0_u32;
    let events = events.then(move |event| {
        told = (told + 1) % at_once;
        let is_enough = told == 0;
        async move {
            if is_enough {
                yield_now().await;
            }
            event
        }
    });
    let mut before = Vec::new();
    let changes = events.filter_map(move |event| {
        let change = match event {
            Ok(watcher::Event::Apply(object)) => {
                reader.get(&ObjectRef::from_obj(&object)).map(Change::Applied)
            }
            Ok(watcher::Event::Delete(object)) => Some(Change::Deleted(Arc::new(object))),
            Ok(watcher::Event::InitDone) => {
                debug!(kind = %K::kind(&()), objects = reader.len(), "Listed");
                listing.finished();
                let mut gone = std::mem::take(&mut before);
                gone.retain(|object: &Arc<K>| {
                    let there = reader.get(&reference(&**object));
                    there.is_none_or(|there| there.meta().uid != object.meta().uid)
                });
                Some(Change::Listed { gone })
            }
            Ok(watcher::Event::Init) => {
                before = reader.state();
                None
            }
            Ok(watcher::Event::InitApply(_)) => None,
            Err(error) => {
                errors.inc();
                watch_failed(&K::kind(&()), &error);
                None
            }
        };
        std::future::ready(change)
    });
    (store, listed, changes)
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
        let annotations: BTreeMap<String, String> =
            annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
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
