//! An extension, with its handlers and their validation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use thiserror::Error;

use super::{
    handler::{Call, Handler, HandlerOptions},
    limits::Limits,
    metrics::Metrics,
    record::Recorder,
    service::Service,
};
use crate::{
    catalog::{Catalog, CatalogError, Release},
    hooks::{
        Discovery, DiscoveryResponse, Failure, FailurePolicy, Hook, HookId,
        discovery::{TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX},
    },
    wire,
};

/// The handlers under one prefix, with their own discovery.
///
/// Hooks of Cluster API and custom hooks have to be on different mounts: because of one unknown hook in discovery,
/// Cluster API refuses the whole extension, and may not start.
#[derive(Clone)]
pub struct Mount {
    catalog: Catalog,
    only: Option<BTreeSet<HookId>>,
    handlers: Vec<Handler>,
}

impl Mount {
    /// A mount for the hooks of a catalog.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            only: None,
            handlers: Vec::new(),
        }
    }

    /// A mount for the hooks of Cluster API.
    #[must_use]
    pub fn cluster_api() -> Self {
        Self::new(Catalog::cluster_api())
    }

    /// Adds a handler with default options.
    #[must_use]
    pub fn on<H, F, Fut>(self, hook: H, name: impl Into<String>, handle: F) -> Self
    where
        H: Hook,
        F: Fn(H::Request, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H::Response, Failure>> + Send + 'static,
    {
        self.on_with(hook, name, HandlerOptions::new(), handle)
    }

    /// Adds a handler.
    #[must_use]
    pub fn on_with<H, F, Fut>(
        mut self,
        _: H,
        name: impl Into<String>,
        options: HandlerOptions,
        handle: F,
    ) -> Self
    where
        H: Hook,
        F: Fn(H::Request, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H::Response, Failure>> + Send + 'static,
    {
        self.handlers
            .push(Handler::new::<H, F, Fut>(name.into(), options, handle));
        self
    }

    /// Offers only the handlers of these hooks. Other handlers are neither discovered nor served.
    #[must_use]
    pub fn only(mut self, hooks: impl IntoIterator<Item = HookId>) -> Self {
        self.only = Some(hooks.into_iter().collect());
        self
    }

    /// Offers only the handlers of hooks that a release of Cluster API knows: because of one unknown hook, Cluster API
    /// would refuse the whole extension.
    #[must_use]
    pub fn for_release(self, release: Release) -> Self {
        self.only(Catalog::cluster_api_at(release).ids().cloned())
    }

    /// The catalog of the mount's hooks.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The offered handlers, validated, plus discovery.
    fn offered(&self, strict: bool) -> Result<Vec<Handler>, ExtensionError> {
        for handler in &self.handlers {
            check(&self.catalog, handler, strict)?;
        }
        let offered = |handler: &&Handler| {
            self.only
                .as_ref()
                .is_none_or(|only| only.contains(&*handler.hook))
        };
        let mut handlers: Vec<Handler> = self.handlers.iter().filter(offered).cloned().collect();
        handlers.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(pair) = handlers.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(ExtensionError::SameName {
                handler: pair[0].name.to_string(),
            });
        }
        let response = DiscoveryResponse {
            handlers: handlers.iter().map(Handler::advertised).collect(),
            ..DiscoveryResponse::default()
        };
        let discover = move |_request, _call| {
            let response = response.clone();
            async move { Ok(response) }
        };
        handlers.push(Handler::new::<Discovery, _, _>(
            String::new(),
            HandlerOptions::new(),
            discover,
        ));
        Ok(handlers)
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.handlers
                    .iter()
                    .map(|handler| (&handler.name, handler.hook.to_string())),
            )
            .finish()
    }
}

fn check(catalog: &Catalog, handler: &Handler, strict: bool) -> Result<(), ExtensionError> {
    let name = || handler.name.to_string();
    let hook = || Box::new((*handler.hook).clone());
    if handler.singleton {
        return Err(ExtensionError::Singleton { hook: hook() });
    }
    if !catalog.knows(&handler.hook) {
        return Err(ExtensionError::UnknownHook {
            handler: name(),
            hook: hook(),
        });
    }
    if !wire::is_dns_label(&handler.name) {
        return Err(ExtensionError::Name { handler: name() });
    }
    let seconds = handler.options.timeout_seconds.unwrap_or_default();
    let max = if strict {
        TIMEOUT_SECONDS_DEFAULT
    } else {
        TIMEOUT_SECONDS_MAX
    };
    if !(0..=max).contains(&seconds) {
        return Err(ExtensionError::Timeout {
            handler: name(),
            seconds,
            max,
        });
    }
    if let Some(FailurePolicy::Other(policy)) = &handler.options.failure_policy {
        return Err(ExtensionError::FailurePolicy {
            handler: name(),
            policy: policy.clone(),
        });
    }
    Ok(())
}

