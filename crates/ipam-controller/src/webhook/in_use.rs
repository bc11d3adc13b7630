//! The IPAddresses of a pool, listed from the API server.

use kube::{Api, Client, api::ListParams};
use nephele_api::ipam::{
    PoolKind,
    v1beta2::{IPAddress, IPAddressSpec},
};

/// IPAddresses in one page: some 4 MiB. The API server waits for the webhook, and 100,000 IPAddresses take 50 requests.
const PAGE: u32 = 2000;

/// A pool whose addresses are looked up.
pub(super) struct InUse {
    pub(super) client: Client,
    pub(super) kind: PoolKind,
    /// None for cluster-scoped kinds, whose pools serve claims of every namespace.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl InUse {
    /// Whether the pool has an IPAddress.
    pub(super) async fn any(&self) -> Result<bool, kube::Error> {
        let mut found = false;
        self.visit(|_| {
            found = true;
            false
        })
        .await?;
        Ok(found)
    }

    /// All IPAddresses of the pool.
    pub(super) async fn list(&self) -> Result<Vec<IPAddressSpec>, kube::Error> {
        let mut found = Vec::new();
        self.visit(|address| {
            found.push(address);
            true
        })
        .await?;
        Ok(found)
    }

    /// Passes the IPAddresses of the pool to `look` until it returns false.
    async fn visit(&self, mut look: impl FnMut(IPAddressSpec) -> bool) -> Result<(), kube::Error> {
        let api: Api<IPAddress> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                // Without Cluster API's core there is no such kind, and no IPAddress.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => return Err(error),
            };
            for address in page.items.into_iter().map(|address| address.spec) {
                if self.is_of_pool(&address) && !look(address) {
                    return Ok(());
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    fn is_of_pool(&self, address: &IPAddressSpec) -> bool {
        PoolKind::of(&address.pool_ref) == Some(self.kind) && address.pool_ref.name == self.name
    }
}
