//! Calling extensions.

use std::{collections::BTreeMap, fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use nephele_error_chain::chain;
use tokio::time::{Instant, sleep_until};

use super::{
    aggregate::aggregate,
    circuit::CircuitSettings,
    discovery::{Discovered, UnknownHooks, validate},
    endpoint::{ClientConfig, Endpoint},
    error::{
        CallAllCause, CallAllError, CallCause, CallError, DiscoverCause, DiscoverError, ExternalError,
        MESSAGE_MAX,
    },
    handler::OnError,
    message::beginning,
    metrics::Metrics,
    namespaces::{NamespaceError, Namespaces},
    registry::{Registered, Registry},
    selector::{Labels, Selector},
    transport::{Https, Outgoing, Transport, TransportError},
};
use crate::{
    catalog::{Catalog, CatalogError},
    hooks::{
        Discovery, DiscoveryRequest, Hook, HookId, Request, Response, ResponseStatus, Settings,
        discovery::TIMEOUT_SECONDS_DEFAULT,
    },
};

/// The object that a hook is called for. Its namespace decides which extensions are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl Subject {
    /// An object by its namespace and name.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How often a call is repeated when the extension cannot be reached, and so has not seen the call. All attempts share
/// the handler's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    pub times: u32,
    /// The wait before the first repetition. It doubles with each repetition.
    pub wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            times: 2,
            wait: Duration::from_millis(50),
        }
    }
}

/// How all handlers of a hook are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallAll {
    /// The most time for all handlers together; without it, the sum of their timeouts. A handler that starts late
    /// has only the time that is left. If that is too short, its failure policy decides.
    pub total: Option<Duration>,
    /// The number of handlers called at a time. With 1, the first failure ends the call and the other handlers are
    /// not called. With more, calls in flight are dropped. In either case, responses are aggregated in the order of
    /// the handlers' names, and the error is that of the first failed handler by name.
    pub at_once: NonZeroUsize,
}

impl Default for CallAll {
    fn default() -> Self {
        Self {
            total: Some(Duration::from_secs(60)),
            at_once: NonZeroUsize::MIN,
        }
    }
}

/// Calls extensions. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    catalog: Catalog,
    registry: Registry,
    namespaces: Arc<dyn Namespaces>,
    transport: Arc<dyn Transport>,
    metrics: Option<Metrics>,
    circuit: CircuitSettings,
    retries: Retries,
}

/// Builds a [`Client`].
#[must_use]
pub struct ClientBuilder {
    inner: Inner,
}

impl ClientBuilder {
    /// Sets the registry. The caller adds the extensions to it. The default is an empty registry.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.inner.registry = registry;
        self
    }

    /// Sets the source of namespace labels. Without it, only extensions that select all namespaces can be called.
    pub fn namespaces(mut self, namespaces: impl Namespaces) -> Self {
        self.inner.namespaces = Arc::new(namespaces);
        self
    }

    /// Sets the transport. The default is an [`Https`].
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.inner.transport = transport;
        self
    }

    /// Sets the metrics. Without them, nothing is counted.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.inner.metrics = Some(metrics);
        self
    }

    /// Sets when calls of failing extensions are suspended.
    pub fn circuit(mut self, circuit: CircuitSettings) -> Self {
        self.inner.circuit = circuit;
        self
    }

    /// Sets how often a call is repeated that the extension has not seen.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.inner.retries = retries;
        self
    }

    /// Builds the client.
    #[must_use]
    pub fn build(self) -> Client {
        Client {
            inner: Arc::new(self.inner),
        }
    }
}

/// A call of any hook.
struct Call<'a> {
    /// The hook in the extension's version.
    hook: &'a HookId,
    /// The name of the handler in the extension. `None` for discovery.
    handler: Option<&'a str>,
    endpoint: &'a Endpoint,
    ca_bundle: &'a Arc<[u8]>,
    /// How long the call may take.
    timeout: Duration,
    /// The total time for all handlers of the hook, and when it ends.
    total: Option<(Duration, Instant)>,
}

