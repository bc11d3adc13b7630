//! The handshake, which selects one of the two transports. The responses are those of the kubelet and of the API server
//! in front of it (`k8s.io/streaming`, `httpstream`; `k8s.io/apiserver`, `pkg/util/proxy`).

use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::{
    session::{self, SessionError},
    target::Target,
    websocket::Tunnel,
};

const SPDY: &str = "SPDY/3.1";
const PROTOCOL: &str = "portforward.k8s.io";
const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";

const STREAM_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_PROTOCOL_VERSIONS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The API server's response to a request without an upgrade.
const UPGRADE_REQUIRED: &str = concat!(
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""message":"Upgrade request required","reason":"BadRequest","code":400}"#,
);

/// The future that serves the session until the client closes it. The owner of the connection runs it as a separate
/// task.
pub type Session = BoxFuture<'static, Result<(), SessionError>>;

/// The result of a port-forward request.
pub struct Answer {
    /// The response to send. After a refusal, the body has the reason.
    pub response: Response<String>,
    /// The session to run after the response is sent; none after a refusal.
    pub session: Option<Session>,
}

/// Answers a port-forward request: POST with `Upgrade: SPDY/3.1`, or GET with a WebSocket handshake that offers
/// `SPDY/3.1+portforward.k8s.io`. All other requests are refused with 400 (403 if there is no common protocol), so that
/// clients that prefer WebSocket fall back to SPDY.
///
/// The request must have come over HTTP/1.1 from hyper; the session takes over its upgraded connection.
pub fn accept<B>(request: Request<B>, target: Arc<dyn Target>) -> Answer {
    let headers = request.headers();
    // HTTP/2 has no upgrades.
    if request.version() != Version::HTTP_11 || !lists(headers, &header::CONNECTION, "upgrade") {
        return upgrade_required();
    }
    if lists(headers, &header::UPGRADE, "websocket") {
        return accept_websocket(request, target);
    }
    if request.method() == Method::POST && lists(headers, &header::UPGRADE, SPDY) {
        return accept_spdy(request, target);
    }
    upgrade_required()
}

fn accept_spdy<B>(mut request: Request<B>, target: Arc<dyn Target>) -> Answer {
    let headers = request.headers();
    if !headers.contains_key(STREAM_PROTOCOL_VERSION) {
        let text = format!(
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {} headers",
            headers.len()
        );
        return refuse(StatusCode::BAD_REQUEST, text);
    }
    if !lists(headers, &STREAM_PROTOCOL_VERSION, PROTOCOL) {
        let text = format!("unable to upgrade: unable to negotiate protocol: server accepts [{PROTOCOL}]");
        let mut answer = refuse(StatusCode::FORBIDDEN, text);
        let accepted = HeaderValue::from_static(PROTOCOL);
        answer
            .response
            .headers_mut()
            .insert(ACCEPTED_PROTOCOL_VERSIONS, accepted);
        return answer;
    }
    let mut response = switching(SPDY);
    response
        .headers_mut()
        .insert(STREAM_PROTOCOL_VERSION, HeaderValue::from_static(PROTOCOL));
    let upgraded = hyper::upgrade::on(&mut request);
    let session = async move {
        let io = upgraded.await.map_err(SessionError::Upgrade)?;
        session::run(TokioIo::new(io), target).await
    };
    Answer {
        response,
        session: Some(Box::pin(session)),
    }
}

/// Accepts a WebSocket handshake (RFC 6455 section 4.2), without extensions.
fn accept_websocket<B>(mut request: Request<B>, target: Arc<dyn Target>) -> Answer {
    let headers = request.headers();
    if request.method() != Method::GET {
        return refuse(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: a websocket handshake is a GET",
        );
    }
    if headers
        .get(header::SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        let mut answer = refuse(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: websocket version 13 is required",
        );
        answer
            .response
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return answer;
    }
    let accept_key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .map(|key| derive_accept_key(key.as_bytes()));
    let Some(Ok(accept_key)) = accept_key.map(HeaderValue::try_from) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: header Sec-WebSocket-Key is missing",
        );
    };
    if !lists(headers, &header::SEC_WEBSOCKET_PROTOCOL, TUNNEL_PROTOCOL) {
        let text = "unable to upgrade: no tunneling spdy protocols provided";
        return refuse(StatusCode::BAD_REQUEST, text);
    }
    let mut response = switching("websocket");
    response
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_ACCEPT, accept_key);
    let protocol = HeaderValue::from_static(TUNNEL_PROTOCOL);
    response
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    let upgraded = hyper::upgrade::on(&mut request);
    let session = async move {
        let io = upgraded.await.map_err(SessionError::Upgrade)?;
        session::run(Tunnel::new(TokioIo::new(io)), target).await
    };
    Answer {
        response,
        session: Some(Box::pin(session)),
    }
}

