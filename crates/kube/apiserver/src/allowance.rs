//! What the clients of one cluster may hold and do at a time.
//!
//! | What | Of a cluster | Of the process |
//! |---|---|---|
//! | bytes of bodies, as they arrive | [`SHARE_BYTES_MAX`] | [`BODIES_BYTES_MAX`] |
//! | requests from their head to their answer | [`REQUESTS_MAX`] | |
//! | large requests that are worked on | one | [`LARGE_MAX`] |
//! | bytes that the parse of a body takes | [`PARSED_BYTES_MAX`] | that for each large one |
//!
//! A large request works on a thread of its own, so that the system shares the processors between it and the tasks of
//! others. Where a cluster has more than a few requests, each goes behind the tasks of others before it is worked on, and so
//! does each part of a watch where it has more than a few watches.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use nephele_budget::{Budget, Held, Owner, Parse, ReadError, parsed_size};
use nephele_poll_time::{apart, has_other_threads};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    task::yield_now,
    time::timeout,
};

use crate::{http::ApiError, parse_cost::PARSED_BYTES_MAX};

/// The largest request body, as in the real server: 3 MiB.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How long a client may take to send a body, as the real server's `--request-timeout`.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many bytes of bodies all servers of the process may hold at once: 21 bodies of the largest size. An object is a
/// few kilobytes, so thousands of writers stay far below.
const BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How many of them one cluster may hold: five bodies of the largest size.
const SHARE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Requests of a cluster at a time, watches not counted. The real server has 400 and 200 that change something
/// (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
const REQUESTS_MAX: usize = 1000;

/// Watches of a cluster at a time. Three controllers have about a hundred.
const WATCHES_MAX: usize = 1000;

/// Small requests that are worked on at a time, where a cluster has more than a few. So each round of all tasks that can
/// run answers one, and writes one answer. The same for parts of watches.
const TURNS: usize = 1;

/// How long a request waits for its turn, as in the real server: a quarter of `--request-timeout`.
const TURN_WAIT_MAX: Duration = Duration::from_secs(15);

/// Requests of a cluster that need not let the tasks of others go first.
const FEW_REQUESTS: usize = 8;

/// Watches of a cluster that need not let the tasks of others go first.
const FEW_WATCHES: usize = 100;

/// Large requests of all clusters at a time.
const LARGE_MAX: usize = 2;

/// One for all servers, because they share the process's memory.
static BODIES: LazyLock<Budget> = LazyLock::new(|| Budget::new(BODIES_BYTES_MAX, BODIES_BYTES_MAX));

static LARGE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LARGE_MAX)));

/// The allowance of one cluster.
pub(crate) struct Allowance {
    bodies: Budget,
    requests: Semaphore,
    watches: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Turns of small requests, where they are taken.
    turns: Option<Semaphore>,
    /// Turns of parts of watches, where they are taken.
    watch_turns: Option<Semaphore>,
}

/// The place of a watch.
pub(crate) type WatchPlace = OwnedSemaphorePermit;

impl Allowance {
    /// With turns for small requests, if `takes_turns`.
    pub(crate) fn new(takes_turns: bool) -> Self {
        Self::of(&BODIES, takes_turns)
    }

    fn of(bodies: &Budget, takes_turns: bool) -> Self {
        Self {
            bodies: bodies.share(Owner::unique(), SHARE_BYTES_MAX),
            requests: Semaphore::new(REQUESTS_MAX),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
            large: Arc::new(Semaphore::new(1)),
            turns: takes_turns.then(|| Semaphore::new(TURNS)),
            watch_turns: takes_turns.then(|| Semaphore::new(TURNS)),
        }
    }

    /// The place of a request.
    ///
    /// # Errors
    /// When there are too many requests.
    pub(crate) fn place(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.requests
            .try_acquire()
            .map_err(|_| ApiError::too_many_requests())
    }

    /// The place of a watch.
    ///
    /// # Errors
    /// When there are too many watches.
    pub(crate) fn watch(&self) -> Result<WatchPlace, ApiError> {
        self.watches
            .clone()
            .try_acquire_owned()
            .map_err(|_| ApiError::too_many_requests())
    }

