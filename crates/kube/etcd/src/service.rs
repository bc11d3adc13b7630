//! The five RPCs, served over HTTP/2 on any byte stream.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{
    Code, Request, Response, Status,
    server::{Grpc, UnaryService},
};
use tonic_prost::ProstCodec;

use crate::{
    answer::{Call, answer},
    cluster::{EtcdCluster, EtcdError},
    message::{AlarmRequest, MemberListRequest, MemberRemoveRequest, MoveLeaderRequest, StatusRequest},
};

/// The longest request that is accepted, in bytes; the longest of the five requests has a few numbers.
const REQUEST_BYTES_MAX: usize = 1024;

/// An etcd cluster that the simulation and the connections share.
pub type SharedEtcdCluster = Arc<Mutex<EtcdCluster>>;

/// Receives each answered call, for metrics.
pub trait CallObserver: Send + Sync {
    /// A call of `method` was answered with `code`, such as `OK` or `Unavailable`. `method` is a name such as
    /// `MemberList`, or `other` for a method that is not simulated.
    fn observe(&self, method: &'static str, code: &'static str, duration: Duration);
}

/// Ready when a late call is carried out.
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Says how late calls are answered.
pub trait CallDelay: Send + Sync {
    /// What the next call waits for, if it has to.
    fn delay(&self) -> Option<Delay>;
}

/// The member that a connection reaches.
#[derive(Clone)]
pub struct Connection {
    pub cluster: SharedEtcdCluster,
    /// The id of the member that answers.
    pub member: u64,
    pub observer: Arc<dyn CallObserver>,
    /// Says how long each call waits.
    pub delay: Arc<dyn CallDelay>,
}

/// Why a connection ended early.
#[derive(Debug, Error)]
#[error("failed to serve an etcd connection")]
pub struct ServeError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// Serves one connection until its end. `io` carries plain HTTP/2 with prior knowledge: the caller terminates TLS. The
/// server sends no keep-alive pings, but answers those of the client.
///
/// # Errors
/// When the peer breaks the protocol, or the stream fails.
pub async fn serve_connection<IO>(io: IO, connection: Connection) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request| {
        let connection = connection.clone();
        async move { Ok::<_, Infallible>(route(&connection, request).await) }
    });
    // A connection carries a handful of messages of a few hundred bytes. By default hyper buffers up to a megabyte of
    // received data and 400 KiB to send. The limits here are the 64 KiB that HTTP/2 gives each connection, and 16 KiB
    // to send.
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16 * 1024)
        .initial_connection_window_size(64 * 1024)
        .max_send_buf_size(16 * 1024)
        .max_concurrent_streams(32)
        .max_header_list_size(8 * 1024)
        .serve_connection(TokioIo::new(io), service)
        .await
        .map_err(|error| ServeError(Box::new(error)))
}

async fn route(
    connection: &Connection,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    let started = Instant::now();
    if let Some(delay) = connection.delay.delay() {
        delay.await;
    }
    let (method, response) = match request.uri().path() {
        "/etcdserverpb.Cluster/MemberList" => (
            "MemberList",
            unary::<MemberListRequest>(connection, request).await,
        ),
        "/etcdserverpb.Cluster/MemberRemove" => (
            "MemberRemove",
            unary::<MemberRemoveRequest>(connection, request).await,
        ),
        "/etcdserverpb.Maintenance/MoveLeader" => (
            "MoveLeader",
            unary::<MoveLeaderRequest>(connection, request).await,
        ),
        "/etcdserverpb.Maintenance/Alarm" => ("Alarm", unary::<AlarmRequest>(connection, request).await),
        "/etcdserverpb.Maintenance/Status" => ("Status", unary::<StatusRequest>(connection, request).await),
        path => ("other", Status::unimplemented(unknown(path)).into_http()),
    };
    // A refusal has its code in the headers. A response has its code in the trailers, where it is always OK.
    let code = response.headers().get("grpc-status");
    let code = code.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()));
    connection
        .observer
        .observe(method, code_name(code), started.elapsed());
    response
}

