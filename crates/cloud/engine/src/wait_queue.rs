//! The lines of resources that wait for room.
//!
//! A creation that is refused for lack of room joins the line for the first room that is missing. When room becomes free,
//! those that have waited longest are told, as many as fit. Room is not kept for them: the first creation that asks gets
//! it, as in any cloud. A resource that was told and is refused again gets back its old place, in the line for the room
//! that is missing now.
//!
//! Resources take up different amounts of the processors of a cloud. There, room is kept: nothing overtakes a resource that
//! was refused earlier and still waits for processors. Otherwise small ones could keep a large one waiting forever. Only a
//! resource that takes up more than the whole quota is passed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_model::{Capacity, ResourceId, SimTime};
use serde::{Deserialize, Serialize};

/// How long a resource that was told has to ask before the next one is told. A controller asks within milliseconds, but
/// if its object was paused meanwhile, it does not ask at all.
const GRANT: Duration = Duration::from_secs(10);

/// A resource that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    pub id: ResourceId,
    /// The room that it waits for.
    #[serde(rename = "room")]
    pub capacity: Capacity,
    /// How much of the room it takes up.
    #[serde(default = "one")]
    pub amount: u32,
    /// When its turn ends, if it was told that there is room.
    #[serde(rename = "turn_ends")]
    pub grant_ends: Option<SimTime>,
}

fn one() -> u32 {
    1
}

/// All lines. Each waiting resource is one that a caller still wants: a caller that gives up sends a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitQueues {
    queues: BTreeMap<Capacity, WaitQueue>,
    places: BTreeMap<ResourceId, PlaceInQueue>,
    /// When the turns of the resources that were told end.
    grants: BTreeSet<(SimTime, ResourceId)>,
    next_number: u64,
}

/// The line for one room.
#[derive(Clone, Debug, Default)]
struct WaitQueue {
    /// The resources that were not told yet, by their numbers, and how much each of them takes up.
    waiting: BTreeMap<u64, (ResourceId, u32)>,
    /// How many were told and have not asked since.
    told: usize,
    /// How much these take up.
    told_amount: u64,
}

#[derive(Clone, Debug)]
struct PlaceInQueue {
    capacity: Capacity,
    amount: u32,
    /// The order of the first refusals; the first is the lowest.
    number: u64,
    /// When its turn ends, if it was told.
    grant_ends: Option<SimTime>,
}