    /// The turn of a part of a watch, where there are many watches. A change wakes all of them, and those that wait for their
    /// turn are no tasks that could run.
    pub(crate) async fn watch_turn(&self) -> Option<SemaphorePermit<'_>> {
        let turns = self.watch_turns.as_ref()?;
        if WATCHES_MAX.saturating_sub(self.watches.available_permits()) <= FEW_WATCHES {
            return None;
        }
        let turn = turns.acquire().await.ok();
        yield_now().await;
        turn
    }

    /// Makes a part of a watch for which large objects may be parsed, as a large request.
    pub(crate) async fn large_part<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        in_turn(self.large_turn().await, work).await
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// When the body is too large, takes too long or ends early, or when its memory is needed for others.
    pub(crate) async fn read(&self, body: Body) -> Result<Held, ApiError> {
        let reading = Held::read(body, BODY_BYTES_MAX, &self.bodies, 0);
        timeout(BODY_TIMEOUT, reading)
            .await
            .map_err(|_| ApiError::body_timeout())?
            .map_err(|error| match error {
                ReadError::TooLarge => ApiError::too_large(BODY_BYTES_MAX),
                ReadError::NoRoom => ApiError::too_many_requests(),
                ReadError::Failed(error) => {
                    ApiError::bad_request(format!("failed to read the body: {error}"))
                }
            })
    }

    /// Works on a small request.
    pub(crate) async fn small<T>(
        &self,
        body: &Held,
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let _turn = if self.requests.available_permits() + FEW_REQUESTS < REQUESTS_MAX {
            self.turn().await?
        } else {
            None
        };
        if body.keep() {
            work()
        } else {
            Err(ApiError::too_many_requests())
        }
    }

    /// A turn behind the tasks of others. Meanwhile the other requests of this cluster wait, and are no tasks that could
    /// run.
    async fn turn(&self) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        let turn = match &self.turns {
            Some(turns) => {
                let turn = timeout(TURN_WAIT_MAX, turns.acquire()).await;
                turn.map_err(|_| ApiError::too_many_requests())?.ok()
            }
            None => None,
        };
        yield_now().await;
        Ok(turn)
    }

    /// Works on a large request, the only one of its cluster.
    pub(crate) async fn large<T: Send + 'static>(
        &self,
        body: Held,
        work: impl FnOnce(&Bytes) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = body
            .while_held(self.large_turn())
            .await
            .ok_or_else(ApiError::too_many_requests)?;
        if !body.keep() {
            return Err(ApiError::too_many_requests());
        }
        let work = move || {
            // To find out takes a millisecond for each megabyte or so.
            if parsed_size(&body.bytes, Parse::Values) > PARSED_BYTES_MAX {
                return Err(ApiError::too_large(PARSED_BYTES_MAX));
            }
            work(&body.bytes)
        };
        in_turn(turn, work).await
    }

    async fn large_turn(&self) -> LargeTurn {
        let never = "the semaphore is never closed";
        let own = self.large.clone().acquire_owned().await.expect(never);
        let all = if has_other_threads() {
            Some(LARGE.clone().acquire_owned().await.expect(never))
        } else {
            None
        };
        LargeTurn { _own: own, _all: all }
    }
}

/// The turn of a large request.
struct LargeTurn {
    _own: OwnedSemaphorePermit,
    /// None where the only thread works on one request at a time anyway.
    _all: Option<OwnedSemaphorePermit>,
}

