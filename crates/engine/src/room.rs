//! The lines of resources that wait for room.
//!
//! A creation that is refused for lack of room joins a line. When room becomes free, those that have waited longest are
//! told, as many as fit. Room is not kept for them: the first creation that asks gets it, as in any cloud. A resource
//! that was told and is refused again gets back its old place in the line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{ResourceId, ResourceKind};
use crate::time::SimTime;

/// How long a resource that was told has to ask before the next one is told. A controller asks within milliseconds, but
/// if its object was paused meanwhile, it does not ask at all.
const TURN: Duration = Duration::from_secs(10);

/// A limit that only so many resources fit into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Room {
    /// The quota of an account for a kind of resource.
    Quota {
        /// The account.
        account: String,
        /// The kind.
        kind: ResourceKind,
    },
    /// A zone.
    Zone(String),
}

/// A resource that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The resource.
    pub id: ResourceId,
    /// The room that it waits for.
    pub room: Room,
    /// When its turn ends, if it was told that there is room.
    pub turn_ends: Option<SimTime>,
}

/// All lines. Each waiting resource is one that a caller still wants: a caller that gives up sends a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// No line is empty.
    lines: BTreeMap<Room, Line>,
    places: BTreeMap<ResourceId, PlaceInLine>,
    /// When the turns of the resources that were told end.
    turns: BTreeSet<(SimTime, ResourceId)>,
    next_number: u64,
}

/// The line for one room.
#[derive(Clone, Debug, Default)]
struct Line {
    /// The resources that were not told yet, by their numbers.
    waiting: BTreeMap<u64, ResourceId>,
    /// How many were told and have not asked since.
    told: usize,
}

#[derive(Clone, Debug)]
struct PlaceInLine {
    room: Room,
    /// The order of the first refusals; the first is the lowest.
    number: u64,
    /// When its turn ends, if it was told.
    turn_ends: Option<SimTime>,
}

impl Lines {
    /// The waiting resources, ordered by name.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &ResourceId> {
        self.places.keys()
    }

    /// Adds a resource that was refused for lack of this room.
    pub(crate) fn join(&mut self, id: &ResourceId, room: Room) {
        let number = match self.leave(id) {
            Some(number) => number,
            None => {
                self.next_number += 1;
                self.next_number
            }
        };
        self.lines.entry(room.clone()).or_default().waiting.insert(number, id.clone());
        self.places.insert(id.clone(), PlaceInLine { room, number, turn_ends: None });
    }

    /// Removes a resource from its line. Returns its number if it was in one.
    pub(crate) fn leave(&mut self, id: &ResourceId) -> Option<u64> {
        let PlaceInLine { room, number, turn_ends } = self.places.remove(id)?;
        let line = self.lines.get_mut(&room).expect("a waiting resource is in a line");
        match turn_ends {
            None => drop(line.waiting.remove(&number)),
            Some(ends) => {
                line.told -= 1;
                self.turns.remove(&(ends, id.clone()));
            }
        }
        if line.waiting.is_empty() && line.told == 0 {
            self.lines.remove(&room);
        }
        Some(number)
    }

    /// When the next turn ends.
    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.turns.first().map(|(at, _)| *at)
    }

    /// Ends the turn that ends next, and takes its resource out of the line. Returns the resource.
    pub(crate) fn end_turn(&mut self) -> Option<ResourceId> {
        let (_, id) = self.turns.first().cloned()?;
        self.leave(&id);
        Some(id)
    }

    /// The waiting resources, first come first.
    pub(crate) fn to_waiters(&self) -> Vec<Waiter> {
        let mut places: Vec<_> = self.places.iter().collect();
        places.sort_by_key(|(_, place)| place.number);
        let waiter = |(id, place): (&ResourceId, &PlaceInLine)| Waiter {
            id: id.clone(),
            room: place.room.clone(),
            turn_ends: place.turn_ends,
        };
        places.into_iter().map(waiter).collect()
    }

    /// Restores the lines from the waiting resources, first come first. Each resource appears once.
    pub(crate) fn of_waiters(waiters: Vec<Waiter>) -> Self {
        let mut waiting = Self::default();
        for Waiter { id, room, turn_ends } in waiters {
            waiting.join(&id, room.clone());
            if let Some(ends) = turn_ends
                && let Some(place) = waiting.places.get_mut(&id)
                && let Some(line) = waiting.lines.get_mut(&room)
            {
                place.turn_ends = Some(ends);
                line.waiting.remove(&place.number);
                line.told += 1;
                waiting.turns.insert((ends, id));
            }
        }
        waiting
    }

    /// The resources to tell now, those that have waited longest first, each with its room. `free` returns how many
    /// more fit into a room.
    pub(crate) fn tell(&mut self, now: SimTime, free: impl Fn(&Room) -> usize) -> Vec<(Room, ResourceId)> {
        let mut told = Vec::new();
        for (room, line) in &mut self.lines {
            let free = if line.waiting.is_empty() { 0 } else { free(room) };
            while line.told < free
                && let Some((_, id)) = line.waiting.pop_first()
            {
                let ends = now + TURN;
                line.told += 1;
                self.turns.insert((ends, id.clone()));
                self.places.get_mut(&id).expect("a resource in a line has a place").turn_ends = Some(ends);
                told.push((room.clone(), id));
            }
        }
        told
    }
}
