//! Two managers with one pool, over connections that lose requests and responses, stall, and outlive their process.
//!
//! Time is paused: it jumps to the next timer, so that minutes of waiting take no time. The failures are drawn from a
//! seed; the order in which tasks run is not, so a seed names a scenario and not an exact run.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Request, Response};
use kube::{
    Client, ResourceExt as _,
    api::{Api, DeleteParams, ListParams, PostParams},
};
use nephele_api::ipam::{
    PoolKind,
    v1alpha2::InClusterIPPool,
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_ipam_controller::Settings;
use nephele_testkit::{ManagementApi, Stage, objects::NAMESPACE};
use parking_lot::Mutex;
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{
    draws::Draws,
    world::{claim, controllers, is_ready, settings, spec},
};

/// Few enough addresses that claims have to wait and that every address is used again and again.
const ADDRESSES: &str = "10.0.0.1-10.0.0.6";
const ADDRESS_COUNT: usize = 6;
/// The simulated time within which all remaining claims have to settle.
const SETTLES_WITHIN: Duration = Duration::from_secs(1200);

/// How long a process may take to end.
const DRAIN_MAX: Duration = Duration::from_secs(4);

/// The connection of one process, with its failures.
struct Connection {
    draws: Mutex<Draws>,
    frozen_until: Mutex<Instant>,
    trouble: bool,
}

/// The failures of one request.
struct Fate {
    lost: bool,
    answer_lost: bool,
    /// The request arrives, but long after its sender has stopped waiting.
    given_up: bool,
    before: Duration,
    after: Duration,
}

impl Connection {
    fn fate(&self) -> Fate {
        let mut draws = self.draws.lock();
        let delay = |draws: &mut Draws| match draws.next(8) {
            0 => Duration::from_millis(draws.next(4000)),
            _ => Duration::from_millis(draws.next(20)),
        };
        let lost = draws.once_in(15);
        let answer_lost = draws.once_in(15);
        let given_up = draws.once_in(15);
        let before = if given_up {
            Duration::from_millis(draws.next(30_000))
        } else {
            delay(&mut draws)
        };
        Fate {
            lost,
            answer_lost,
            given_up,
            before,
            after: delay(&mut draws),
        }
    }

    /// Suspends the process: no request of it arrives before it resumes.
    fn freeze(&self, time: Duration) {
        *self.frozen_until.lock() = Instant::now() + time;
    }

    async fn thaw(&self) {
        loop {
            let until = *self.frozen_until.lock();
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    fn client(self: &Arc<Self>, api: &ManagementApi) -> Client {
        let connection = Arc::clone(self);
        let server = api.server().clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let connection = Arc::clone(&connection);
            let server = server.clone();
            async move {
                if !connection.trouble
                    || request
                        .uri()
                        .query()
                        .is_some_and(|query| query.contains("watch="))
                {
                    let response: Response<Body> = server.handle(request.map(Body::new)).await;
                    return Ok::<_, io::Error>(response);
                }
                let fate = connection.fate();
                let lost = || Err(io::Error::other("the connection was lost"));
                // A task of its own, because the request arrives even if the sender is gone.
                let task = tokio::spawn(async move {
                    sleep(fate.before).await;
                    connection.thaw().await;
                    if fate.lost {
                        return None;
                    }
                    let response: Response<Body> = server.handle(request.map(Body::new)).await;
                    sleep(fate.after).await;
                    connection.thaw().await;
                    Some(response)
                });
                if fate.given_up {
                    return lost();
                }
                match task.await.expect("no panic") {
                    Some(response) if !fate.answer_lost => Ok(response),
                    _ => lost(),
                }
            }
        });
        Client::new(service, NAMESPACE)
    }
}

/// A manager that can be killed.
struct Process {
    connection: Arc<Connection>,
    running: Stage,
}

impl Process {
    fn start(api: &ManagementApi, seed: u64, trouble: bool, settings: Settings) -> Self {
        let connection = Arc::new(Connection {
            draws: Mutex::new(Draws(seed)),
            frozen_until: Mutex::new(Instant::now()),
            trouble,
        });
        let (_, running) = controllers(connection.client(api), api.clock(), settings);
        Self { connection, running }
    }

    /// Kills the manager. Its requests may still arrive.
    async fn kill(self) {
        self.running.kill().await;
    }

    /// Stops the manager, and waits no longer than the manager does.
    async fn stop(self) {
        self.running.stop_within(DRAIN_MAX).await;
    }
}

#[derive(Debug, Clone)]
enum Step {
    Make,
    /// Delete one of the claims.
    Delete(usize),
    /// Remove a claim by force, finalizers and all.
    Remove(usize),
    Freeze(usize, u64),
    Restart(usize),
    Kill(usize),
    Wait(u64),
}

fn steps(with_force: bool) -> impl Strategy<Value = Vec<Step>> {
    let force = u32::from(with_force);
    let step = prop_oneof![
        8 => Just(Step::Make),
        6 => (0..20_usize).prop_map(Step::Delete),
        force => (0..20_usize).prop_map(Step::Remove),
        2 => (0..2_usize, 1..40_000_u64).prop_map(|(process, time)| Step::Freeze(process, time)),
        1 => (0..2_usize).prop_map(Step::Restart),
        force => (0..2_usize).prop_map(Step::Kill),
        6 => (0..8_000_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 20..60)
}

/// The bound claims with their addresses. Claims that are being deleted are left out: another claim may get their
/// address.
async fn bound(api: &ManagementApi) -> Vec<(String, String)> {
    let addresses = Api::<IPAddress>::all(api.client())
        .list(&ListParams::default())
        .await
        .expect("a list");
    let by_owner: BTreeMap<(String, String), String> = addresses
        .items
        .into_iter()
        .filter_map(|address| {
            let owner = address
                .owner_references()
                .iter()
                .find(|owner| owner.kind == "IPAddressClaim")?;
            Some((
                (address.name_any(), owner.uid.clone()),
                address.spec.address.clone(),
            ))
        })
        .collect();
    let claims = Api::<IPAddressClaim>::all(api.client())
        .list(&ListParams::default())
        .await
        .expect("a list");
    let bound = claims.items.into_iter().filter_map(|claim| {
        let name = claim.address_name()?.to_owned();
        let address = by_owner.get(&(name, claim.uid()?))?;
        claim
            .metadata
            .deletion_timestamp
            .is_none()
            .then(|| (claim.name_any(), address.clone()))
    });
    bound.collect()
}

fn twice(bound: &[(String, String)]) -> Option<String> {
    let mut holders = BTreeMap::new();
    bound.iter().find_map(|(claim, address)| {
        let other = holders.insert(address, claim)?;
        Some(format!("{address} is {claim}'s and {other}'s"))
    })
}

async fn scenario(seed: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let api = ManagementApi::start();
    let mut pool = InClusterIPPool::new("pool", spec(&[ADDRESSES], 24, ""));
    pool.metadata.namespace = Some(NAMESPACE.into());
    api.create(&pool).await;
    let start = |number: u64| Process::start(&api, seed ^ (number << 32), true, settings());
    let mut started = 2;
    let mut processes = [start(0), start(1)];
    let claims: Api<IPAddressClaim> = api.api();
    let mut names: Vec<String> = Vec::new();
    let mut made = 0;
    for step in steps {
        match step {
            Step::Make => {
                // Names of claims are reused, as names of machines are.
                let name = format!("claim-{}", made % 17);
                made += 1;
                let object = claim(&name, PoolKind::InClusterIPPool, "pool");
                if claims.create(&PostParams::default(), &object).await.is_ok() {
                    names.push(name);
                }
            }
            Step::Delete(which) if !names.is_empty() => {
                let name = names.remove(which % names.len());
                let _ = claims.delete(&name, &DeleteParams::default()).await;
            }
            Step::Remove(which) if !names.is_empty() => {
                let name = names.remove(which % names.len());
                let stripped = serde_json::json!({ "metadata": { "finalizers": null } });
                let _ = claims.delete(&name, &DeleteParams::default()).await;
                let _ = claims
                    .patch(
                        &name,
                        &kube::api::PatchParams::default(),
                        &kube::api::Patch::Merge(stripped),
                    )
                    .await;
            }
            Step::Delete(_) | Step::Remove(_) => {}
            Step::Freeze(which, time) => processes[which].connection.freeze(Duration::from_millis(time)),
            Step::Restart(which) | Step::Kill(which) => {
                let next = start(started);
                started += 1;
                let last = std::mem::replace(&mut processes[which], next);
                if matches!(step, Step::Kill(_)) {
                    last.kill().await;
                } else {
                    last.stop().await;
                }
            }
            Step::Wait(time) => sleep(Duration::from_millis(time)).await,
        }
        let bound = bound(&api).await;
        prop_assert_eq!(twice(&bound), None);
    }
    for process in processes {
        process.stop().await;
    }
    // All pending requests arrive.
    sleep(Duration::from_secs(60)).await;
    // A process that was killed may leave an orphan behind, which `reclaim_orphans` deletes.
    let healthy = Process::start(
        &api,
        0,
        false,
        Settings {
            reclaim_orphans: true,
            ..settings()
        },
    );
    let settled = timeout(SETTLES_WITHIN, async {
        loop {
            if let Some(found) = settled(&api).await {
                return found;
            }
            sleep(Duration::from_secs(5)).await;
        }
    });
    let outcome = settled.await;
    let bound = bound(&api).await;
    prop_assert_eq!(twice(&bound), None);
    if outcome.is_err() {
        let addresses = api
            .api::<IPAddress>()
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items;
        let claims = claims.list(&ListParams::default()).await.expect("a list").items;
        let pool = api.get::<InClusterIPPool>("pool").await;
        prop_assert!(
            false,
            "not settled: {bound:?}\n{:?}\n{claims:#?}\n{addresses:#?}",
            pool.status
        );
    }
    healthy.stop().await;
    Ok(())
}

/// Whether every claim has an address or all addresses are taken, there is no IPAddress without a claim, and the
/// pool's status agrees.
async fn settled(api: &ManagementApi) -> Option<()> {
    let claims = api
        .api::<IPAddressClaim>()
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    let addresses = api
        .api::<IPAddress>()
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    let bound = bound(api).await;
    let ready = claims.iter().filter(|claim| is_ready(claim)).count();
    let wanted = claims.len().min(ADDRESS_COUNT);
    let pool: InClusterIPPool = api.get("pool").await;
    let status = pool.status.unwrap_or_default();
    let counted = status.ip_addresses.unwrap_or_default();
    let used = i64::try_from(wanted).ok()?;
    let going = claims
        .iter()
        .any(|claim| claim.metadata.deletion_timestamp.is_some());
    (!going
        && bound.len() == wanted
        && ready == wanted
        && addresses.len() == wanted
        && counted.used == used
        && status.pending.is_empty())
    .then_some(())
}

fn run(seed: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime");
    let outcome = runtime.block_on(scenario(seed, steps));
    runtime.shutdown_background();
    outcome
}

/// Few cases, unless `PROPTEST_CASES` says how many.
fn config() -> Config {
    let by_environment = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        by_environment.cases
    } else {
        16
    };
    Config {
        cases,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..by_environment
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_address_is_on_two_claims_and_none_is_lost(seed in any::<u64>(), steps in steps(false)) {
        run(seed, steps)?;
    }

    #[test]
    fn the_same_when_managers_are_killed_and_claims_taken_away_by_force(seed in any::<u64>(), steps in steps(true)) {
        run(seed, steps)?;
    }
}
