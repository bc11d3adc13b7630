//! Follows the objects and the journal, and publishes them at most six times a second.

use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body};
use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use http::Request;
use http_body_util::BodyExt as _;
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{
        reflector::{self, Store},
        watcher::{self, Event},
    },
};
use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario, SimulatedCloud},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
    ipam::{
        v1alpha2::{GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterIPPool, InClusterPrefixPool},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_cloud::JournalLine;
use nephele_controller::{Kind, Readable, measured, scoped};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tower::ServiceExt as _;

use crate::{allowance::Allowance, objects::Objects};

/// How long a change waits at least, because a change seldom comes alone.
const GATHERED: Duration = Duration::from_millis(50);
/// The least time between two frames. Each costs a browser with a thousand machines more than 10 ms, and a change has to be
/// seen within 250 ms.
const FRAME: Duration = Duration::from_millis(180);
/// How long the first lists may take. The page then shows the rest.
const LISTED_WITHIN: Duration = Duration::from_secs(5);
/// How long a list that was refused waits until it is tried again. Whoever has one namespace may seldom list what is in none, so
/// each such viewer would ask several times a second.
const REFUSED_FOR: Duration = Duration::from_mins(1);
/// How long to wait for a manager that has no cloud yet.
const RETRY: Duration = Duration::from_millis(500);
/// The longest line of the journal. The manager's are far shorter.
const LINE_MAX: usize = 64 * 1024;

/// From where objects and records are read.
#[derive(Clone)]
pub struct Source {
    /// A client of the management API that may list what the page shows.
    pub client: Client,
    /// The only namespace that is followed; all if there is none.
    pub namespace: Option<String>,
    /// `/journal` of the manager, for a caller who may read it.
    pub journal: Router,
    /// What the objects may take. If they are more, nothing is followed for a minute.
    pub allowance: Allowance,
}

/// What came.
enum News {
    /// An object has changed.
    Changed,
    /// The first list of a kind is complete.
    Listed(Cow<'static, str>),
    /// The API server does not have a kind now: a client that learns which version is served asks again soon.
    Absent(Cow<'static, str>),
    /// The API server does not let the viewer list a kind.
    Refused(Cow<'static, str>),
    /// The objects are more than they may be.
    Exceeded,
    Record(Box<Record>),
}

/// A record of the journal.
struct Record {
    line: JournalLine,
    /// Whether an answer of the manager begins with it.
    is_first: bool,
}

/// The objects so far.
struct Following {
    clusters: Store<Cluster>,
    machines: Store<Machine>,
    in_memory_clusters: Store<InMemoryCluster>,
    in_memory_machines: Store<InMemoryMachine>,
    clouds: Store<SimulatedCloud>,
    faults: Store<Fault>,
    scenarios: Store<Scenario>,
    pools: Store<InClusterIPPool>,
    global_pools: Store<GlobalInClusterIPPool>,
    prefix_pools: Store<InClusterPrefixPool>,
    global_prefix_pools: Store<GlobalInClusterPrefixPool>,
    claims: Store<IPAddressClaim>,
    addresses: Store<IPAddress>,
    /// The kinds that are listed.
    listed: BTreeSet<Cow<'static, str>>,
    records: Records,
}

/// The last records of the journal, the oldest first.
struct Records {
    max: usize,
    kept: VecDeque<Arc<JournalLine>>,
    /// The number of the last record of the manager that answers.
    last: u64,
}

impl Records {
    fn new(max: usize) -> Self {
        Self {
            max,
            kept: VecDeque::new(),
            last: 0,
        }
    }

    /// Takes a record, unless it is known: an answer of a manager begins with all that it remembers. One that begins with an
    /// earlier number and another record is that of a successor, which counts from 1 again.
    fn note(&mut self, Record { line, is_first }: Record) {
        if is_first && line.sequence <= self.last && !self.kept.iter().any(|kept| **kept == line) {
            self.last = 0;
        }
        if line.sequence <= self.last {
            return;
        }
        self.last = line.sequence;
        if self.kept.len() >= self.max {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::new(line));
    }
}

/// How many kinds are followed.
const KINDS: usize = 13;

/// Publishes the objects until `is_over`, which is asked whenever there is no reader, or until they are more than they may be.
pub(crate) async fn follow(
    source: Source,
    published: watch::Sender<Option<Arc<Objects>>>,
    is_over: impl Fn() -> bool,
) {
    let (mut following, watches) = Following::start(&source);
    let records = records(source.journal).map(|record| News::Record(Box::new(record)));
    let mut news = stream::select(watches, records.boxed());
    let mut answered = BTreeSet::new();
    let mut due = Some(Instant::now() + LISTED_WITHIN);
    let mut last = None;
    loop {
        let frame = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            new = news.next() => {
                match new {
                    Some(News::Record(record)) => following.records.note(*record),
                    Some(News::Listed(kind)) => {
                        following.listed.insert(kind.clone());
                        answered.insert(kind);
                    }
                    Some(News::Refused(kind) | News::Absent(kind)) => {
                        answered.insert(kind);
                    }
                    Some(News::Changed) => {}
                    Some(News::Exceeded) | None => return,
                }
                let is_shown = published.borrow().is_some();
                let soon = next_frame(Instant::now(), last);
                match due {
                    // At the end of the first lists there is nothing to wait for.
                    _ if answered.len() == KINDS && !is_shown => due = Some(Instant::now()),
                    None if is_shown => due = Some(soon),
                    _ => {}
                }
            }
            () = frame => {
                due = None;
                last = Some(Instant::now());
                published.send_replace(Some(Arc::new(following.objects())));
            }
            () = published.closed() => {
                if is_over() {
                    return;
                }
            }
        }
    }
}

/// When a change is shown that comes now, after the last frame.
fn next_frame(now: Instant, last: Option<Instant>) -> Instant {
    let gathered = now + GATHERED;
    last.map_or(gathered, |last| gathered.max(last + FRAME))
}

impl Following {
    fn start(source: &Source) -> (Self, BoxStream<'static, News>) {
        let (clusters, of_clusters) = watched::<Cluster>(source);
        let (machines, of_machines) = watched::<Machine>(source);
        let (in_memory_clusters, of_in_memory_clusters) = watched::<InMemoryCluster>(source);
        let (in_memory_machines, of_in_memory_machines) = watched::<InMemoryMachine>(source);
        let (clouds, of_clouds) = watched::<SimulatedCloud>(source);
        let (faults, of_faults) = watched::<Fault>(source);
        let (scenarios, of_scenarios) = watched::<Scenario>(source);
        let (pools, of_pools) = watched::<InClusterIPPool>(source);
        let (global_pools, of_global_pools) =
            watched_in::<GlobalInClusterIPPool>(Api::all(source.client.clone()), &source.allowance);
        let (prefix_pools, of_prefix_pools) = watched::<InClusterPrefixPool>(source);
        let (global_prefix_pools, of_global_prefix_pools) =
            watched_in::<GlobalInClusterPrefixPool>(Api::all(source.client.clone()), &source.allowance);
        let (claims, of_claims) = watched::<IPAddressClaim>(source);
        let (addresses, of_addresses) = watched::<IPAddress>(source);
        let all = [
            of_clusters,
            of_machines,
            of_in_memory_clusters,
            of_in_memory_machines,
            of_clouds,
            of_faults,
            of_scenarios,
            of_pools,
            of_global_pools,
            of_prefix_pools,
            of_global_prefix_pools,
            of_claims,
            of_addresses,
        ];
        let following = Self {
            clusters,
            machines,
            in_memory_clusters,
            in_memory_machines,
            clouds,
            faults,
            scenarios,
            pools,
            global_pools,
            prefix_pools,
            global_prefix_pools,
            claims,
            addresses,
            listed: BTreeSet::new(),
            records: Records::new(source.allowance.records()),
        };
        (following, stream::select_all(all).boxed())
    }

    fn objects(&self) -> Objects {
        let is_listed = |kind: &str| self.listed.contains(kind);
        Objects {
            clusters: self.clusters.state(),
            machines: self.machines.state(),
            in_memory_clusters: self.in_memory_clusters.state(),
            in_memory_machines: self.in_memory_machines.state(),
            clouds: self.clouds.state(),
            faults: self.faults.state(),
            scenarios: self.scenarios.state(),
            pools: self.pools.state(),
            global_pools: self.global_pools.state(),
            prefix_pools: self.prefix_pools.state(),
            global_prefix_pools: self.global_prefix_pools.state(),
            claims: is_listed(&IPAddressClaim::kind(&())).then(|| self.claims.state()),
            addresses: is_listed(&IPAddress::kind(&())).then(|| self.addresses.state()),
            journal: self.records.kept.iter().cloned().collect(),
        }
    }
}

/// The objects of a kind in the namespace that is followed.
fn watched<K: Kind + Resource<Scope = NamespaceResourceScope>>(
    source: &Source,
) -> (Store<K>, BoxStream<'static, News>) {
    let api = scoped(source.client.clone(), source.namespace.as_deref());
    watched_in(api, &source.allowance)
}

fn watched_in<K: Kind>(api: Api<Readable<K>>, allowance: &Allowance) -> (Store<K>, BoxStream<'static, News>) {
    let (store, writer) = reflector::store();
    let mut taken = allowance.watch();
    let events = measured::<K>(api, watcher::Config::default().page_size(allowance.page()));
    let events = events.take_while(move |event| {
        let fits = event
            .as_ref()
            .map_or(true, |(event, bytes)| taken.note(event, *bytes));
        std::future::ready(fits)
    });
    let events = events.map_ok(|(event, _)| event);
    let mut is_listed = false;
    let news = reflector::reflector(writer, events).filter_map(move |event| {
        let news = match event {
            Ok(Event::InitDone) if !is_listed => {
                is_listed = true;
                Some(News::Listed(K::kind(&())))
            }
            // The store has the objects of a list when the list is complete.
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => Some(News::Changed),
            Err(error) => {
                tracing::debug!(error = %nephele_controller::chain(&error), "A watch failed and is tried again");
                match refusal(&error) {
                    Some(403) => Some(News::Refused(K::kind(&()))),
                    Some(404) => Some(News::Absent(K::kind(&()))),
                    _ => None,
                }
            }
        };
        std::future::ready(news)
    });
    // A watch does not end by itself.
    let exceeded = stream::once(std::future::ready(News::Exceeded));
    (store, paced(news.chain(exceeded).boxed()).boxed())
}

/// What came, with a pause after each refusal: the watch tries again when it is asked for more.
fn paced(news: BoxStream<'static, News>) -> impl Stream<Item = News> + Send {
    stream::unfold((news, false), async |(mut news, is_refused)| {
        if is_refused {
            sleep(REFUSED_FOR).await;
        }
        let new = news.next().await?;
        let is_refused = matches!(new, News::Refused(_));
        Some((new, (news, is_refused)))
    })
}

/// The status with which the API server refused a list: 403 if the viewer may not list the kind, 404 if there is no such kind.
fn refusal(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// The records of the journal, those that the manager remembers and those to come. When the manager ends the answer, the
/// question is asked again.
fn records(router: Router) -> impl Stream<Item = Record> {
    let answers = stream::unfold((router, true), |(router, is_first)| async move {
        if !is_first {
            sleep(RETRY).await;
        }
        loop {
            match ask(&router).await {
                Some(lines) => return Some((lines, (router, false))),
                None => sleep(RETRY).await,
            }
        }
    });
    let records = answers.map(|lines: BoxStream<'static, JournalLine>| {
        lines.enumerate().map(|(index, line)| Record {
            line,
            is_first: index == 0,
        })
    });
    records.flatten()
}

/// An answer of the manager, line by line. None while it runs no cloud.
async fn ask(router: &Router) -> Option<BoxStream<'static, JournalLine>> {
    let request = Request::builder()
        .uri("/journal?follow=true")
        .body(Body::empty())
        .ok()?;
    let answer = router
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    if !answer.status().is_success() {
        return None;
    }
    let lines = stream::unfold(
        (answer.into_body(), Vec::new()),
        |(mut body, mut rest)| async move {
            let frame = body.frame().await?.ok()?;
            rest.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
            let lines = whole_lines(&mut rest);
            (rest.len() <= LINE_MAX).then_some((stream::iter(lines), (body, rest)))
        },
    );
    Some(lines.flatten().boxed())
}

/// Takes the whole lines out of the bytes.
fn whole_lines(bytes: &mut Vec<u8>) -> Vec<JournalLine> {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        return Vec::new();
    };
    let rest = bytes.split_off(end + 1);
    let text = std::mem::replace(bytes, rest);
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nephele_testkit::ManagementApi;
    use proptest::{collection::vec, prelude::*};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_rest_is_shown_at_once_when_a_kind_may_not_be_listed() {
        for (is_forbidden, claims) in [(false, Some(0)), (true, None)] {
            let management = ManagementApi::start();
            let forbidden = move |_: &str, path: &str| is_forbidden && path.ends_with("/ipaddressclaims");
            let source = Source {
                client: management.forbidding(forbidden),
                namespace: None,
                journal: Router::new(),
                allowance: Allowance::unlimited(),
            };
            let (published, mut objects) = watch::channel(None);
            let following = tokio::spawn(follow(source, published, || true));
            let shown = timeout(LISTED_WITHIN / 2, objects.changed()).await;
            shown.expect("before the limit").expect("it follows");
            let shown = objects.borrow().clone().expect("it is published");
            assert_eq!(shown.claims.as_ref().map(Vec::len), claims);
            following.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_may_not_be_listed_is_asked_for_once_a_minute() {
        let management = ManagementApi::start();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let forbidden = move |_: &str, path: &str| {
            let is_global = path.contains("/globalincluster");
            count.fetch_add(usize::from(is_global), Ordering::Relaxed);
            is_global
        };
        let source = Source {
            client: management.forbidding(forbidden),
            namespace: Some("default".to_owned()),
            journal: Router::new(),
            allowance: Allowance::unlimited(),
        };
        let (published, _objects) = watch::channel(None);
        let following = tokio::spawn(follow(source, published, || true));
        sleep(10 * REFUSED_FOR - Duration::from_secs(1)).await;
        assert_eq!(
            asked.load(Ordering::Relaxed),
            2 * 10,
            "two kinds, for ten minutes"
        );
        following.abort();
    }

    #[test]
    fn a_change_after_silence_is_shown_soon_and_one_of_many_with_the_next_frame() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(next_frame(at(0), None), at(50));
        assert_eq!(next_frame(at(900), Some(at(0))), at(950));
        assert_eq!(next_frame(at(10), Some(at(0))), at(180));
        assert_eq!(next_frame(at(170), Some(at(0))), at(220));
    }

    proptest! {
        /// Each manager numbers its records from 1, and each of its answers begins with the records that it still remembers.
        #[test]
        fn the_records_of_a_manager_are_kept_once_and_those_of_its_successor_follow_them(
            managers in vec(vec((0_u64..3, 1_u64..5), 1..4), 1..4),
        ) {
            let mut records = Records::new(4096);
            let mut told = Vec::new();
            for (manager, answers) in managers.into_iter().enumerate() {
                let mut first = 1;
                let mut last = 0;
                for (forgotten, new) in answers {
                    let before = last;
                    first = (first + forgotten).min(before + 1);
                    last += new;
                    for sequence in first..=last {
                        let message = manager.to_string();
                        let line = JournalLine { sequence, message, ..JournalLine::default() };
                        if sequence > before {
                            told.push(Arc::new(line.clone()));
                        }
                        records.note(Record { line, is_first: sequence == first });
                    }
                }
            }
            prop_assert_eq!(Vec::from(records.kept), told);
        }
    }
}
