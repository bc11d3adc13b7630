//! One connection to the server.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{generator::Request, server::Server};

/// How long an answer may take before the connection counts as broken. It is long because the machine may be busy.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// How long a watch is read.
const WATCHED: Duration = Duration::from_millis(5);

/// The result of a request.
pub(crate) enum Outcome {
    Answered {
        status: u16,
        /// The answer, if it is complete and not a watch.
        body: Option<Bytes>,
    },
    /// There was no answer. The text is the reason.
    Broken(String),
}

impl Outcome {
    /// The outcome in a few words.
    pub(crate) fn brief(&self) -> String {
        match self {
            Self::Answered { status, body } => {
                format!("status {status}, {:?} bytes", body.as_ref().map(Bytes::len))
            }
            Self::Broken(error) => error.clone(),
        }
    }
}

/// A client that connects on demand.
pub(crate) struct Client {
    server: Arc<Server>,
    is_http2: bool,
    sender: Option<Sender>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub(crate) fn new(server: Arc<Server>, is_http2: bool) -> Self {
        Self {
            server,
            is_http2,
            sender: None,
        }
    }

    /// Sends a request, on a new connection if there is none.
    ///
    /// # Errors
    /// When no connection can be made, because the server is gone.
    pub(crate) async fn send(&mut self, request: &Request) -> anyhow::Result<Outcome> {
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let Some(message) = message(&self.server, request, self.is_http2) else {
            self.sender = Some(sender);
            return Ok(Outcome::Answered {
                status: 0,
                body: None,
            });
        };
        let response = timeout(ANSWER_MAX, sender.send(message)).await;
        let response = match response {
            Err(_) => return Ok(Outcome::Broken(format!("no answer within {ANSWER_MAX:?}"))),
            Ok(Err(error)) => return Ok(Outcome::Broken(format!("{:#}", anyhow::Error::from(error)))),
            Ok(Ok(response)) => response,
        };
        let status = response.status().as_u16();
        let closes = response
            .headers()
            .get("connection")
            .is_some_and(|value| value == "close");
        if request.is_watch() && status == 200 {
            let mut body = response.into_body();
            // Reads the watch for a moment, then drops the stream, which ends a connection of HTTP/1.1.
            let _ = timeout(WATCHED, body.frame()).await;
            drop(body);
            if self.is_http2 {
                self.sender = Some(sender);
            }
            return Ok(Outcome::Answered { status, body: None });
        }
        match timeout(ANSWER_MAX, response.into_body().collect()).await {
            Err(_) => Ok(Outcome::Broken(format!(
                "no end of the answer within {ANSWER_MAX:?}"
            ))),
            Ok(Err(error)) => Ok(Outcome::Broken(format!("{:#}", anyhow::Error::from(error)))),
            Ok(Ok(body)) => {
                // A server may close an HTTP/1.1 connection if it did not read the whole request, and if the answer
                // says so.
                if !closes {
                    self.sender = Some(sender);
                }
                Ok(Outcome::Answered {
                    status,
                    body: Some(body.to_bytes()),
                })
            }
        }
    }

    async fn connect(&self) -> anyhow::Result<Sender> {
        let stream = TcpStream::connect(self.server.address)
            .await
            .context("failed to connect")?;
        // With delays, each body would wait until its head is acknowledged.
        stream.set_nodelay(true).context("failed to set TCP_NODELAY")?;
        let mut config = self.server.client.clone();
        config.alpn_protocols = vec![if self.is_http2 {
            b"h2".to_vec()
        } else {
            b"http/1.1".to_vec()
        }];
        let name = ServerName::IpAddress(self.server.address.ip().into());
        let connector = TlsConnector::from(Arc::new(config));
        let io = TokioIo::new(
            connector
                .connect(name, stream)
                .await
                .context("failed to speak TLS")?,
        );
        // The connections end with their senders.
        if self.is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io)
                .await
                .context("failed to speak HTTP/2")?;
            tokio::spawn(connection);
            Ok(Sender::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.context("failed to speak HTTP/1.1")?;
            tokio::spawn(connection.with_upgrades());
            Ok(Sender::Http1(sender))
        }
    }
}

impl Sender {
    async fn send(&mut self, message: http::Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(message).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(message).await
            }
        }
    }
}

/// The request as HTTP; `None` when no client could write it.
fn message(server: &Server, request: &Request, is_http2: bool) -> Option<http::Request<Full<Bytes>>> {
    let uri = if is_http2 {
        format!("https://{}{}", server.address, request.target)
    } else {
        request.target.clone()
    };
    let mut builder = http::Request::builder().method(request.method).uri(uri);
    if !is_http2 {
        builder = builder.header("host", server.address.to_string());
    }
    for (name, value) in &request.headers {
        builder = builder.header(*name, value.as_str());
    }
    builder.body(Full::new(request.body.clone())).ok()
}
