//! A client of etcd inside a tunnel: TLS with the member's name, then gRPC.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::spdy::Forwarded;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Members {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(uint64, tag = "4")]
    pub leader: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Id {
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

pub(crate) struct Etcd {
    sender: http2::SendRequest<Full<Bytes>>,
}

impl Etcd {
    pub(crate) async fn connect(tunnel: Forwarded, tls: &TlsConnector, node: &str) -> std::io::Result<Self> {
        let name = ServerName::try_from(format!("etcd-{node}")).unwrap();
        let stream: TlsStream<_> = tls.connect(name, tunnel.stream).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Calls a method. The error is the gRPC status if it is not OK.
    pub(crate) async fn call<T: Message + Default>(
        &mut self,
        method: &str,
        message: &impl Message,
    ) -> Result<T, String> {
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(message.encoded_len() as u32);
        message.encode(&mut body).unwrap();
        let request = Request::post(format!("https://etcd/etcdserverpb.{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(body.freeze()))
            .unwrap();
        let response = self
            .sender
            .send_request(request)
            .await
            .map_err(|error| error.to_string())?;
        let headers = response.headers().clone();
        let collected = response
            .into_body()
            .collect()
            .await
            .map_err(|error| error.to_string())?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let status = headers
            .get("grpc-status")
            .or_else(|| trailers.get("grpc-status"))
            .unwrap();
        if status != "0" {
            return Err(status.to_str().unwrap().to_owned());
        }
        let mut bytes = collected.to_bytes();
        bytes.advance(5);
        Ok(T::decode(bytes).unwrap())
    }
}
