//! The five RPCs, served over HTTP/2 on any byte stream.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::cluster::{EtcdCluster, EtcdError};
use crate::message::{
    AlarmRequest, AlarmResponse, Member, MemberListRequest, MemberRemoveRequest, MembersResponse,
    MoveLeaderRequest, MoveLeaderResponse, ResponseHeader, StatusRequest, StatusResponse,
};

/// What the services report as etcd's version.
const VERSION: &str = "3.6.6";

/// A plausible size for a database that is not there: 4 MiB.
const DATABASE_BYTES: i64 = 4 << 20;

/// A cluster that its simulation and its connections share.
pub type SharedEtcdCluster = Arc<Mutex<EtcdCluster>>;

/// Told of each answered call, for metrics.
pub trait CallObserver: Send + Sync {
    /// `method`, as in `MemberList`, was answered with `code`, as in `OK` or `Unavailable`.
    fn observe(&self, method: &'static str, code: &'static str, duration: Duration);
}

/// Whom a connection reaches.
#[derive(Clone)]
pub struct Connection {
    /// The cluster.
    pub cluster: SharedEtcdCluster,
    /// The id of the member that answers.
    pub member: u64,
    /// Told of each call.
    pub observer: Arc<dyn CallObserver>,
}

/// Why a connection ended early.
#[derive(Debug, Error)]
#[error("failed to serve an etcd connection")]
pub struct ServeError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// Serves one connection until its end. `io` carries plain HTTP/2 with prior knowledge: TLS has ended before.
///
/// # Errors
/// When the peer breaks the protocol or the stream.
pub async fn serve_connection<IO>(io: IO, connection: Connection) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request| {
        let connection = connection.clone();
        async move { Ok::<_, Infallible>(route(connection, request).await) }
    });
    // A connection carries a handful of messages of a few hundred bytes; the defaults reserve a megabyte.
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16 * 1024)
        .initial_connection_window_size(32 * 1024)
        .max_concurrent_streams(32)
        .max_header_list_size(8 * 1024)
        .serve_connection(TokioIo::new(io), service)
        .await
        .map_err(|error| ServeError(Box::new(error)))
}

async fn route(
    connection: Connection,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    let started = Instant::now();
    let observer = connection.observer.clone();
    let (method, response) = match request.uri().path() {
        "/etcdserverpb.Cluster/MemberList" => {
            let answer = |c: &Connection, _: MemberListRequest| {
                c.asked(|cluster| cluster.leader().map(|_| ()).ok_or(EtcdError::NoLeader))?;
                Ok(c.members())
            };
            ("MemberList", unary(connection, answer, request).await)
        }
        "/etcdserverpb.Cluster/MemberRemove" => {
            let answer = |c: &Connection, request: MemberRemoveRequest| {
                c.asked(|cluster| cluster.remove_member(request.id))?;
                Ok(c.members())
            };
            ("MemberRemove", unary(connection, answer, request).await)
        }
        "/etcdserverpb.Maintenance/MoveLeader" => {
            let answer = |c: &Connection, request: MoveLeaderRequest| {
                c.asked(|cluster| cluster.move_leader(c.member, request.target_id))?;
                Ok(MoveLeaderResponse { header: Some(c.header()) })
            };
            ("MoveLeader", unary(connection, answer, request).await)
        }
        "/etcdserverpb.Maintenance/Alarm" => {
            let answer = |c: &Connection, _: AlarmRequest| {
                c.asked(|_| Ok(()))?;
                Ok(AlarmResponse { header: Some(c.header()) })
            };
            ("Alarm", unary(connection, answer, request).await)
        }
        "/etcdserverpb.Maintenance/Status" => {
            let answer = |c: &Connection, _: StatusRequest| {
                c.asked(|_| Ok(()))?;
                Ok(c.status())
            };
            ("Status", unary(connection, answer, request).await)
        }
        _ => ("other", Status::unimplemented("not simulated").into_http()),
    };
    let code = response.headers().get("grpc-status").and_then(|code| code.to_str().ok()).unwrap_or("0");
    observer.observe(method, code_name(Code::from_bytes(code.as_bytes())), started.elapsed());
    response
}

impl Connection {
    /// Asks the member: one that does not run answers nothing.
    fn asked<T>(&self, ask: impl FnOnce(&mut EtcdCluster) -> Result<T, EtcdError>) -> Result<T, Status> {
        let mut cluster = self.cluster.lock();
        if !cluster.is_running(self.member) {
            return Err(status(EtcdError::Stopped));
        }
        ask(&mut cluster).map_err(status)
    }

    fn header(&self) -> ResponseHeader {
        let cluster = self.cluster.lock();
        ResponseHeader {
            cluster_id: cluster.id(),
            member_id: self.member,
            revision: cluster.revision(),
            raft_term: cluster.term(),
        }
    }

    fn members(&self) -> MembersResponse {
        let header = Some(self.header());
        let cluster = self.cluster.lock();
        let members = cluster
            .members()
            .map(|member| Member {
                id: member.id,
                name: member.name.clone(),
                peer_urls: member.peer_urls.clone(),
                client_urls: member.client_urls.clone(),
                is_learner: false,
            })
            .collect();
        MembersResponse { header, members }
    }