/// Works on a thread of its own, and keeps the turn as long.
async fn in_turn<T: Send + 'static>(turn: LargeTurn, work: impl FnOnce() -> T + Send + 'static) -> T {
    apart(move || {
        let _turn = turn;
        work()
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};
    use tokio::time::Instant;

    use super::*;

    fn never_ending(start: usize) -> Body {
        let start = Bytes::from(vec![b' '; start]);
        Body::from_stream(stream::iter([Ok::<_, Infallible>(start)]).chain(stream::pending()))
    }

    fn budget(bytes: usize) -> Budget {
        Budget::new(bytes, bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_does_not_come_is_not_waited_for_longer_than_a_minute() {
        let started = Instant::now();
        let allowance = Allowance::of(&budget(100), true);
        let error = allowance
            .read(never_ending(1))
            .await
            .map(|read| read.bytes)
            .unwrap_err();
        assert_eq!((error.code.as_u16(), error.reason), (504, "Timeout"));
        assert_eq!(started.elapsed(), BODY_TIMEOUT);
    }

    #[tokio::test]
    async fn bodies_share_a_bounded_memory_and_give_it_back() {
        let bodies = budget(100);
        let allowance = Allowance::of(&bodies, true);
        let held = allowance
            .read(Body::from(vec![b' '; 60]))
            .await
            .map_err(|error| error.message)
            .unwrap();
        assert_eq!(held.bytes.len(), 60);
        assert!(held.keep());
        let refused = allowance
            .read(Body::from(vec![b' '; 60]))
            .await
            .map(|read| read.bytes)
            .unwrap_err();
        assert_eq!((refused.code.as_u16(), refused.reason), (429, "TooManyRequests"));
        drop(held);
        assert!(allowance.read(Body::from(vec![b' '; 60])).await.is_ok());
        assert_eq!(bodies.granted(), 0);
    }

    #[tokio::test]
    async fn stalled_bodies_of_one_cluster_give_way_to_the_small_ones_of_another() {
        let bodies = budget(100);
        let hostile = Allowance::of(&bodies, true);
        let neighbour = Allowance::of(&bodies, true);
        let mut stalled: Vec<_> = (0..10)
            .map(|_| Box::pin(hostile.read(never_ending(10))))
            .collect();
        for stalled in &mut stalled {
            assert!(futures::poll!(stalled.as_mut()).is_pending());
        }
        assert_eq!(bodies.granted(), 100);
        assert!(neighbour.read(Body::from(vec![b' '; 5])).await.is_ok());
        // The first one was silent for longest.
        let ended = stalled.remove(0).await.map(|read| read.bytes).unwrap_err();
        assert_eq!(ended.code.as_u16(), 429);
        for stalled in &mut stalled {
            assert!(futures::poll!(stalled.as_mut()).is_pending());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_turn_is_refused_and_does_not_go_first() {
        let allowance = Allowance::of(&budget(100), true);
        let _places: Vec<_> = (0..=FEW_REQUESTS).map(|_| allowance.place()).collect();
        let turn = allowance
            .turns
            .as_ref()
            .map(|turns| turns.try_acquire().expect("a turn"));
        let refused = allowance.small(&Held::default(), || Ok(1)).await;
        assert_eq!(refused.map_err(|error| error.code.as_u16()), Err(429));
        drop(turn);
        assert_eq!(allowance.small(&Held::default(), || Ok(2)).await, Ok(2));
    }

    #[tokio::test]
    async fn a_cluster_works_on_one_large_request_at_a_time_and_another_cluster_on_the_next() {
        let hostile = Allowance::of(&budget(100), true);
        let neighbour = Allowance::of(&budget(100), true);
        let busy = hostile.large.acquire().await;
        let mut large = Box::pin(hostile.large(Held::default(), |_| Ok(1)));
        assert!(futures::poll!(large.as_mut()).is_pending());
        assert_eq!(hostile.small(&Held::default(), || Ok(2)).await, Ok(2));
        assert_eq!(neighbour.large(Held::default(), |_| Ok(3)).await, Ok(3));
        drop(busy);
        assert_eq!(large.await, Ok(1));
    }

    /// Time that is paused would jump to the next timer instead: watches seemed hours late, and tests failed that ran beside
    /// others.
    #[tokio::test(start_paused = true)]
    async fn simulated_time_does_not_wait_for_large_requests_of_other_threads() {
        let busy = LARGE.clone().acquire_many_owned(LARGE_MAX as u32).await;
        let started = Instant::now();
        let part = Allowance::of(&budget(100), true);
        let part = timeout(Duration::from_secs(1), part.large_part(|| 1)).await;
        assert_eq!((part.ok(), started.elapsed()), (Some(1), Duration::ZERO));
        drop(busy);
    }

    #[tokio::test]
    async fn a_body_of_too_many_values_is_refused_before_it_is_parsed() {
        let allowance = Allowance::of(&budget(4 << 20), true);
        let bytes = format!("[{}{{}}]", "{\"\":0},".repeat(100_000));
        let body = allowance
            .read(Body::from(bytes))
            .await
            .map_err(|error| error.message)
            .unwrap();
        let refused = allowance
            .large(body, |_| -> Result<(), _> { panic!("it was parsed") })
            .await;
        assert_eq!(refused.map_err(|error| error.code.as_u16()), Err(413));
    }
}