/// Why a call has no response, and whether a failure policy may ignore that.
enum Failed {
    Url(http::Error),
    Catalog(CatalogError),
    Trust(super::transport::TrustError),
    External(ExternalError),
}

impl Client {
    /// A client for extensions of the hooks in a catalog. [`Client::discover`] needs [`Discovery`] among them.
    pub fn builder(catalog: Catalog) -> ClientBuilder {
        ClientBuilder {
            inner: Inner {
                catalog,
                registry: Registry::new(),
                namespaces: Arc::new(BTreeMap::<String, Labels>::new()),
                transport: Arc::new(Https::default()),
                metrics: None,
                circuit: CircuitSettings::default(),
                retries: Retries::default(),
            },
        }
    }

    /// The registry of the extensions and their handlers.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The hooks that the client can call.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// Asks an extension for its handlers, and validates the answer. The extension has 10 seconds to answer. The
    /// request is sent even while calls of the extension are suspended, and an answer ends the suspension.
    ///
    /// # Errors
    /// When the extension cannot be reached or fails, or its answer is invalid.
    pub async fn discover(
        &self,
        extension: &str,
        config: &ClientConfig,
        unknown: UnknownHooks,
    ) -> Result<Discovered, DiscoverError> {
        let failed = |cause| DiscoverError {
            extension: extension.to_owned(),
            cause,
        };
        let endpoint = Endpoint::new(config).map_err(|source| failed(DiscoverCause::Endpoint(source)))?;
        let call = Call {
            hook: &Discovery::id(),
            handler: None,
            endpoint: &endpoint,
            ca_bundle: &config.ca_bundle.0.as_slice().into(),
            timeout: Duration::from_secs(TIMEOUT_SECONDS_DEFAULT.unsigned_abs().into()),
            total: None,
        };
        let response = self
            .exchange::<Discovery>(&call, &DiscoveryRequest {})
            .await
            .map_err(|error| {
                failed(match error {
                    Failed::Url(error) => DiscoverCause::Url(error),
                    Failed::Catalog(error) => DiscoverCause::Catalog(error),
                    Failed::Trust(error) => DiscoverCause::Trust(error),
                    Failed::External(error) => DiscoverCause::External(error),
                })
            })?;
        let message = || beginning(&response.message, MESSAGE_MAX);
        match &response.status {
            ResponseStatus::Success => {}
            ResponseStatus::Failure => return Err(failed(DiscoverCause::Failure(message()))),
            ResponseStatus::Other(status) => {
                let status = beginning(status, MESSAGE_MAX);
                return Err(failed(DiscoverCause::UnknownStatus {
                    status,
                    message: message(),
                }));
            }
        }
        let discovered = validate(&response, &self.inner.catalog, unknown)
            .map_err(|error| failed(DiscoverCause::Invalid(error)))?;
        self.inner.registry.answered(extension);
        self.count_open();
        Ok(discovered)
    }

    /// The full names of the handlers of a hook whose extensions select the object's namespace, sorted.
    ///
    /// # Errors
    /// When the hook is not in the catalog, the registry is not ready, or a selector needs the labels of the object's
    /// namespace and they cannot be read.
    pub async fn handlers<H: Hook>(&self, subject: &Subject) -> Result<Vec<String>, CallAllError> {
        let matching = self.matching::<H>(subject).await?;
        Ok(matching
            .into_iter()
            .map(|registered| registered.name.clone())
            .collect())
    }

    /// Calls all handlers of a hook whose extensions select the object's namespace, and aggregates their responses (see
    /// [`aggregate`](fn@super::aggregate)). When one fails or makes the caller wait, the others may be called again.
    ///
    /// # Errors
    /// When a handler fails, or the handlers cannot be found.
    pub async fn call_all<H: Hook>(
        &self,
        subject: &Subject,
        request: &H::Request,
    ) -> Result<H::Response, CallAllError> {
        self.call_all_with::<H>(subject, request, CallAll::default())
            .await
    }

