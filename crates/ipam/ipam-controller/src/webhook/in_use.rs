//! The IPAddresses of a pool, listed from the API server.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};
use nephele_api::ipam::{
    PoolKind,
    v1beta2::{IPAddress, IPAddressSpec},
};
use nephele_controller::Readable;

/// IPAddresses in one page: some 4 MiB. The API server waits for the webhook, and 100,000 IPAddresses take 50 requests.
const PAGE: u32 = 2000;
/// The most pages that one review reads: the addresses of 100,000 machines, and 200 MiB in all, a page at a time.
const PAGES_MAX: usize = 50;

/// Why the IPAddresses of a pool are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    /// An API server sends the uid of the pool that it has. Whoever does not know it is no API server, and is neither
    /// worth a list nor told which addresses are in use.
    #[error("failed to find the pool of the review: the management cluster has none with its uid")]
    OtherPool,
    #[error("failed to list IPAddresses")]
    Api(#[source] kube::Error),
    #[error("failed to look at all IPAddresses: there are more than {}", PAGES_MAX * PAGE as usize)]
    TooMany,
}

/// A pool whose addresses are looked up.
pub(super) struct InUse {
    pub(super) client: Client,
    pub(super) kind: PoolKind,
    pub(super) resource: ApiResource,
    /// None for cluster-scoped kinds, whose pools serve claims of every namespace.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl InUse {
    /// Whether the pool of this uid has an IPAddress.
    pub(super) async fn any(&self, uid: Option<&str>) -> Result<bool, LookError> {
        let mut found = false;
        self.visit(uid, |_| {
            found = true;
            false
        })
        .await?;
        Ok(found)
    }

    /// All IPAddresses of the pool of this uid.
    pub(super) async fn list(&self, uid: Option<&str>) -> Result<Vec<IPAddressSpec>, LookError> {
        let mut found = Vec::new();
        self.visit(uid, |address| {
            found.push(address);
            true
        })
        .await?;
        Ok(found)
    }

    /// Whether the management cluster has the pool with this uid.
    async fn exists(&self, uid: Option<&str>) -> Result<bool, LookError> {
        let client = self.client.clone();
        let resource = &self.resource;
        let pools: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let found = pools.get_metadata_opt(&self.name).await.map_err(LookError::Api)?;
        Ok(uid.is_some() && found.is_some_and(|pool| pool.metadata.uid.as_deref() == uid))
    }

    /// Passes the IPAddresses of the pool to `look` until it returns false.
    async fn visit(
        &self,
        uid: Option<&str>,
        mut look: impl FnMut(IPAddressSpec) -> bool,
    ) -> Result<(), LookError> {
        if !self.exists(uid).await? {
            return Err(LookError::OtherPool);
        }
        let api: Api<Readable<IPAddress>> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let mut params = ListParams::default().limit(PAGE);
        for _ in 0..PAGES_MAX {
            let page = match api.list(&params).await {
                Ok(page) => page,
                // Without Cluster API's core there is no such kind, and no IPAddress.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => return Err(LookError::Api(error)),
            };
            for address in page.items.into_iter().map(|address| address.into_object().spec) {
                if self.is_of_pool(&address) && !look(address) {
                    return Ok(());
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
        Err(LookError::TooMany)
    }

    fn is_of_pool(&self, address: &IPAddressSpec) -> bool {
        PoolKind::of(&address.pool_ref) == Some(self.kind) && address.pool_ref.name == self.name
    }
}
