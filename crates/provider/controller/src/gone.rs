//! Objects that a controller does not have any more, for those who clean up after them.

use std::{collections::HashMap, sync::Arc};

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

use crate::failures::ObjectKey;

/// Objects that this controller does not have any more.
pub enum Gone<K> {
    /// This object was deleted, or does not match the selector any more.
    Object(Arc<K>),
    /// Any object may be gone: the list was read again, or more objects are gone than fit the backlog. An object whose name
    /// another one has by now is reported by itself, too, if the backlog has room.
    Any,
}

impl<K> Clone for Gone<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(Arc::clone(object)),
            Self::Any => Self::Any,
        }
    }
}

/// The most deletions that a slow listener may lag behind; after that it gets [`Gone::Any`]. 1,024 pointers are
/// 16 KiB.
const BACKLOG: usize = 1024;

/// Reports objects that are gone, once when that is seen, and once more when the reconcile that ran meanwhile has
/// ended: it had the object, and may have created again what a listener had deleted.
pub(crate) struct Deletions<K> {
    gone: broadcast::Sender<Gone<K>>,
    /// The objects that are being reconciled, and for each the object that went meanwhile. At most as many as the
    /// controller reconciles at a time.
    running: Mutex<HashMap<ObjectKey, Option<Arc<K>>>>,
}

impl<K> Deletions<K> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            gone: broadcast::channel(BACKLOG).0,
            running: Mutex::default(),
        })
    }

    /// A reconcile of the object with this key begins. It ends when the result is dropped.
    pub(crate) fn start(self: &Arc<Self>, key: ObjectKey) -> Running<K> {
        self.running.lock().insert(key.clone(), None);
        Running {
            deletions: Arc::clone(self),
            key,
        }
    }

    /// This object is gone.
    pub(crate) fn left(&self, key: &ObjectKey, object: &Arc<K>) {
        self.left_during_reconcile(key, object);
        self.send(Gone::Object(Arc::clone(object)));
    }

    /// A new list does not have these objects any more.
    pub(crate) fn listed_without<'a>(&self, objects: impl Iterator<Item = (ObjectKey, &'a Arc<K>)>)
    where
        K: 'a,
    {
        objects.for_each(|(key, object)| self.left_during_reconcile(&key, object));
        self.send(Gone::Any);
    }

    fn left_during_reconcile(&self, key: &ObjectKey, object: &Arc<K>) {
        if let Some(left) = self.running.lock().get_mut(key) {
            *left = Some(Arc::clone(object));
        }
    }

    fn send(&self, gone: Gone<K>) {
        // Fails only without a listener.
        let _ = self.gone.send(gone);
    }
}

impl<K: Send + Sync + 'static> Deletions<K> {
    pub(crate) fn listen(&self) -> impl Stream<Item = Gone<K>> + Send + 'static {
        BroadcastStream::new(self.gone.subscribe()).map(|gone| gone.unwrap_or(Gone::Any))
    }
}

/// A reconcile that runs.
pub(crate) struct Running<K> {
    deletions: Arc<Deletions<K>>,
    key: ObjectKey,
}

impl<K> Drop for Running<K> {
    fn drop(&mut self) {
        let left = self.deletions.running.lock().remove(&self.key).flatten();
        if let Some(object) = left {
            self.deletions.send(Gone::Object(object));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    /// What was reported so far: names of objects, and `*` for any.
    fn reported(gone: &mut (impl Stream<Item = Gone<String>> + Unpin)) -> Vec<String> {
        std::iter::from_fn(|| gone.next().now_or_never().flatten())
            .map(|gone| match gone {
                Gone::Object(name) => name.as_str().to_owned(),
                Gone::Any => "*".to_owned(),
            })
            .collect()
    }

    #[test]
    fn an_object_that_went_during_its_reconcile_is_reported_again_at_the_end() {
        let deletions = Deletions::new();
        let mut gone = deletions.listen().boxed();
        let first = deletions.start(key("first"));
        let second = deletions.start(key("second"));
        deletions.left(&key("first"), &Arc::new("first".to_owned()));
        deletions.left(&key("third"), &Arc::new("third".to_owned()));
        assert_eq!(reported(&mut gone), ["first", "third"]);
        drop((first, second));
        assert_eq!(reported(&mut gone), ["first"]);
        drop(deletions.start(key("first")));
        assert_eq!(reported(&mut gone), [""; 0]);
    }

    #[test]
    fn an_object_that_a_new_list_does_not_have_is_reported_after_its_reconcile() {
        let deletions = Deletions::new();
        let mut gone = deletions.listen().boxed();
        let running = deletions.start(key("first"));
        deletions.listed_without([(key("first"), &Arc::new("first".to_owned()))].into_iter());
        assert_eq!(reported(&mut gone), ["*"]);
        drop(running);
        assert_eq!(reported(&mut gone), ["first"]);
    }
}