    /// Calls all handlers of a hook with these settings.
    ///
    /// # Errors
    /// When a handler fails, or the handlers cannot be found.
    pub async fn call_all_with<H: Hook>(
        &self,
        subject: &Subject,
        request: &H::Request,
        how: CallAll,
    ) -> Result<H::Response, CallAllError> {
        let responses = self.call_each::<H>(subject, request, how).await?;
        Ok(aggregate(
            H::Response::default(),
            responses.iter().map(|(_, response)| response),
        ))
    }

    /// Calls all handlers of a hook whose extensions select the object's namespace, and returns each response with the
    /// full name of its handler, sorted by name. For callers that combine responses differently than
    /// [`Client::call_all`], or that show each response to people.
    ///
    /// # Errors
    /// When a handler fails, or the handlers cannot be found.
    pub async fn call_each<H: Hook>(
        &self,
        subject: &Subject,
        request: &H::Request,
        how: CallAll,
    ) -> Result<Vec<(String, H::Response)>, CallAllError> {
        let matching = self.matching::<H>(subject).await?;
        let total = how.total.map(|total| (total, Instant::now() + total));
        // By value: otherwise the compiler cannot tell that callers may move between threads.
        stream::iter(matching)
            .map(|registered| async move {
                let request = with_settings(request, &registered.extension.settings);
                let response = self.call_registered::<H>(&registered, &request, total).await?;
                Ok((registered.name.clone(), response))
            })
            .buffered(how.at_once.get())
            .try_collect()
            .await
            .map_err(|error| call_all_error::<H>(CallAllCause::Call(error)))
    }

    /// Calls a handler by its full name.
    ///
    /// # Errors
    /// When the handler is not registered, is for another hook, or fails; when its extension does not select the
    /// object's namespace; or when it cannot be called and its failure policy is not `Ignore`.
    pub async fn call<H: Hook>(
        &self,
        handler: &str,
        subject: &Subject,
        request: &H::Request,
    ) -> Result<H::Response, CallError> {
        let registered = self.registered::<H>(handler, subject).await?;
        let request = with_settings(request, &registered.extension.settings);
        self.call_registered::<H>(&registered, &request, None).await
    }

    async fn matching<H: Hook>(&self, subject: &Subject) -> Result<Vec<Arc<Registered>>, CallAllError> {
        let hook = H::id();
        if !self.inner.catalog.knows(&hook) {
            return Err(call_all_error::<H>(CallAllCause::Catalog(CatalogError::Unknown(
                hook.into(),
            ))));
        }
        let registered = self
            .inner
            .registry
            .list(&hook)
            .map_err(|error| call_all_error::<H>(CallAllCause::Registry(error)))?;
        let mut labels = None;
        let mut matching = Vec::new();
        for registered in registered {
            let selected = self
                .selects(&registered.extension.selector, &subject.namespace, &mut labels)
                .await
                .map_err(|error| call_all_error::<H>(CallAllCause::Namespace(error)))?;
            if selected {
                matching.push(registered);
            }
        }
        Ok(matching)
    }

    /// Whether a selector selects a namespace. The labels are read once, and only if the selector needs them.
    async fn selects(
        &self,
        selector: &Selector,
        namespace: &str,
        labels: &mut Option<Labels>,
    ) -> Result<bool, NamespaceError> {
        if selector.is_everything() {
            return Ok(true);
        }
        if labels.is_none() {
            *labels = Some(self.inner.namespaces.labels(namespace).await?);
        }
        Ok(labels.as_ref().is_some_and(|labels| selector.matches(labels)))
    }

    async fn registered<H: Hook>(
        &self,
        handler: &str,
        subject: &Subject,
    ) -> Result<Arc<Registered>, CallError> {
        let failed = |cause| CallError {
            handler: handler.to_owned(),
            cause,
        };
        let hook = H::id();
        if !self.inner.catalog.knows(&hook) {
            return Err(failed(CallCause::Catalog(CatalogError::Unknown(hook.into()))));
        }
        let registered = self
            .inner
            .registry
            .get(handler)
            .map_err(|error| failed(CallCause::Registry(error)))?;
        if !registered.handler.hook.same_hook(&hook) {
            return Err(failed(CallCause::OtherHook(hook.group_hook())));
        }
        match self
            .selects(&registered.extension.selector, &subject.namespace, &mut None)
            .await
        {
            Ok(true) => Ok(registered),
            Ok(false) => Err(failed(CallCause::NotSelected(subject.to_string()))),
            Err(error) => Err(failed(CallCause::Namespace(error))),
        }
    }

