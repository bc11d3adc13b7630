//! The responses of a member: each response is a pure function of the cluster, the member and the request.
//!
//! The responses are those of etcd's `server/etcdserver/api/v3rpc/{member,maintenance}.go`, with two differences: a
//! call that would time out in etcd is refused at once, and every response has a complete header.

use crate::{
    cluster::{Alarm, EtcdCluster, EtcdError},
    message::{
        AlarmMember, AlarmRequest, AlarmResponse, DowngradeInfo, Member, MemberListRequest,
        MemberRemoveRequest, MembersResponse, MoveLeaderRequest, MoveLeaderResponse, ResponseHeader,
        StatusRequest, StatusResponse,
    },
};

/// The etcd version that the services report.
pub const VERSION: &str = "3.6.6";

/// The version of the database's format, which follows etcd's minor version.
const STORAGE_VERSION: &str = "3.6.0";

/// A plausible size for a database that does not exist: the database of a new control plane takes a few MiB.
const DATABASE_BYTES: i64 = 4 << 20;

/// etcd's default for `--quota-backend-bytes`.
const QUOTA_BYTES: i64 = 2 << 30;

/// A request that a member answers.
pub(crate) trait Call: prost::Message + Default + 'static {
    /// The response to the request.
    type Response: prost::Message + Default + 'static;

    /// Answers the request, on a running member.
    fn answer(self, cluster: &mut EtcdCluster, member: u64) -> Result<Self::Response, EtcdError>;
}

/// Answers a call on a member. A member that does not run, or does not belong to the cluster any more, refuses every
/// call.
pub(crate) fn answer<C: Call>(
    call: C,
    cluster: &mut EtcdCluster,
    member: u64,
) -> Result<C::Response, EtcdError> {
    if !cluster.is_running(member) {
        return Err(EtcdError::Stopped);
    }
    call.answer(cluster, member)
}

impl Call for MemberListRequest {
    type Response = MembersResponse;

    fn answer(self, cluster: &mut EtcdCluster, member: u64) -> Result<MembersResponse, EtcdError> {
        // A linearizable read needs the leader; a serializable read uses the member's own state.
        if self.linearizable {
            cluster.leader().ok_or(EtcdError::NoLeader)?;
        }
        Ok(members(cluster, member))
    }
}

impl Call for MemberRemoveRequest {
    type Response = MembersResponse;

    fn answer(self, cluster: &mut EtcdCluster, member: u64) -> Result<MembersResponse, EtcdError> {
        cluster.remove_member(self.id)?;
        Ok(members(cluster, member))
    }
}

impl Call for MoveLeaderRequest {
    type Response = MoveLeaderResponse;

    fn answer(self, cluster: &mut EtcdCluster, member: u64) -> Result<MoveLeaderResponse, EtcdError> {
        cluster.move_leader(member, self.target_id)?;
        Ok(MoveLeaderResponse {
            header: Some(header(cluster, member)),
        })
    }
}

impl Call for AlarmRequest {
    type Response = AlarmResponse;

    /// Clients cannot raise alarms. Disarming an alarm succeeds, but its cause remains, so etcd raises it again at once.
    fn answer(self, cluster: &mut EtcdCluster, member: u64) -> Result<AlarmResponse, EtcdError> {
        // Even reading alarms goes through consensus.
        cluster.leader().ok_or(EtcdError::NoLeader)?;
        let is_meant = |id: u64, alarm: Alarm| {
            (self.member_id == 0 || self.member_id == id) && (self.alarm == 0 || self.alarm == alarm as i32)
        };
        let alarms = cluster.alarms().filter(|(id, alarm)| is_meant(*id, *alarm));
        let alarms = alarms.map(|(member_id, alarm)| AlarmMember {
            member_id,
            alarm: alarm as i32,
        });
        Ok(AlarmResponse {
            header: Some(header(cluster, member)),
            alarms: alarms.collect(),
        })
    }
}

impl Call for StatusRequest {
    type Response = StatusResponse;