impl WaitQueues {
    /// The waiting resources, ordered by name.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &ResourceId> {
        self.places.keys()
    }

    /// Adds a resource that was refused for lack of this room.
    pub(crate) fn join(&mut self, id: &ResourceId, capacity: Capacity, amount: u32) {
        let number = match self.leave(id) {
            Some(number) => number,
            None => {
                self.next_number += 1;
                self.next_number
            }
        };
        self.queues
            .entry(capacity.clone())
            .or_default()
            .waiting
            .insert(number, (id.clone(), amount));
        self.places.insert(
            id.clone(),
            PlaceInQueue {
                capacity,
                amount,
                number,
                grant_ends: None,
            },
        );
    }

    /// Removes a resource from its line. Returns its number if it was in one.
    pub(crate) fn leave(&mut self, id: &ResourceId) -> Option<u64> {
        let PlaceInQueue {
            capacity,
            amount,
            number,
            grant_ends,
        } = self.places.remove(id)?;
        let queue = self
            .queues
            .get_mut(&capacity)
            .expect("a waiting resource is in a line");
        match grant_ends {
            None => drop(queue.waiting.remove(&number)),
            Some(ends) => {
                queue.told -= 1;
                queue.told_amount -= u64::from(amount);
                self.grants.remove(&(ends, id.clone()));
            }
        }
        if queue.waiting.is_empty() && queue.told == 0 {
            self.queues.remove(&capacity);
        }
        Some(number)
    }

    /// When the next turn ends.
    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.grants.first().map(|(at, _)| *at)
    }

    /// Ends the turn that ends next, and takes its resource out of the line. Returns the resource.
    pub(crate) fn end_grant(&mut self) -> Option<ResourceId> {
        let (_, id) = self.grants.first().cloned()?;
        self.leave(&id);
        Some(id)
    }

    /// The waiting resources, first come first.
    pub(crate) fn to_waiters(&self) -> Vec<Waiter> {
        let mut places: Vec<_> = self.places.iter().collect();
        places.sort_by_key(|(_, place)| place.number);
        let waiter = |(id, place): (&ResourceId, &PlaceInQueue)| Waiter {
            id: id.clone(),
            capacity: place.capacity.clone(),
            amount: place.amount,
            grant_ends: place.grant_ends,
        };
        places.into_iter().map(waiter).collect()
    }

    /// Restores the lines from the waiting resources, first come first. Each resource appears once.
    pub(crate) fn of_waiters(waiters: Vec<Waiter>) -> Self {
        let mut waiting = Self::default();
        for Waiter {
            id,
            capacity,
            amount,
            grant_ends,
        } in waiters
        {
            waiting.join(&id, capacity.clone(), amount);
            if let Some(ends) = grant_ends
                && let Some(place) = waiting.places.get_mut(&id)
                && let Some(queue) = waiting.queues.get_mut(&capacity)
            {
                place.grant_ends = Some(ends);
                queue.waiting.remove(&place.number);
                queue.told += 1;
                queue.told_amount += u64::from(amount);
                waiting.grants.insert((ends, id));
            }
        }
        waiting
    }

    /// How many resources wait for a room.
    pub(crate) fn len(&self, capacity: &Capacity) -> usize {
        self.queues
            .get(capacity)
            .map_or(0, |queue| queue.waiting.len() + queue.told)
    }

    /// How much of a room is kept from a resource, because others wait for it that were refused earlier: all of it
    /// while one of them still has to be told, and otherwise what those take up that were told. A resource that takes up
    /// more than the whole room keeps it from no other.
    pub(crate) fn kept_from(&self, id: &ResourceId, capacity: &Capacity, limit: u32) -> u64 {
        let Some(queue) = self.queues.get(capacity) else {
            return 0;
        };
        let place = self.places.get(id);
        let number = place.map_or(u64::MAX, |place| place.number);
        let mut earlier = queue.waiting.range(..number);
        if earlier.any(|(_, (_, amount))| *amount <= limit) {
            return u64::MAX;
        }
        let was_told = place.filter(|place| place.capacity == *capacity && place.grant_ends.is_some());
        queue.told_amount - was_told.map_or(0, |place| place.amount.into())
    }

    /// The resources to tell now, those that have waited longest first, each with its room. `state` returns how much
    /// fits into a room and how much of it is taken, or none if any amount fits. A resource that does not fit holds up
    /// those behind it, unless it takes up more than the whole room.
    pub(crate) fn tell(
        &mut self,
        now: SimTime,
        state: impl Fn(&Capacity) -> Option<(u32, u64)>,
    ) -> Vec<(Capacity, ResourceId)> {
        let mut told = Vec::new();
        for (capacity, queue) in self
            .queues
            .iter_mut()
            .filter(|(_, queue)| !queue.waiting.is_empty())
        {
            let (limit, taken) =
                state(capacity).map_or((u64::MAX, 0), |(limit, taken)| (limit.into(), taken));
            let mut free = limit.saturating_sub(taken).saturating_sub(queue.told_amount);
            let mut numbers = Vec::new();
            for (number, (_, amount)) in &queue.waiting {
                let amount = u64::from(*amount);
                if free == 0 || (amount > free && amount <= limit) {
                    break;
                }
                if amount <= free {
                    free -= amount;
                    numbers.push(*number);
                }
            }
            for number in numbers {
                let (id, amount) = queue.waiting.remove(&number).expect("it was found above");
                let ends = now + GRANT;
                queue.told += 1;
                queue.told_amount += u64::from(amount);
                self.grants.insert((ends, id.clone()));
                self.places
                    .get_mut(&id)
                    .expect("a resource in a line has a place")
                    .grant_ends = Some(ends);
                told.push((number, capacity.clone(), id));
            }
        }
        told.sort_unstable_by_key(|(number, ..)| *number);
        told.into_iter().map(|(_, capacity, id)| (capacity, id)).collect()
    }
}