    /// Calls a handler and applies its failure policy.
    async fn call_registered<H: Hook>(
        &self,
        registered: &Registered,
        request: &H::Request,
        total: Option<(Duration, Instant)>,
    ) -> Result<H::Response, CallError> {
        let failed = |cause| CallError {
            handler: registered.name.clone(),
            cause,
        };
        let answered = match self.guarded::<H>(registered, request, total).await {
            Ok(response) => response,
            Err(Failed::Url(error)) => return Err(failed(CallCause::Url(error))),
            Err(Failed::Catalog(error)) => return Err(failed(CallCause::Catalog(error))),
            Err(Failed::Trust(error)) => return Err(failed(CallCause::Trust(error))),
            Err(Failed::External(error)) => match registered.handler.on_error {
                OnError::Fail => return Err(failed(CallCause::External(error))),
                OnError::Ignore => {
                    tracing::warn!(
                        handler = registered.name,
                        error = chain(&error),
                        "Ignored a failed call of an extension handler"
                    );
                    self.metrics(|metrics| metrics.ignored(&H::id()));
                    return Ok(succeeded::<H>());
                }
            },
        };
        let message = || beginning(answered.message(), MESSAGE_MAX);
        match answered.status() {
            ResponseStatus::Success => Ok(answered),
            ResponseStatus::Failure => Err(failed(CallCause::Failure(message()))),
            ResponseStatus::Other(status) => {
                let status = beginning(status, MESSAGE_MAX);
                Err(failed(CallCause::UnknownStatus {
                    status,
                    message: message(),
                }))
            }
        }
    }

    /// Calls a handler unless the circuit of its extension is open.
    async fn guarded<H: Hook>(
        &self,
        registered: &Registered,
        request: &H::Request,
        total: Option<(Duration, Instant)>,
    ) -> Result<H::Response, Failed> {
        let Registered {
            extension, handler, ..
        } = registered;
        extension
            .circuit
            .lock()
            .admit(Instant::now())
            .map_err(|cause| Failed::External(ExternalError::Circuit(cause)))?;
        let call = Call {
            hook: &handler.hook,
            handler: Some(&handler.name),
            endpoint: &extension.endpoint,
            ca_bundle: &extension.ca_bundle,
            timeout: handler.timeout,
            total,
        };
        let result = self.exchange::<H>(&call, request).await;
        match &result {
            Err(Failed::External(error)) if error.counts() => {
                let now = Instant::now();
                let cause = chain(error);
                extension
                    .circuit
                    .lock()
                    .failed(now, &self.inner.circuit, &extension.name, &cause);
                self.count_open();
            }
            // These errors show nothing about the health of the extension.
            Err(Failed::External(ExternalError::Total(_)) | Failed::Url(_) | Failed::Trust(_)) => {}
            Ok(_) | Err(Failed::External(_) | Failed::Catalog(_)) => {
                let was_open = {
                    let mut circuit = extension.circuit.lock();
                    let was_open = circuit.is_open();
                    circuit.succeeded();
                    was_open
                };
                if was_open {
                    self.count_open();
                }
            }
        }
        result
    }

    async fn exchange<H: Hook>(&self, call: &Call<'_>, request: &H::Request) -> Result<H::Response, Failed> {
        let hook = H::id();
        let start = Instant::now();
        let host = call.endpoint.authority();
        let (code, result) = self.send::<H>(call, request, start).await;
        self.metrics(|metrics| {
            metrics.took(host, &hook, start.elapsed());
            // A call that could not be written was not sent.
            let sent = !matches!(
                result,
                Err(Failed::Url(_) | Failed::Trust(_) | Failed::Catalog(_))
            ) || code.is_some();
            if sent && !matches!(result, Err(Failed::External(ExternalError::Total(_)))) {
                metrics.sent(code, host, &hook, result.as_ref().ok().map(Response::status));
            }
        });
        result
    }

