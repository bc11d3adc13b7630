//! Name resolution.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// The system's resolver, with overrides.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    known: Arc<BTreeMap<String, SocketAddr>>,
    system: GaiResolver,
}

impl Resolver {
    pub(super) fn new(known: BTreeMap<String, SocketAddr>) -> Self {
        Self {
            known: Arc::new(known),
            system: GaiResolver::new(),
        }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Service::poll_ready(&mut self.system, context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        if let Some(address) = self.known.get(name.as_str()) {
            let addresses = vec![*address];
            return Box::pin(async move { Ok(addresses.into_iter()) });
        }
        let resolving = self.system.call(name);
        Box::pin(async move { Ok(resolving.await?.collect::<Vec<_>>().into_iter()) })
    }
}