    fn status(&self) -> StatusResponse {
        let header = self.header();
        let cluster = self.cluster.lock();
        let index = u64::try_from(cluster.revision()).unwrap_or(0);
        StatusResponse {
            header: Some(header),
            version: VERSION.to_owned(),
            db_size: DATABASE_BYTES,
            leader: cluster.leader().unwrap_or(0),
            raft_index: index,
            raft_term: cluster.term(),
            raft_applied_index: index,
            // etcd lists its troubles here, and clients before 1.14 give up on any.
            errors: if cluster.has_quorum() { vec![] } else { vec![EtcdError::NoLeader.to_string()] },
            db_size_in_use: DATABASE_BYTES / 2,
            is_learner: false,
        }
    }
}

/// The gRPC codes that etcd gives its errors.
fn status(error: EtcdError) -> Status {
    let code = match error {
        EtcdError::Stopped | EtcdError::NoLeader => Code::Unavailable,
        EtcdError::NotLeader | EtcdError::BadTransferee | EtcdError::Unhealthy => Code::FailedPrecondition,
        EtcdError::MemberNotFound => Code::NotFound,
    };
    Status::new(code, error.to_string())
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Unavailable => "Unavailable",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::NotFound => "NotFound",
        Code::Unimplemented => "Unimplemented",
        Code::InvalidArgument => "InvalidArgument",
        _ => "Other",
    }
}

/// A unary method that decides at once.
struct Method<F> {
    connection: Connection,
    answer: F,
}

impl<F, Q, A> UnaryService<Q> for Method<F>
where
    F: Fn(&Connection, Q) -> Result<A, Status>,
{
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready((self.answer)(&self.connection, request.into_inner()).map(Response::new))
    }
}

async fn unary<F, Q, A>(
    connection: Connection,
    answer: F,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body>
where
    F: Fn(&Connection, Q) -> Result<A, Status>,
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(Method { connection, answer }, request).await
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tonic::client::Grpc as ClientGrpc;
    use tonic::transport::{Channel, Endpoint};

    use super::*;
    use crate::cluster;

    struct Silent;

    impl CallObserver for Silent {
        fn observe(&self, _: &'static str, _: &'static str, _: Duration) {}
    }

    fn shared(ids: &[u64]) -> SharedEtcdCluster {
        let mut cluster = EtcdCluster::new(77);
        for &id in ids {
            let name = format!("m{id}");
            cluster.add_member(cluster::Member { id, name, peer_urls: vec![], client_urls: vec![] });
        }
        Arc::new(Mutex::new(cluster))
    }

    /// A client of one member, over a pipe.
    async fn client(cluster: &SharedEtcdCluster, member: u64) -> ClientGrpc<Channel> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let connection = Connection { cluster: cluster.clone(), member, observer: Arc::new(Silent) };
        tokio::spawn(serve_connection(far, connection));
        let mut near = Some(near);
        let connector = tower::service_fn(move |_| {
            let near = near.take().map(TokioIo::new);
            async move { near.ok_or_else(|| std::io::Error::other("the pipe is used once")) }
        });
        let channel =
            Endpoint::from_static("http://etcd-m1").connect_with_connector(connector).await.unwrap();
        ClientGrpc::new(channel)
    }

    async fn call<Q, A>(client: &mut ClientGrpc<Channel>, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, A>::default();
        client.unary(Request::new(request), path, codec).await.map(Response::into_inner)
    }

    #[tokio::test]
    async fn members_leader_and_header_are_told() {
        let cluster = shared(&[1, 2, 3]);
        let mut client = client(&cluster, 2).await;
        let list: MembersResponse =
            call(&mut client, "/etcdserverpb.Cluster/MemberList", MemberListRequest { linearizable: true })
                .await
                .unwrap();
        let names: Vec<_> = list.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["m1", "m2", "m3"]);
        let header = list.header.unwrap();
        assert_eq!((header.cluster_id, header.member_id), (77, 2));
        let status: StatusResponse =
            call(&mut client, "/etcdserverpb.Maintenance/Status", StatusRequest {}).await.unwrap();
        assert_eq!((status.leader, status.errors), (1, vec![]));
        let alarms: AlarmResponse =
            call(&mut client, "/etcdserverpb.Maintenance/Alarm", AlarmRequest::default()).await.unwrap();
        assert!(alarms.header.is_some());
    }

    #[tokio::test]
    async fn leader_moves_and_member_goes() {
        let cluster = shared(&[1, 2, 3]);
        let mut leader = client(&cluster, 1).await;
        let request = MoveLeaderRequest { target_id: 2 };
        let _: MoveLeaderResponse =
            call(&mut leader, "/etcdserverpb.Maintenance/MoveLeader", request.clone()).await.unwrap();
        let again: Result<MoveLeaderResponse, _> =
            call(&mut leader, "/etcdserverpb.Maintenance/MoveLeader", request).await;
        let refused = again.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::FailedPrecondition, "etcdserver: not leader"));

        let mut other = client(&cluster, 2).await;
        let left: MembersResponse =
            call(&mut other, "/etcdserverpb.Cluster/MemberRemove", MemberRemoveRequest { id: 1 })
                .await
                .unwrap();
        assert_eq!(left.members.len(), 2);
        let gone: Result<StatusResponse, _> =
            call(&mut leader, "/etcdserverpb.Maintenance/Status", StatusRequest {}).await;
        assert_eq!(gone.unwrap_err().code(), Code::Unavailable);
    }

    #[tokio::test]
    async fn calls_that_are_not_simulated_say_so() {
        let cluster = shared(&[1]);
        let mut client = client(&cluster, 1).await;
        let answer: Result<StatusResponse, _> =
            call(&mut client, "/etcdserverpb.KV/Range", StatusRequest {}).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    }
}
