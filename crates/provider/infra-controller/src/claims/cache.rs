//! The cache of claims.

use std::{future::Future, sync::Arc};

use futures::FutureExt as _;
use kube::{Api, Client, runtime::watcher};
use nephele_api::{ipam::v1beta2::IPAddressClaim, labels};
use nephele_controller::{Cache, Services, scoped};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::Error;

/// A cache of the claims of clusters whose watch begins with the first claim: the manager sends no requests for claims
/// to a management cluster without Cluster API's IPAM kinds, or without machines on pools.
pub(crate) struct ClaimCache {
    cache: Cache<IPAddressClaim>,
    followed: watch::Sender<bool>,
}

impl ClaimCache {
    /// A cache, and the future that runs its watch from the first claim on until `shutdown`. Nothing should wait for the
    /// readiness of `services`: the manager is ready without this cache, whose watch may never begin or may not be
    /// possible.
    pub(crate) fn open(
        services: &Services,
        client: Client,
        namespace: Option<&str>,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let of_clusters = watcher::Config::default().labels(labels::CLUSTER_NAME);
        let (cache, keep) = Cache::<IPAddressClaim>::start(
            services,
            scoped(client, namespace),
            of_clusters,
            shutdown.clone(),
        );
        let followed = watch::Sender::new(false);
        let mut wanted = followed.subscribe();
        let keep = async move {
            let opened = shutdown
                .run_until_cancelled(wanted.wait_for(|wanted| *wanted))
                .await;
            let opened = opened.is_some_and(|opened| opened.is_ok());
            if opened {
                keep.await;
            }
        };
        (Self { cache, followed }, keep)
    }

    pub(crate) fn cache(&self) -> &Cache<IPAddressClaim> {
        &self.cache
    }

    /// Begins the watch.
    pub(crate) fn follow(&self) {
        self.followed
            .send_if_modified(|followed| !std::mem::replace(followed, true));
    }

    /// The claim of this name. It is read from the management API until the cache has its first list.
    pub(crate) async fn get(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<IPAddressClaim>>, Error> {
        self.follow();
        if self.cache.ready().now_or_never() == Some(true) {
            return Ok(self.cache.get(namespace, name));
        }
        match Api::<IPAddressClaim>::namespaced(client.clone(), namespace)
            .get_opt(name)
            .await
        {
            Ok(claim) => Ok(claim.map(Arc::new)),
            Err(source) => Err(Error::Read {
                kind: "IPAddressClaim",
                name: name.to_owned(),
                source,
            }),
        }
    }
}
