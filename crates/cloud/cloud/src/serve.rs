//! Serves HTTP on a connection after the TLS handshake.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use axum::body::Body;
use futures::{StreamExt as _, stream::FuturesUnordered};
use http::{Request, Response};
use nephele_apiserver::{PortForward, RequestInfo, UserInfo};
use nephele_listen::{Grant, Http, Protocol, RequestBody};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use crate::{
    cluster_server::{ClusterServer, LIMITS},
    frontend::{FrontendState, Imposed},
    request_effect::{self, Treatment, stays, treat},
};

/// How long the health check `GET /` waits for the first backend before the load balancer answers it. This is a second
/// less than the timeout of Cluster API's cluster cache (`healthProbeConfig` in
/// controllers/clustercache/cluster_accessor.go).
const PROBE_HOLD: Duration = Duration::from_secs(4);

/// How long discovery waits for the first backend before it is answered without one; the answer is the same for every
/// backend. This is a second less than the cluster cache's timeout for a request. The cache asks twice (`/api`,
/// `/apis`) and then for a Pod of its own, which only a backend answers. So it connects once there is a backend and not
/// before.
const DISCOVERY_HOLD: Duration = Duration::from_secs(9);

/// Serves HTTP/2 or HTTP/1.1, as TLS negotiated, for the user that the connection proved, until the client disconnects
/// or `stop` is ready. `place` is the place of the connection in the budget, if it has one.
pub(crate) fn serve_http<IO>(
    io: TlsStream<IO>,
    cluster: &Arc<ClusterServer>,
    tunnel: Arc<dyn PortForward>,
    user: Option<UserInfo>,
    place: Option<Arc<Grant>>,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = ()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let protocol = Protocol::negotiated(&io);
    let answering = cluster.clone();
    let service = hyper::service::service_fn(move |request: Request<RequestBody>| {
        let mut request = request.map(Body::new);
        if let Some(user) = &user {
            request.extensions_mut().insert(user.clone());
        }
        let cluster = answering.clone();
        let tunnel = tunnel.clone();
        async move { Ok::<_, Infallible>(answer(&cluster, tunnel, request).await) }
    });
    let http = Http {
        limits: LIMITS,
        tasks: cluster.shared.tasks.clone(),
        responses: cluster.responses.clone(),
    };
    let serving = http.serve(io, protocol, service, place, stop);
    async move {
        if let Err(error) = serving.await {
            tracing::debug!(cluster = %cluster.id, %error, "A connection ended early");
        }
    }
}

/// Serves a connection as an API server of another cluster: it knows no client. To tell its user from another one, a
/// client would have to trust its certificate.
pub(crate) fn serve_foreign_server<IO>(
    io: TlsStream<IO>,
    cluster: &Arc<ClusterServer>,
    place: Arc<Grant>,
    stop: impl Future<Output = ()>,
) -> impl Future<Output = ()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let protocol = Protocol::negotiated(&io);
    let service = hyper::service::service_fn(|_: Request<RequestBody>| {
        std::future::ready(Ok::<_, Infallible>(request_effect::failure(401, "Unauthorized")))
    });
    let http = Http {
        limits: LIMITS,
        tasks: cluster.shared.tasks.clone(),
        responses: cluster.responses.clone(),
    };
    let serving = http.serve(io, protocol, service, Some(place), stop);
    async move {
        if let Err(error) = serving.await {
            tracing::debug!(cluster = %cluster.id, %error, "A connection to another cluster ended early");
        }
    }
}

/// A request that waits for the first backend.
enum HeldRequest {
    Probe,
    Discovery,
    Other,
}

impl HeldRequest {
    fn of(path: &str) -> Self {
        match path {
            "/" => Self::Probe,
            "/api" | "/apis" => Self::Discovery,
            _ => Self::Other,
        }
    }

    fn hold(&self) -> Duration {
        match self {
            Self::Probe => PROBE_HOLD,
            Self::Discovery => DISCOVERY_HOLD,
            Self::Other => Duration::MAX,
        }
    }
}

/// Answers a request like the load balancer: itself, or by a backend once there is one.
pub(crate) async fn answer(
    cluster: &ClusterServer,
    tunnel: Arc<dyn PortForward>,
    request: Request<Body>,
) -> Response<Body> {
    if !cluster.frontend.is_up() {
        let kind = HeldRequest::of(request.uri().path());
        let hold = cluster.shared.hold.min(kind.hold());
        let mut frontend = cluster.frontend.subscribe();
        if !matches!(
            timeout(hold, frontend.wait_for(FrontendState::is_up)).await,
            Ok(Ok(_))
        ) {
            match kind {
                HeldRequest::Probe => return Response::new(Body::from("waiting for the control plane\n")),
                HeldRequest::Discovery => {}
                HeldRequest::Other => return unavailable("no API server of the control plane is up yet"),
            }
        }
    }
    let request_effects = cluster.frontend.request_effects();
    if request_effects.is_empty() {
        return cluster
            .frontend
            .api_server(&cluster.store, tunnel)
            .handle(request)
            .await;
    }
    let info = RequestInfo::of(&request);
    let Treatment {
        waits,
        error,
        cuts,
        past_of,
    } = treat(&request_effects, &info, &cluster.id, &cluster.shared.seed);
    for wait in waits {
        cluster.frontend.imposed(&request_effects, wait).await;
    }
    // What is healed while the request waits does not fail it.
    if let Some((code, fault)) = error
        && stays(
            &cluster.frontend.request_effects(),
            &fault,
            request_effects.get(&fault),
        )
    {
        return request_effect::failure(
            code,
            &format!("the API server has a simulated failure (Fault {fault})"),
        );
    }
    let past = past_of.and_then(|fault| request_effects.get(&fault)?.past.clone());
    let store = past.as_ref().unwrap_or(&cluster.store);
    let response = cluster.frontend.api_server(store, tunnel).handle(request).await;
    if cuts.is_empty() {
        return response;
    }
    let cuts: FuturesUnordered<_> = cuts
        .into_iter()
        .map(|cut| cluster.frontend.imposed(&request_effects, cut))
        .collect();
    request_effect::cut(response, async {
        let mut served = cuts.filter(|imposed| std::future::ready(*imposed == Imposed::Over));
        if served.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    })
}

/// A 503 response that asks the client to retry.
pub(crate) fn unavailable(message: &str) -> Response<Body> {
    request_effect::failure(503, message)
}