/// The message of grpc-go for a method that a server does not have.
fn unknown(path: &str) -> String {
    match path.trim_start_matches('/').rsplit_once('/') {
        Some((service, method)) => format!("unknown method {method} for service {service}"),
        None => format!("malformed method name: {path:?}"),
    }
}

/// Answers a unary call at once.
async fn unary<C: Call>(
    connection: &Connection,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    Grpc::new(ProstCodec::<C::Response, C>::default())
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .unary(MemberService(connection.clone()), request)
        .await
}

/// The gRPC service of one member.
struct MemberService(Connection);

impl<C: Call> UnaryService<C> for MemberService {
    type Response = C::Response;
    type Future = Ready<Result<Response<C::Response>, Status>>;

    fn call(&mut self, request: Request<C>) -> Self::Future {
        let Connection { cluster, member, .. } = &self.0;
        let answer = answer(request.into_inner(), &mut cluster.lock(), *member);
        ready(answer.map(Response::new).map_err(status))
    }
}

/// The gRPC codes that etcd gives its errors (`api/v3rpc/rpctypes/error.go`).
fn status(error: EtcdError) -> Status {
    let code = match error {
        EtcdError::Stopped | EtcdError::NoLeader | EtcdError::Unhealthy => Code::Unavailable,
        EtcdError::NotLeader | EtcdError::BadTransferee | EtcdError::NotEnoughStarted => {
            Code::FailedPrecondition
        }
        EtcdError::MemberNotFound => Code::NotFound,
        // etcd gives this error no code.
        EtcdError::TransferTimedOut => Code::Unknown,
    };
    Status::new(code, error.to_string())
}