    /// A member reports its status with or without a leader.
    fn answer(self, cluster: &mut EtcdCluster, member: u64) -> Result<StatusResponse, EtcdError> {
        // Each term begins with its own raft entry.
        let no_leader = cluster
            .leader()
            .is_none()
            .then(|| EtcdError::NoLeader.to_string());
        // As the text format of protobuf prints an AlarmMember, with which etcd fills this field.
        let alarms = cluster
            .alarms()
            .map(|(id, alarm)| format!("memberID:{id} alarm:{} ", alarm.name()));
        let index = cluster.term() + u64::try_from(cluster.revision()).unwrap_or_default();
        Ok(StatusResponse {
            header: Some(header(cluster, member)),
            version: VERSION.to_owned(),
            db_size: DATABASE_BYTES,
            leader: cluster.leader().unwrap_or(0),
            raft_index: index,
            raft_term: cluster.term(),
            raft_applied_index: index,
            // Clients before Cluster API 1.14 give up on any error in this field.
            errors: no_leader.into_iter().chain(alarms).collect(),
            db_size_in_use: DATABASE_BYTES / 2,
            is_learner: false,
            storage_version: STORAGE_VERSION.to_owned(),
            db_size_quota: QUOTA_BYTES,
            downgrade_info: Some(DowngradeInfo { enabled: false }),
        })
    }
}

fn header(cluster: &EtcdCluster, member: u64) -> ResponseHeader {
    ResponseHeader {
        cluster_id: cluster.id(),
        member_id: member,
        revision: cluster.revision(),
        raft_term: cluster.term(),
    }
}

