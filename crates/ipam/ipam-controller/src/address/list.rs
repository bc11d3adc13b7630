//! Consistent lists of IPAddresses. Pools that ask at the same time share one list.

use std::collections::HashMap;

use kube::{Api, api::ListParams};
use nephele_api::ipam::v1beta2::IPAddress;
use nephele_controller::Readable;
use nephele_ipam::Owner;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Record, version};
use crate::pool::PoolKey;

/// The number of pools in the queue for the next list. More pools wait until the queue has room.
const ASKING_MAX: usize = 1024;
/// IPAddresses in one page: some 4 MiB.
const PAGE: u32 = 2000;

/// The IPAddresses of a pool at one instant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed {
    pub(crate) records: Vec<(Owner, Record)>,
    /// The version of the list.
    pub(crate) version: u64,
}

/// The handle that requests lists.
#[derive(Debug, Clone)]
pub(crate) struct Lister {
    asking: mpsc::Sender<(PoolKey, oneshot::Sender<Option<Listed>>)>,
}

impl Lister {
    /// The IPAddresses of a pool, from a list that starts after this call; none if the list failed.
    pub(crate) async fn list(&self, pool: &PoolKey) -> Option<Listed> {
        let (reply, answer) = oneshot::channel();
        self.asking.send((pool.clone(), reply)).await.ok()?;
        answer.await.ok().flatten()
    }
}

/// The handle, and the future that reads lists until `shutdown`.
pub(crate) fn lister(
    api: Api<Readable<IPAddress>>,
    shutdown: CancellationToken,
) -> (Lister, impl Future<Output = ()> + Send + 'static) {
    let (asking, mut asked) = mpsc::channel::<(PoolKey, oneshot::Sender<Option<Listed>>)>(ASKING_MAX);
    let serve = async move {
        while let Some(first) = shutdown.run_until_cancelled(asked.recv()).await.flatten() {
            let mut replies = vec![first];
            while let Ok(next) = asked.try_recv() {
                replies.push(next);
            }
            let Some(read) = shutdown.run_until_cancelled(read(&api)).await else {
                return;
            };
            match read {
                Ok((mut by_pool, version)) => {
                    for (pool, reply) in replies {
                        // A pool has only one request at a time.
                        let records = by_pool.remove(&pool).unwrap_or_default();
                        let _ = reply.send(Some(Listed { records, version }));
                    }
                }
                Err(error) => {
                    warn!(error = %nephele_controller::chain(&error), "Failed to list IPAddresses");
                    for (_, reply) in replies {
                        let _ = reply.send(None);
                    }
                }
            }
        }
    };
    (Lister { asking }, serve)
}

type ByPool = HashMap<PoolKey, Vec<(Owner, Record)>>;

/// Lists page by page, or without pages if the continue token expires.
async fn read(api: &Api<Readable<IPAddress>>) -> Result<(ByPool, u64), kube::Error> {
    match read_with(api, &ListParams::default().limit(PAGE)).await {
        Err(kube::Error::Api(status)) if status.code == 410 => read_with(api, &ListParams::default()).await,
        other => other,
    }
}

async fn read_with(
    api: &Api<Readable<IPAddress>>,
    params: &ListParams,
) -> Result<(ByPool, u64), kube::Error> {
    let mut by_pool = ByPool::new();
    let mut params = params.clone();
    loop {
        let page = api.list(&params).await?;
        for address in page.items.into_iter().map(Readable::into_object) {
            if let Some((pool, owner, record)) = Record::of(&address) {
                by_pool.entry(pool).or_default().push((owner, record));
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => {
                let version = version(page.metadata.resource_version.as_deref());
                debug!(pools = by_pool.len(), version, "Listed IPAddresses");
                return Ok((by_pool, version));
            }
        }
    }
}