/// The names of the gRPC specification, as grpc-go writes them.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;
    use tonic::{
        client::Grpc as ClientGrpc,
        transport::{Channel, Endpoint},
    };

    use super::*;
    use crate::{
        cluster,
        message::{AlarmResponse, MembersResponse, MoveLeaderResponse, StatusResponse},
    };

    #[derive(Default)]
    struct Calls(Mutex<Vec<(&'static str, &'static str)>>);

    impl CallObserver for Calls {
        fn observe(&self, method: &'static str, code: &'static str, _: Duration) {
            self.0.lock().push((method, code));
        }
    }

    fn shared(ids: &[u64]) -> SharedEtcdCluster {
        let mut cluster = EtcdCluster::new(77);
        for &id in ids {
            let name = format!("m{id}");
            cluster.add_member(cluster::Member {
                id,
                name,
                peer_urls: vec![],
                client_urls: vec![],
            });
        }
        Arc::new(Mutex::new(cluster))
    }

    struct Late(Duration);

    impl CallDelay for Late {
        fn delay(&self) -> Option<Delay> {
            Some(Box::pin(tokio::time::sleep(self.0)))
        }
    }

    /// A client of one member, over a pipe.
    struct Client {
        grpc: ClientGrpc<Channel>,
        calls: Arc<Calls>,
        served: JoinHandle<Result<(), ServeError>>,
    }

    impl Client {
        async fn new(cluster: &SharedEtcdCluster, member: u64) -> Self {
            Self::late(cluster, member, Duration::ZERO).await
        }

        async fn late(cluster: &SharedEtcdCluster, member: u64, delay: Duration) -> Self {
            let (near, far) = tokio::io::duplex(16 * 1024);
            let calls = Arc::new(Calls::default());
            let observer = calls.clone();
            let delay = Arc::new(Late(delay));
            let connection = Connection {
                cluster: cluster.clone(),
                member,
                observer,
                delay,
            };
            let served = tokio::spawn(serve_connection(far, connection));
            let mut near = Some(near);
            let connector = tower::service_fn(move |_| {
                let near = near.take().map(TokioIo::new);
                async move { near.ok_or_else(|| std::io::Error::other("the pipe is used once")) }
            });
            let channel = Endpoint::from_static("http://etcd-m1")
                .connect_with_connector(connector)
                .await
                .unwrap();
            Self {
                grpc: ClientGrpc::new(channel),
                calls,
                served,
            }
        }

        async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
        where
            Q: prost::Message + Default + 'static,
            A: prost::Message + Default + 'static,
        {
            self.grpc.ready().await.unwrap();
            let path = http::uri::PathAndQuery::from_static(path);
            let codec = ProstCodec::<Q, A>::default();
            self.grpc
                .unary(Request::new(request), path, codec)
                .await
                .map(Response::into_inner)
        }

        async fn list(&mut self) -> Result<MembersResponse, Status> {
            self.call(
                "/etcdserverpb.Cluster/MemberList",
                MemberListRequest { linearizable: true },
            )
            .await
        }

        async fn remove(&mut self, id: u64) -> Result<MembersResponse, Status> {
            self.call("/etcdserverpb.Cluster/MemberRemove", MemberRemoveRequest { id })
                .await
        }

        async fn move_leader(&mut self, target_id: u64) -> Result<MoveLeaderResponse, Status> {
            self.call(
                "/etcdserverpb.Maintenance/MoveLeader",
                MoveLeaderRequest { target_id },
            )
            .await
        }

        async fn alarm(&mut self) -> Result<AlarmResponse, Status> {
            self.call("/etcdserverpb.Maintenance/Alarm", AlarmRequest::default())
                .await
        }

        async fn status(&mut self) -> Result<StatusResponse, Status> {
            self.call("/etcdserverpb.Maintenance/Status", StatusRequest {})
                .await
        }
    }

    fn refusal<A: std::fmt::Debug>(answer: Result<A, Status>) -> (Code, String) {
        let status = answer.unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[tokio::test]
    async fn members_leader_and_header_are_told() {
        let cluster = shared(&[1, 2, 3]);
        let mut client = Client::new(&cluster, 2).await;
        let list = client.list().await.unwrap();
        let names: Vec<_> = list.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["m1", "m2", "m3"]);
        let header = list.header.unwrap();
        assert_eq!((header.cluster_id, header.member_id), (77, 2));
        let status = client.status().await.unwrap();
        assert_eq!(
            (status.leader, status.errors, status.header),
            (1, vec![], Some(header.clone()))
        );
        assert_eq!(client.alarm().await.unwrap().header, Some(header));
        assert_eq!(
            *client.calls.0.lock(),
            [("MemberList", "OK"), ("Status", "OK"), ("Alarm", "OK")]
        );
    }

    #[tokio::test]
    async fn leader_moves_and_every_member_knows() {
        let cluster = shared(&[1, 2, 3]);
        let mut first = Client::new(&cluster, 1).await;
        let mut second = Client::new(&cluster, 2).await;
        let refused = (Code::FailedPrecondition, "etcdserver: not leader".to_owned());
        assert_eq!(refusal(second.move_leader(3).await), refused);
        assert_eq!(first.move_leader(2).await.unwrap().header.unwrap().raft_term, 3);
        assert_eq!(first.status().await.unwrap().leader, 2);
        assert_eq!(second.status().await.unwrap().leader, 2);
        assert_eq!(refusal(first.move_leader(2).await), refused);
        let refused = (
            Code::FailedPrecondition,
            "etcdserver: bad leader transferee".to_owned(),
        );
        assert_eq!(refusal(second.move_leader(9).await), refused);
        cluster.lock().set_running(3, false);
        let text = "etcdserver: request timed out, leader transfer took too long";
        assert_eq!(
            refusal(second.move_leader(3).await),
            (Code::Unknown, text.to_owned())
        );
        let codes: Vec<_> = second.calls.0.lock().iter().map(|(_, code)| *code).collect();
        let refused = "FailedPrecondition";
        assert_eq!(codes, [refused, "OK", refused, "Unknown"]);
    }

    #[tokio::test]
    async fn members_are_removed_down_to_the_last() {
        let cluster = shared(&[1, 2, 3]);
        let mut first = Client::new(&cluster, 1).await;
        let mut third = Client::new(&cluster, 3).await;
        let not_found = (Code::NotFound, "etcdserver: member not found".to_owned());
        assert_eq!(refusal(third.remove(9).await), not_found);
        cluster.lock().set_running(2, false);
        let unhealthy = (Code::Unavailable, "etcdserver: unhealthy cluster".to_owned());
        assert_eq!(refusal(third.remove(1).await), unhealthy);
        assert_eq!(third.remove(2).await.unwrap().members.len(), 2);
        let left = third.remove(1).await.unwrap().members;
        assert_eq!(left.iter().map(|member| member.id).collect::<Vec<_>>(), [3]);
        let stopped = (Code::Unavailable, "etcdserver: server stopped".to_owned());
        assert_eq!(refusal(first.status().await), stopped);
        assert_eq!(third.status().await.unwrap().leader, 3);
        let text = "etcdserver: re-configuration failed due to not enough started members";
        assert_eq!(
            refusal(third.remove(3).await),
            (Code::FailedPrecondition, text.to_owned())
        );
    }

    #[tokio::test]
    async fn without_a_quorum_there_is_no_leader() {
        let cluster = shared(&[1, 2]);
        cluster.lock().set_running(1, false);
        let mut client = Client::new(&cluster, 2).await;
        let no_leader = (Code::Unavailable, "etcdserver: no leader".to_owned());
        assert_eq!(refusal(client.list().await), no_leader);
        assert_eq!(refusal(client.alarm().await), no_leader);
        assert_eq!(refusal(client.remove(1).await), no_leader);
        let status = client.status().await.unwrap();
        assert_eq!(
            (status.leader, status.errors),
            (0, vec!["etcdserver: no leader".to_owned()])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_as_long_as_they_are_told() {
        let mut client = Client::late(&shared(&[1]), 1, Duration::from_secs(7)).await;
        let begin = tokio::time::Instant::now();
        assert_eq!(client.status().await.unwrap().leader, 1);
        assert_eq!(begin.elapsed().as_secs(), 7);
    }

    #[tokio::test]
    async fn calls_that_are_not_simulated_say_so() {
        let mut client = Client::new(&shared(&[1]), 1).await;
        let answer = client
            .call::<_, StatusResponse>("/etcdserverpb.KV/Range", StatusRequest {})
            .await;
        let text = "unknown method Range for service etcdserverpb.KV".to_owned();
        assert_eq!(refusal(answer), (Code::Unimplemented, text));
        assert_eq!(*client.calls.0.lock(), [("other", "Unimplemented")]);
    }

    #[tokio::test]
    async fn long_and_broken_requests_are_refused_and_the_connection_stays() {
        let mut client = Client::new(&shared(&[1]), 1).await;
        // Any message with a long string works: unknown fields are skipped.
        let long = crate::message::Member {
            name: "n".repeat(REQUEST_BYTES_MAX),
            ..Default::default()
        };
        let answer = client
            .call::<_, StatusResponse>("/etcdserverpb.Maintenance/Status", long)
            .await;
        assert_eq!(answer.unwrap_err().code(), Code::OutOfRange);
        // A string in place of a number.
        let broken = StatusResponse {
            version: "v".to_owned(),
            ..Default::default()
        };
        let answer = client
            .call::<_, AlarmResponse>("/etcdserverpb.Maintenance/Alarm", broken)
            .await;
        assert_eq!(answer.unwrap_err().code(), Code::Internal);
        assert_eq!(client.status().await.unwrap().leader, 1);
    }

    #[tokio::test]
    async fn connection_ends_with_its_client() {
        let mut client = Client::new(&shared(&[1]), 1).await;
        client.status().await.unwrap();
        let Client { grpc, served, .. } = client;
        drop(grpc);
        assert!(matches!(served.await, Ok(Ok(()))));
    }

    #[tokio::test]
    async fn client_that_speaks_something_else_is_an_error() {
        use tokio::io::AsyncWriteExt as _;
        let (mut near, far) = tokio::io::duplex(1024);
        let observer = Arc::new(Calls::default());
        let delay = Arc::new(Late(Duration::ZERO));
        let connection = Connection {
            cluster: shared(&[1]),
            member: 1,
            observer,
            delay,
        };
        let served = tokio::spawn(serve_connection(far, connection));
        near.write_all(b"GET / HTTP/1.1\r\nHost: etcd\r\n\r\n")
            .await
            .unwrap();
        let error = served.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "failed to serve an etcd connection");
    }
}