fn members(cluster: &EtcdCluster, member: u64) -> MembersResponse {
    let members = cluster.listed().map(|member| Member {
        id: member.id,
        name: member.name.clone(),
        peer_urls: member.peer_urls.clone(),
        client_urls: member.client_urls.clone(),
        is_learner: false,
    });
    MembersResponse {
        header: Some(header(cluster, member)),
        members: members.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cluster;

    fn cluster(ids: &[u64]) -> EtcdCluster {
        let mut cluster = EtcdCluster::new(77);
        for &id in ids {
            let peer_urls = vec![format!("https://10.0.0.{id}:2380")];
            let client_urls = vec![format!("https://10.0.0.{id}:2379")];
            cluster.add_member(cluster::Member {
                id,
                name: format!("m{id}"),
                peer_urls,
                client_urls,
            });
        }
        cluster
    }

    const LINEARIZABLE: MemberListRequest = MemberListRequest { linearizable: true };

    #[test]
    fn members_are_the_same_whoever_is_asked_and_the_header_says_who() {
        let mut cluster = cluster(&[1, 2, 3]);
        let first = answer(LINEARIZABLE, &mut cluster, 1).unwrap();
        let second = answer(LINEARIZABLE, &mut cluster, 2).unwrap();
        assert_eq!(first.members, second.members);
        assert_eq!(
            first.members[2],
            Member {
                id: 3,
                name: "m3".to_owned(),
                peer_urls: vec!["https://10.0.0.3:2380".to_owned()],
                client_urls: vec!["https://10.0.0.3:2379".to_owned()],
                is_learner: false,
            }
        );
        let header = ResponseHeader {
            cluster_id: 77,
            member_id: 2,
            revision: 4,
            raft_term: 2,
        };
        assert_eq!(second.header, Some(header));
    }

    #[test]
    fn status_names_a_leader_that_is_a_member() {
        let mut cluster = cluster(&[4, 2]);
        let status = answer(StatusRequest {}, &mut cluster, 2).unwrap();
        assert_eq!((status.leader, &status.errors[..]), (4, &[][..]));
        assert_eq!((status.version.as_str(), status.raft_term), (VERSION, 2));
        assert!(status.db_size_in_use <= status.db_size && status.db_size < status.db_size_quota);
    }

    #[test]
    fn without_a_quorum_only_a_members_own_knowledge_is_told() {
        let mut cluster = cluster(&[1, 2]);
        cluster.set_running(2, false);
        assert_eq!(answer(LINEARIZABLE, &mut cluster, 1), Err(EtcdError::NoLeader));
        assert_eq!(
            answer(AlarmRequest::default(), &mut cluster, 1),
            Err(EtcdError::NoLeader)
        );
        assert_eq!(
            answer(MemberRemoveRequest { id: 2 }, &mut cluster, 1),
            Err(EtcdError::NoLeader)
        );
        let own = answer(MemberListRequest { linearizable: false }, &mut cluster, 1).unwrap();
        assert_eq!(own.members.len(), 2);
        let status = answer(StatusRequest {}, &mut cluster, 1).unwrap();
        assert_eq!(
            (status.leader, status.errors),
            (0, vec!["etcdserver: no leader".to_owned()])
        );
    }

    #[test]
    fn alarms_are_listed_while_their_cause_is_there() {
        let mut cluster = cluster(&[1, 2]);
        cluster.set_alarms(2, [Alarm::NoSpace, Alarm::Corrupt].into());
        let listed = |cluster: &mut EtcdCluster, request: AlarmRequest| {
            let alarms = answer(request, cluster, 1).unwrap().alarms;
            alarms
                .into_iter()
                .map(|alarm| (alarm.member_id, alarm.alarm))
                .collect::<Vec<_>>()
        };
        let disarm = AlarmRequest {
            action: 2,
            member_id: 2,
            alarm: 1,
        };
        assert_eq!(listed(&mut cluster, AlarmRequest::default()), [(2, 1), (2, 2)]);
        assert_eq!(listed(&mut cluster, disarm), [(2, 1)]);
        assert_eq!(listed(&mut cluster, AlarmRequest::default()), [(2, 1), (2, 2)]);
        let status = answer(StatusRequest {}, &mut cluster, 1).unwrap();
        assert_eq!(
            status.errors,
            ["memberID:2 alarm:NOSPACE ", "memberID:2 alarm:CORRUPT "]
        );
        cluster.set_alarms(2, BTreeSet::new());
        assert_eq!(listed(&mut cluster, AlarmRequest::default()), []);
    }

    #[test]
    fn list_of_members_may_omit_one_that_works() {
        let mut cluster = cluster(&[1, 2, 3]);
        cluster.set_hidden(2, true);
        let ids = |list: MembersResponse| list.members.iter().map(|member| member.id).collect::<Vec<_>>();
        for member in [1, 2] {
            assert_eq!(
                answer(LINEARIZABLE, &mut cluster, member).map(ids),
                Ok(vec![1, 3])
            );
        }
        cluster.move_leader(1, 2).unwrap();
        let status = answer(StatusRequest {}, &mut cluster, 3).unwrap();
        assert_eq!((status.leader, status.errors), (2, vec![]));
        cluster.set_hidden(2, false);
        assert_eq!(answer(LINEARIZABLE, &mut cluster, 1).map(ids), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn members_that_cannot_elect_have_no_leader() {
        let mut cluster = cluster(&[1, 2, 3]);
        cluster.set_can_elect(false);
        assert_eq!(answer(LINEARIZABLE, &mut cluster, 1), Err(EtcdError::NoLeader));
        cluster.set_can_elect(true);
        assert_eq!((cluster.leader(), cluster.term()), (Some(1), 3));
    }

    #[test]
    fn member_that_stopped_or_was_removed_answers_nothing() {
        let mut cluster = cluster(&[1, 2, 3]);
        cluster.set_running(3, false);
        assert_eq!(answer(StatusRequest {}, &mut cluster, 3), Err(EtcdError::Stopped));
        let left = answer(MemberRemoveRequest { id: 3 }, &mut cluster, 2).unwrap();
        assert_eq!(
            left.members.iter().map(|member| member.id).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(answer(LINEARIZABLE, &mut cluster, 3), Err(EtcdError::Stopped));
        // A member that removes itself still sends the response.
        assert_eq!(
            answer(MemberRemoveRequest { id: 1 }, &mut cluster, 1).map(|left| left.members.len()),
            Ok(1)
        );
        assert_eq!(answer(StatusRequest {}, &mut cluster, 1), Err(EtcdError::Stopped));
    }
}