/// Whether a header lists `wanted`, in upper or lower case.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(wanted))
}

fn switching(protocol: &'static str) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response
        .headers_mut()
        .insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response
}

fn upgrade_required() -> Answer {
    let mut answer = refuse(StatusCode::BAD_REQUEST, UPGRADE_REQUIRED);
    let json = HeaderValue::from_static("application/json");
    answer.response.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn refuse(status: StatusCode, text: impl Into<String>) -> Answer {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    Answer {
        response,
        session: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{ConnectError, Duplex};

    struct Nothing;

    impl Target for Nothing {
        fn connect(&self, _: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, ConnectError>> {
            Box::pin(async { Err(ConnectError("nothing there".to_owned())) })
        }
    }

    fn answer(method: Method, headers: &[(&str, &str)]) -> Answer {
        let builder = Request::builder().method(method).uri("/");
        let builder = headers
            .iter()
            .fold(builder, |builder, (name, value)| builder.header(*name, *value));
        accept(builder.body(()).unwrap(), Arc::new(Nothing))
    }

    const WEBSOCKET: [(&str, &str); 5] = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        // The example of RFC 6455 section 1.3.
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        (
            "sec-websocket-protocol",
            "v4.channel.k8s.io, SPDY/3.1+portforward.k8s.io",
        ),
    ];

    fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
        answer
            .response
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap())
    }

    #[test]
    fn spdy_handshake_is_answered() {
        let headers = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "portforward.k8s.io"),
        ];
        let answer = answer(Method::POST, &headers);
        assert_eq!(answer.response.status(), 101);
        assert_eq!(header(&answer, "connection"), Some("Upgrade"));
        assert_eq!(header(&answer, "upgrade"), Some("SPDY/3.1"));
        assert_eq!(
            header(&answer, "x-stream-protocol-version"),
            Some("portforward.k8s.io")
        );
        assert!(answer.session.is_some());
    }

    #[test]
    fn websocket_handshake_is_answered() {
        let answer = answer(Method::GET, &WEBSOCKET);
        assert_eq!(answer.response.status(), 101);
        assert_eq!(header(&answer, "connection"), Some("Upgrade"));
        assert_eq!(header(&answer, "upgrade"), Some("websocket"));
        assert_eq!(
            header(&answer, "sec-websocket-accept"),
            Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        );
        assert_eq!(
            header(&answer, "sec-websocket-protocol"),
            Some("SPDY/3.1+portforward.k8s.io")
        );
        assert!(answer.session.is_some());
    }

    #[test]
    fn requests_without_an_upgrade_get_a_status() {
        let spdy = [
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "portforward.k8s.io"),
        ];
        for refused in [
            answer(Method::GET, &[]),
            answer(Method::POST, &spdy),
            answer(Method::GET, &[("connection", "upgrade"), spdy[0], spdy[1]]),
            answer(Method::POST, &[("connection", "upgrade"), ("upgrade", "h2c")]),
        ] {
            assert_eq!(refused.response.status(), 400);
            assert_eq!(header(&refused, "content-type"), Some("application/json"));
            assert!(refused.response.body().contains("Upgrade request required"));
            assert!(refused.session.is_none());
        }
    }

    #[test]
    fn handshakes_over_http2_are_refused() {
        let request = Request::builder()
            .version(Version::HTTP_2)
            .method(Method::GET)
            .uri("/");
        let request = WEBSOCKET
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        let refused = accept(request.body(()).unwrap(), Arc::new(Nothing));
        assert_eq!(refused.response.status(), 400);
    }

    #[test]
    fn handshakes_that_lack_something_are_refused() {
        for lacking in &WEBSOCKET[2..] {
            let mut headers = WEBSOCKET.to_vec();
            headers.retain(|header| header != lacking);
            let refused = answer(Method::GET, &headers);
            assert_eq!(refused.response.status(), 400, "without {}", lacking.0);
            assert!(refused.session.is_none());
        }
        let mut headers = vec![("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        assert_eq!(answer(Method::POST, &headers).response.status(), 400);
        headers.push(("x-stream-protocol-version", "v4.channel.k8s.io"));
        let refused = answer(Method::POST, &headers);
        assert_eq!(refused.response.status(), 403);
        assert_eq!(
            header(&refused, "x-accepted-stream-protocol-versions"),
            Some("portforward.k8s.io")
        );
    }
}