    /// Sends a call. Returns the HTTP status, if there was one, and the response.
    async fn send<H: Hook>(
        &self,
        call: &Call<'_>,
        request: &H::Request,
        start: Instant,
    ) -> (Option<u16>, Result<H::Response, Failed>) {
        let left = call
            .total
            .map(|(total, end)| (total, end.saturating_duration_since(start)));
        let (allowed, over) = match left {
            Some((total, left)) if left < call.timeout => (left, ExternalError::Total(total)),
            Some(_) | None => (call.timeout, ExternalError::Timeout(call.timeout)),
        };
        if allowed.is_zero() {
            return (None, Err(Failed::External(over)));
        }
        let outgoing = self
            .inner
            .catalog
            .write_request::<H>(request, call.hook)
            .map_err(Failed::Catalog)
            .and_then(|body| {
                let path = call.hook.path(call.handler);
                let uri = call.endpoint.uri(&path, allowed).map_err(Failed::Url)?;
                let deadline = start + allowed;
                Ok(Outgoing {
                    uri,
                    ca_bundle: call.ca_bundle.clone(),
                    body: body.into(),
                    deadline,
                })
            });
        let outgoing = match outgoing {
            Ok(outgoing) => outgoing,
            Err(error) => return (None, Err(error)),
        };
        let incoming = match self.deliver(outgoing).await {
            Ok(incoming) => incoming,
            Err(TransportError::Trust(error)) => return (None, Err(Failed::Trust(error))),
            Err(TransportError::Timeout) => return (None, Err(Failed::External(over))),
            Err(error) => return (None, Err(Failed::External(ExternalError::Transport(error)))),
        };
        let code = incoming.code;
        if code != 200 {
            let body = beginning(&String::from_utf8_lossy(&incoming.body), 512);
            return (
                Some(code),
                Err(Failed::External(ExternalError::Status { code, body })),
            );
        }
        let response = self.inner.catalog.read_response::<H>(&incoming.body, call.hook);
        let response = response.map_err(|error| match error {
            // An unreadable response is the extension's fault. All other errors are conversion errors.
            CatalogError::Read { ref hook, .. } if **hook == *call.hook => {
                Failed::External(ExternalError::Decode(error))
            }
            error => Failed::Catalog(error),
        });
        (Some(code), response)
    }

    /// Sends the request, and repeats it while the extension cannot be reached.
    async fn deliver(&self, call: Outgoing) -> Result<super::transport::Incoming, TransportError> {
        let Retries { times, mut wait } = self.inner.retries;
        for _ in 0..times {
            match self.inner.transport.send(call.clone()).await {
                Err(TransportError::Connect(error)) => {
                    let next = Instant::now() + wait;
                    if next >= call.deadline {
                        return Err(TransportError::Connect(error));
                    }
                    sleep_until(next).await;
                    wait *= 2;
                }
                other => return other,
            }
        }
        self.inner.transport.send(call).await
    }

    fn metrics(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.inner.metrics {
            count(metrics);
        }
    }

    fn count_open(&self) {
        self.metrics(|metrics| metrics.open(self.inner.registry.open()));
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("registry", &self.inner.registry)
            .finish_non_exhaustive()
    }
}

fn call_all_error<H: Hook>(cause: CallAllCause) -> CallAllError {
    CallAllError {
        hook: H::id().group_hook(),
        cause,
    }
}

/// A successful response without content.
fn succeeded<H: Hook>() -> H::Response {
    let mut response = H::Response::default();
    response.set_status(ResponseStatus::Success);
    response
}

/// The request with the settings of the registration. Settings in the request override them.
fn with_settings<R: Request>(request: &R, registered: &Settings) -> R {
    let mut request = request.clone();
    if let Some(settings) = request.settings_mut() {
        for (key, value) in registered {
            settings.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    request
}
