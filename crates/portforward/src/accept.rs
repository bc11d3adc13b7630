//! The handshake: which of the two transports a request asks for.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::pair::Target;
use crate::session::{self, SessionError};
use crate::websocket::Tunnel;

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";

/// What follows a handshake, until the client goes. Whoever serves the connection runs it as a task of its own.
pub type Session = BoxFuture<'static, Result<(), SessionError>>;

/// The answer to a port-forward request.
pub struct Answer {
    /// To be sent. The body explains a refusal.
    pub response: Response<String>,
    /// To be run once the answer was sent; none after a refusal.
    pub session: Option<Session>,
}

/// Answers a port-forward request: POST with `Upgrade: SPDY/3.1`, or GET with a WebSocket handshake that offers
/// `SPDY/3.1+portforward.k8s.io`. Anything else is refused with 400, which makes clients that prefer WebSocket fall
/// back to SPDY.
pub fn accept<B>(mut request: Request<B>, target: Arc<dyn Target>) -> Answer {
    let headers = request.headers();
    let upgrade = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if request.method() == Method::POST && upgrade.eq_ignore_ascii_case("SPDY/3.1") {
        if !lists(headers, "x-stream-protocol-version", PROTOCOL) {
            return refuse(format!("X-Stream-Protocol-Version: {PROTOCOL} is required"));
        }
        let mut response = switching("SPDY/3.1");
        response.headers_mut().insert("x-stream-protocol-version", HeaderValue::from_static(PROTOCOL));
        let upgraded = hyper::upgrade::on(&mut request);
        let session = async move {
            let io = upgraded.await.map_err(SessionError::Upgrade)?;
            session::run(TokioIo::new(io), target).await
        };
        return Answer { response, session: Some(Box::pin(session)) };
    }
    if request.method() == Method::GET && upgrade.eq_ignore_ascii_case("websocket") {
        let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
        let version = headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let (Some(key), true) = (key, version) else {
            return refuse("a WebSocket handshake needs a key and version 13".to_owned());
        };
        if !lists(headers, "sec-websocket-protocol", TUNNEL_PROTOCOL) {
            return refuse(format!("the WebSocket protocol {TUNNEL_PROTOCOL} is required"));
        }
        let Ok(key) = HeaderValue::from_str(&key) else {
            return refuse("the WebSocket key is not one".to_owned());
        };
        let mut response = switching("websocket");
        response.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, key);
        response
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(TUNNEL_PROTOCOL));
        let upgraded = hyper::upgrade::on(&mut request);
        let session = async move {
            let io = upgraded.await.map_err(SessionError::Upgrade)?;
            session::run(Tunnel::new(TokioIo::new(io)).await, target).await
        };
        return Answer { response, session: Some(Box::pin(session)) };
    }
    refuse("an upgrade to SPDY/3.1 or to a WebSocket is required".to_owned())
}

fn lists(headers: &HeaderMap, name: &str, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim() == wanted)
}

fn switching(protocol: &'static str) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response
}

fn refuse(message: String) -> Answer {
    let mut response = Response::new(message);
    *response.status_mut() = StatusCode::BAD_REQUEST;
    Answer { response, session: None }
}
