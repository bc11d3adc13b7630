//! The messages, with the field numbers of etcd's `api/etcdserverpb/rpc.proto` (version 3.6).

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

/// `AlarmMember`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(crate) member_id: u64,
    #[prost(int32, tag = "2")]
    pub(crate) alarm: i32,
}

/// `AlarmResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AlarmResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) alarms: Vec<AlarmMember>,
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
    #[prost(string, tag = "11")]
    pub(crate) storage_version: String,
    #[prost(int64, tag = "12")]
    pub(crate) db_size_quota: i64,
    #[prost(message, optional, tag = "13")]
    pub(crate) downgrade_info: Option<DowngradeInfo>,
}

/// `DowngradeInfo`, without the target version: there is never a downgrade.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DowngradeInfo {
    #[prost(bool, tag = "1")]
    pub(crate) enabled: bool,
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// Each field is its number and wire type, then its value (protobuf encoding guide); strings and messages have
    /// their length in front.
    #[test]
    fn messages_are_encoded_with_the_numbers_of_the_protocol() {
        let header = ResponseHeader {
            cluster_id: 1,
            member_id: 2,
            revision: 3,
            raft_term: 300,
        };
        let encoded_header = [0x08, 1, 0x10, 2, 0x18, 3, 0x20, 0xac, 0x02];
        assert_eq!(header.encode_to_vec(), encoded_header);

        let member = Member {
            id: 5,
            name: "n".to_owned(),
            peer_urls: vec!["p".to_owned()],
            client_urls: vec!["c".to_owned()],
            is_learner: true,
        };
        let encoded_member = [0x08, 5, 0x12, 1, b'n', 0x1a, 1, b'p', 0x22, 1, b'c', 0x28, 1];
        assert_eq!(member.encode_to_vec(), encoded_member);
        let members = MembersResponse {
            header: Some(header),
            members: vec![member],
        };
        let encoded = [&[0x0a, 9][..], &encoded_header, &[0x12, 13], &encoded_member].concat();
        assert_eq!(members.encode_to_vec(), encoded);

        assert_eq!(
            MemberListRequest { linearizable: true }.encode_to_vec(),
            [0x08, 1]
        );
        assert_eq!(MemberRemoveRequest { id: 7 }.encode_to_vec(), [0x08, 7]);
        assert_eq!(MoveLeaderRequest { target_id: 7 }.encode_to_vec(), [0x08, 7]);
        assert_eq!(
            AlarmRequest {
                action: 1,
                member_id: 2,
                alarm: 1
            }
            .encode_to_vec(),
            [0x08, 1, 0x10, 2, 0x18, 1]
        );
        let status = StatusResponse {
            header: None,
            version: "v".to_owned(),
            db_size: 1,
            leader: 2,
            raft_index: 3,
            raft_term: 4,
            raft_applied_index: 5,
            errors: vec!["e".to_owned()],
            db_size_in_use: 6,
            is_learner: true,
            storage_version: "s".to_owned(),
            db_size_quota: 7,
            downgrade_info: Some(DowngradeInfo { enabled: true }),
        };
        assert_eq!(
            status.encode_to_vec(),
            [
                0x12, 1, b'v', 0x18, 1, 0x20, 2, 0x28, 3, 0x30, 4, 0x38, 5, 0x42, 1, b'e', 0x48, 6, 0x50, 1,
                0x5a, 1, b's', 0x60, 7, 0x6a, 2, 0x08, 1
            ]
        );
    }
}
