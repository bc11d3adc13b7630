//! What a connection hears for which there is no place.

use std::{convert::Infallible, error::Error};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::Full;
use hyper::service::service_fn;
use nephele_budget::Owner;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    body::RequestBody,
    handshake::handshake,
    http::{Http, Protocol},
};

/// As kube-apiserver answers what is too much for it (`server/filters/maxinflight.go`). Its clients try again.
const MESSAGE: &[u8] = b"Too many connections, please try again later.\n";
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Answers the first request of a connection, and those that come with it, with 429; then ends the connection. The caller
/// bounds the time.
pub async fn refuse(stream: TcpStream, tls: Option<TlsAcceptor>, http: &Http, peer: Owner) {
    let called = CancellationToken::new();
    let is_called = called.clone();
    let service = service_fn(move |_: Request<RequestBody>| {
        is_called.cancel();
        let mut answer = Response::new(Full::new(Bytes::from_static(MESSAGE)));
        *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        answer.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
        answer.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        async move { Ok::<_, Infallible>(answer) }
    });
    // It ends when all requests that it has are answered.
    let stop = called.cancelled();
    let result = match tls {
        None => http.serve(stream, Protocol::Http1, service, None, stop).await,
        Some(tls) => match handshake(stream, tls, http.limits.handshake, peer).await {
            Ok(stream) => {
                let protocol = Protocol::negotiated(&stream);
                http.serve(stream, protocol, service, None, stop).await
            }
            Err(error) => {
                return tracing::debug!(error = &error as &dyn Error, "Ended a connection without a place");
            }
        },
    };
    if let Err(error) = result {
        tracing::debug!(
            error = &error as &dyn Error,
            "A connection without a place ended early"
        );
    }
}
