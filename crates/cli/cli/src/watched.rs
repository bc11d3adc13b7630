//! What a watch has said so far.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;

/// Objects by key. A watch that starts again lists all objects; until the list is complete, the known ones stay, so that
/// nothing seems gone that is merely not listed yet.
#[derive(Debug)]
pub(crate) struct Watched<K, V> {
    pub(crate) known: BTreeMap<K, V>,
    /// Whether all objects that exist are known.
    pub(crate) is_complete: bool,
    listed: BTreeMap<K, V>,
}

impl<K, V> Default for Watched<K, V> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            is_complete: false,
            listed: BTreeMap::new(),
        }
    }
}

impl<K: Ord, V> Watched<K, V> {
    /// Applies an event about the objects for which `entry` gives a key and a value.
    pub(crate) fn apply<O>(&mut self, event: Event<O>, entry: impl Fn(O) -> Option<(K, V)>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => self.listed.extend(entry(object)),
            Event::InitDone => {
                self.known = std::mem::take(&mut self.listed);
                self.is_complete = true;
            }
            Event::Apply(object) => self.known.extend(entry(object)),
            Event::Delete(object) => {
                if let Some((key, _)) = entry(object) {
                    self.known.remove(&key);
                }
            }
        }
    }
}
