//! The messages, with the field numbers of etcd's `api/etcdserverpb/rpc.proto`.

/// `ResponseHeader`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
    #[prost(uint64, tag = "4")]
    pub(crate) raft_term: u64,
}

/// `Member`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Member {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(crate) is_learner: bool,
}

/// `MemberListRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(crate) linearizable: bool,
}

/// `MemberListResponse`, and `MemberRemoveResponse`, which has the same fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MembersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<Member>,
}

/// `MemberRemoveRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MemberRemoveRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
}

/// `MoveLeaderRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MoveLeaderRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) target_id: u64,
}

/// `MoveLeaderResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MoveLeaderResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

/// `AlarmRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AlarmRequest {
    #[prost(int32, tag = "1")]
    pub(crate) action: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    #[prost(int32, tag = "3")]
    pub(crate) alarm: i32,
}

/// `AlarmResponse`. The alarms are always none, and left out.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AlarmResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

/// `StatusRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusRequest {}

/// `StatusResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) raft_index: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) raft_term: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) raft_applied_index: u64,
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(crate) db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
}