/// Why an extension cannot be served: callers would refuse it, or two handlers would collide.
#[derive(Debug, Error)]
pub enum ExtensionError {
    /// The mount's catalog does not have the hook.
    #[error("handler {handler}: the mount does not have {hook}")]
    UnknownHook { handler: String, hook: Box<HookId> },
    /// The mount answers discovery itself.
    #[error("{hook} cannot have a handler of its own")]
    Singleton { hook: Box<HookId> },
    /// The name is not a DNS label.
    #[error("handler {handler:?}: the name is not a DNS label")]
    Name { handler: String },
    /// Two handlers of a mount have the same name, even if they are for different hooks.
    #[error("there is more than one handler {handler}")]
    SameName { handler: String },
    /// The timeout is not allowed.
    #[error("handler {handler}: a timeout of {seconds} s is not between 0 and {max}")]
    Timeout { handler: String, seconds: i32, max: i32 },
    /// The failure policy is unknown.
    #[error("handler {handler}: {policy:?} is not a failure policy")]
    FailurePolicy { handler: String, policy: String },
    /// The prefix is not a path, or two mounts have the same prefix.
    #[error("{prefix:?} is not a unique prefix such as /own")]
    Prefix { prefix: String },
    /// The catalog could not be completed.
    #[error("failed to complete the catalog")]
    Catalog(#[source] CatalogError),
    /// The metrics could not be registered.
    #[error("failed to register metrics")]
    Metrics(#[source] prometheus::Error),
}

/// An extension: handlers of Cluster API's hooks at the root, and further mounts.
#[derive(Debug)]
pub struct Extension {
    mounts: Vec<(String, Mount)>,
    strict: bool,
    limits: Limits,
    metrics: Option<Metrics>,
    openapi: Option<String>,
    recorder: Option<Recorder>,
}

impl Default for Extension {
    fn default() -> Self {
        Self::new()
    }
}

impl Extension {
    /// An extension without handlers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            mounts: vec![(String::new(), Mount::cluster_api())],
            strict: false,
            limits: Limits::default(),
            metrics: None,
            openapi: None,
            recorder: None,
        }
    }

    /// Adds a handler of a Cluster API hook with default options. The name is a DNS label and unique among all
    /// handlers.
    #[must_use]
    pub fn on<H, F, Fut>(self, hook: H, name: impl Into<String>, handle: F) -> Self
    where
        H: Hook,
        F: Fn(H::Request, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H::Response, Failure>> + Send + 'static,
    {
        self.on_with(hook, name, HandlerOptions::new(), handle)
    }

    /// Adds a handler of a Cluster API hook.
    #[must_use]
    pub fn on_with<H, F, Fut>(
        self,
        hook: H,
        name: impl Into<String>,
        options: HandlerOptions,
        handle: F,
    ) -> Self
    where
        H: Hook,
        F: Fn(H::Request, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<H::Response, Failure>> + Send + 'static,
    {
        self.at_root(|root| root.on_with(hook, name, options, handle))
    }

    /// Offers, at the root, only the hooks of a release of Cluster API.
    #[must_use]
    pub fn for_release(self, release: Release) -> Self {
        self.at_root(|root| root.for_release(release))
    }

    /// Replaces the mount at the root.
    #[must_use]
    pub fn root(self, mount: Mount) -> Self {
        self.at_root(|_| mount)
    }

    /// Adds a mount under a prefix such as `/own`, which is the `path` of the registration's service.
    #[must_use]
    pub fn mount(mut self, prefix: impl Into<String>, mount: Mount) -> Self {
        self.mounts.push((prefix.into(), mount));
        self
    }

    /// Refuses timeouts over 10 s, the longest that the Runtime SDK's proposal allows.
    #[must_use]
    pub fn strict_timeouts(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the metrics that count calls.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Answers a GET of a path, such as `/openapi/v3`, with the `OpenAPI` document of all mounts.
    #[must_use]
    pub fn openapi(mut self, path: impl Into<String>) -> Self {
        self.openapi = Some(path.into());
        self
    }

    /// Records calls in a folder.
    #[must_use]
    pub fn record(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Validates everything and builds the service.
    ///
    /// # Errors
    /// When callers would refuse a handler, or two handlers would collide.
    pub fn build(self) -> Result<Service, ExtensionError> {
        let Self {
            mounts,
            strict,
            limits,
            metrics,
            openapi,
            recorder,
        } = self;
        let metrics = match metrics {
            Some(metrics) => metrics,
            None => Metrics::unregistered().map_err(ExtensionError::Metrics)?,
        };
        let mut catalogs = BTreeMap::new();
        let mut routes = BTreeMap::new();
        for (prefix, mount) in mounts {
            let clean = prefix.is_empty()
                || (prefix.starts_with('/')
                    && prefix
                        .split('/')
                        .skip(1)
                        .all(|part| !matches!(part, "" | "." | ".."))
                    && prefix
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte)));
            if !clean || catalogs.contains_key(&prefix) {
                return Err(ExtensionError::Prefix { prefix });
            }
            for handler in mount.offered(strict)? {
                // A prefix that looks like the path of a hook could otherwise shadow that hook.
                let path = format!("{prefix}{}", handler.path());
                if routes.insert(path, handler).is_some() {
                    return Err(ExtensionError::Prefix { prefix });
                }
            }
            let mut catalog = mount.catalog;
            catalog.add::<Discovery>().map_err(ExtensionError::Catalog)?;
            catalogs.insert(prefix, catalog);
        }
        Ok(Service::new(
            routes, &catalogs, limits, metrics, openapi, recorder,
        ))
    }

    fn at_root(mut self, change: impl FnOnce(Mount) -> Mount) -> Self {
        let (prefix, root) = self.mounts.remove(0);
        self.mounts.insert(0, (prefix, change(root)));
        self
    }
}
