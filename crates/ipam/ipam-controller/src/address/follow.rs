//! The watch of IPAddresses, which passes each IPAddress to its pool.

use futures::StreamExt as _;
use kube::{Api, ResourceExt as _, runtime::watcher};
use nephele_api::ipam::v1beta2::IPAddress;
use nephele_controller::{Gate, Listing, Readable, Services, watch_failed, watched};
use nephele_ipam::Owner;
use tokio_util::sync::CancellationToken;

use super::Record;
use crate::{claim_queue::ClaimQueue, pool::Pools};

/// Watches until `shutdown`; tells the readers of `first_list` when it is complete.
pub(crate) async fn follow(
    services: &Services,
    api: Api<Readable<IPAddress>>,
    pools: &Pools,
    claims: &ClaimQueue,
    gate: Gate,
    first_list: Listing,
    shutdown: CancellationToken,
) {
    let events = watched(services, api, watcher::Config::default());
    let mut events = std::pin::pin!(events);
    while let Some(event) = shutdown.run_until_cancelled(events.next()).await.flatten() {
        match event {
            Ok(watcher::Event::Apply(address) | watcher::Event::InitApply(address)) => {
                if let Some((key, owner, record)) = Record::of(&address)
                    && let Some(pool) = pools.get(&key)
                {
                    // The claim takes over an IPAddress that lost its owners or finalizer.
                    let stripped = (!record.is_whole()).then(|| owner.clone());
                    pool.applied(&owner, record);
                    claims.wake(stripped);
                }
            }
            Ok(watcher::Event::Delete(address)) => {
                if let Some((key, owner, record)) = Record::of(&address)
                    && let Some(pool) = pools.get(&key)
                {
                    pool.deleted(&owner, &record.uid);
                }
                // The claim may have lost its IPAddress, or another claim may have waited for the name.
                let namespace = address.namespace().unwrap_or_default();
                claims.wake([Owner::new(&namespace, &address.name_any())]);
            }
            Ok(watcher::Event::Init) => {}
            Ok(watcher::Event::InitDone) => {
                gate.open();
                if first_list.finished() {
                    for pool in pools.all() {
                        pool.relisted();
                    }
                }
            }
            Err(error) => watch_failed("IPAddress", &error),
        }
    }
}
