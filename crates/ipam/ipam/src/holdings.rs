//! A map of owners and keys, in both directions.

use std::{
    collections::{BTreeMap, btree_map, hash_map},
    hash::BuildHasherDefault,
};

use crate::{
    few::Few,
    owner::{OwnHash, Owner},
};

/// A hash map without a random key, which is never iterated. Each allocation looks here first, and a `BTreeMap` of a
/// million names takes four times as long.
#[expect(clippy::disallowed_types, reason = "its order is never visible")]
type ByOwner<K> = hash_map::HashMap<Owner, Few<K>, BuildHasherDefault<OwnHash>>;

/// Pairs of owner and key, looked up from either side.
///
/// A key may have two owners, and an owner two keys, if objects were created by hand. Both pairs stay until one
/// is released, so the result of a rebuild does not depend on its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holdings<K> {
    by_owner: ByOwner<K>,
    by_key: BTreeMap<K, Few<Owner>>,
    pairs: usize,
}

impl<K> Default for Holdings<K> {
    fn default() -> Self {
        Self {
            by_owner: ByOwner::default(),
            by_key: BTreeMap::new(),
            pairs: 0,
        }
    }
}

impl<K: Ord + Copy> Holdings<K> {
    /// How many pairs there are.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs
    }

    /// The least key of an owner.
    pub(crate) fn key_of(&self, owner: &Owner) -> Option<K> {
        self.by_owner.get(owner).map(|keys| *keys.least())
    }

    pub(crate) fn keys_of(&self, owner: &Owner) -> impl Iterator<Item = K> {
        self.by_owner
            .get(owner)
            .into_iter()
            .flat_map(|keys| keys.iter().copied())
    }

    pub(crate) fn has(&self, owner: &Owner, key: K) -> bool {
        self.by_owner.get(owner).is_some_and(|keys| keys.contains(&key))
    }

    pub(crate) fn owners_of(&self, key: K) -> impl Iterator<Item = &Owner> {
        self.by_key.get(&key).into_iter().flat_map(Few::iter)
    }

    pub(crate) fn is_held(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Every key that has an owner, ascending, with its owners.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &Few<Owner>)> {
        self.by_key.iter().map(|(key, owners)| (*key, owners))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.by_key.keys().copied()
    }

    pub(crate) fn range(&self, keys: std::ops::RangeInclusive<K>) -> impl Iterator<Item = K> {
        self.by_key.range(keys).map(|(key, _)| *key)
    }

    /// Adds a pair; true when the key had no owner before.
    pub(crate) fn insert(&mut self, owner: Owner, key: K) -> bool {
        match self.by_owner.entry(owner.clone()) {
            hash_map::Entry::Vacant(entry) => {
                entry.insert(Few::one(key));
            }
            hash_map::Entry::Occupied(entry) if entry.get().contains(&key) => return false,
            hash_map::Entry::Occupied(mut entry) => entry.get_mut().insert(key),
        }
        self.pairs += 1;
        match self.by_key.entry(key) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert(Few::one(owner));
                true
            }
            btree_map::Entry::Occupied(mut entry) => {
                entry.get_mut().insert(owner);
                false
            }
        }
    }

    /// Removes a pair; true when the key has no owner after it. False, too, when there was no such pair.
    pub(crate) fn remove(&mut self, owner: &Owner, key: K) -> bool {
        match self.by_owner.get_mut(owner) {
            Some(keys) if keys.contains(&key) => {
                if !keys.remove(&key) {
                    self.by_owner.remove(owner);
                }
            }
            Some(_) | None => return false,
        }
        self.pairs -= 1;
        let btree_map::Entry::Occupied(mut owners) = self.by_key.entry(key) else {
            return false;
        };
        if owners.get_mut().remove(owner) {
            return false;
        }
        owners.remove();
        true
    }
}
