//! What a fault does to machines and clusters.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    request_effect::{ApiServerRequestEffect, LoadBalancerEffect},
    stage::Stage,
    time::SimTime,
    time_dependent::{EarlyExpiry, Flap, OtherName},
};

/// What is wrong with a machine or a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VisibleEffect {
    /// The kubelet does not report any more. Everything else on the machine works.
    NotReady,
    /// The Node has this condition.
    NodeCondition(NodeCondition),
    /// The machine runs, but nothing on it answers: kubelet, API server and etcd.
    Frozen,
    /// The instance is gone for good.
    Vanished,
    /// The cloud takes a spot instance back: after this time it has vanished.
    SpotReclaim(Duration),
    /// The machine does not get past a stage of its start.
    Held(Stage),
    /// kubeadm fails in this phase, so that the machine does not get past a stage of its start.
    BootstrapFailed(BootstrapPhase),
    /// The clock of the machine is wrong.
    ClockSkew(ClockSkew),
    /// The API servers of the cluster misbehave.
    ApiServer(ApiServerRequestEffect),
    /// The etcd member on the machine raises an alarm.
    EtcdAlarm(EtcdAlarm),
    /// The etcd members of the cluster cannot elect a leader.
    EtcdWithoutLeader,
    /// The etcd members of the cluster answer late.
    EtcdSlow {
        /// By at least this time.
        base: Duration,
        /// How much may be added at random, in millionths of `base`.
        jitter_per_million: u32,
    },
    /// The member list omits the etcd member on the machine.
    EtcdMemberHidden,
    /// The API server on the machine presents a certificate that expires early.
    Certificate(EarlyExpiry),
    /// The load balancer of the cluster misbehaves.
    LoadBalancer(LoadBalancerEffect),
    /// The Node has the provider ID of no machine.
    WrongProviderId,
    /// The kubelet is silent and reports in turn.
    Flapping(Flap),
    /// The instance reboots. When it is up again, its kubelet has another name.
    Rebooting {
        /// How long it is down, in the time of the cloud.
        down_for: Duration,
        name: OtherName,
    },
    /// The kubelet has registered a second Node, and reports for that one only.
    OtherName(OtherName),
}

/// A phase of kubeadm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootstrapPhase {
    /// The checks before anything is changed.
    Preflight,
    /// The kubelet is configured and started.
    KubeletStart,
    /// The etcd member joins its cluster.
    EtcdJoin,
    /// kubeadm waits until the API server on the machine is ready.
    WaitControlPlane,
}

impl BootstrapPhase {
    /// All phases, in the order in which kubeadm passes them.
    pub const ALL: [Self; 4] = [
        Self::Preflight,
        Self::KubeletStart,
        Self::EtcdJoin,
        Self::WaitControlPlane,
    ];

    /// Its name in kubeadm.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preflight => "preflight",
            Self::KubeletStart => "kubelet-start",
            Self::EtcdJoin => "etcd-join",
            Self::WaitControlPlane => "wait-control-plane",
        }
    }

    /// The stages of a machine's start that are not reached without it, the first one first.
    fn stages(self) -> &'static [Stage] {
        match self {
            Self::Preflight | Self::KubeletStart => &[Stage::Node, Stage::Etcd, Stage::ApiServer],
            Self::EtcdJoin => &[Stage::Etcd, Stage::ApiServer],
            Self::WaitControlPlane => &[Stage::ApiServer],
        }
    }
}

/// How far the clock of a machine is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockSkew {
    /// It is ahead by this time.
    Ahead(Duration),
    /// It is behind by this time.
    Behind(Duration),
}

/// An alarm of an etcd member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EtcdAlarm {
    /// The member has used up the space for its database.
    NoSpace,
    /// The data of the member is corrupt.
    Corrupt,
}

impl EtcdAlarm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::NoSpace, Self::Corrupt];
}

/// A condition of a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCondition {
    /// Its type, such as `DiskPressure`.
    pub kind: String,
    /// Its status: `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl fmt::Display for VisibleEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("The kubelet does not report"),
            Self::NodeCondition(NodeCondition { kind, status, .. }) => {
                write!(f, "The Node has condition {kind}={status}")
            }
            Self::Frozen => f.write_str("Nothing on the machine answers"),
            Self::Vanished => f.write_str("The instance is gone"),
            Self::SpotReclaim(notice) => {
                write!(f, "The cloud takes the spot instance back in {notice:?}")
            }
            Self::Held(stage) => write!(f, "The machine does not reach stage {}", stage.name()),
            Self::BootstrapFailed(phase) => write!(f, "kubeadm fails in phase {}", phase.as_str()),
            Self::ClockSkew(ClockSkew::Ahead(time)) => {
                write!(f, "The clock of the machine is {time:?} ahead")
            }
            Self::ClockSkew(ClockSkew::Behind(time)) => {
                write!(f, "The clock of the machine is {time:?} behind")
            }
            Self::ApiServer(_) => f.write_str("The API servers misbehave"),
            Self::EtcdAlarm(EtcdAlarm::NoSpace) => f.write_str("The etcd member raises alarm NOSPACE"),
            Self::EtcdAlarm(EtcdAlarm::Corrupt) => f.write_str("The etcd member raises alarm CORRUPT"),
            Self::EtcdWithoutLeader => f.write_str("The etcd members have no leader"),
            Self::EtcdSlow { .. } => f.write_str("The etcd members answer late"),
            Self::EtcdMemberHidden => f.write_str("The member list omits the etcd member"),
            Self::Certificate(EarlyExpiry {
                expires_in: Duration::ZERO,
                ..
            }) => f.write_str("The certificate of the API server has expired"),
            Self::Certificate(_) => f.write_str("The certificate of the API server expires early"),
            Self::LoadBalancer(LoadBalancerEffect::NoBackends) => {
                f.write_str("The load balancer has no backends")
            }
            Self::LoadBalancer(LoadBalancerEffect::WrongBackends) => {
                f.write_str("The load balancer has backends of another cluster")
            }
            Self::LoadBalancer(LoadBalancerEffect::Reset { .. }) => {
                f.write_str("Connections to the load balancer break off")
            }
            Self::WrongProviderId => f.write_str("The Node has a wrong provider ID"),
            Self::Flapping(_) => f.write_str("The kubelet falls silent in turn"),
            Self::Rebooting { .. } => f.write_str("The instance reboots"),
            Self::OtherName(name) => write!(f, "The kubelet has the suffix {} in its name", name.suffix),
        }
    }
}

impl VisibleEffect {
    /// The field of a Fault's effect that causes it.
    #[must_use]
    pub fn effect(&self) -> &'static str {
        match self {
            Self::NotReady => "notReady",
            Self::NodeCondition(_) => "nodeCondition",
            Self::Frozen => "freeze",
            Self::Vanished => "vanish",
            Self::SpotReclaim(_) => "spotReclaim",
            Self::Held(_) => "hold",
            Self::BootstrapFailed(_) => "bootstrap",
            Self::ClockSkew(_) => "clockSkew",
            Self::ApiServer(_) => "apiServer",
            Self::EtcdAlarm(_) | Self::EtcdWithoutLeader | Self::EtcdSlow { .. } | Self::EtcdMemberHidden => {
                "etcd"
            }
            Self::Certificate(_) => "certificate",
            Self::LoadBalancer(_) => "loadBalancer",
            Self::WrongProviderId => "wrongProviderID",
            Self::Flapping(_) => "flap",
            Self::Rebooting { .. } | Self::OtherName(_) => "nodeRebootsAs",
        }
    }

    /// The stages that a machine does not reach because of it, the first one first.
    #[must_use]
    pub fn held_stages(&self) -> &[Stage] {
        match self {
            Self::Held(stage) => std::slice::from_ref(stage),
            Self::BootstrapFailed(phase) => phase.stages(),
            _ => &[],
        }
    }

    /// Whether nothing on the machine answers.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Frozen | Self::Vanished | Self::Rebooting { .. })
    }

    /// Its JSON. Journals have it, and digests are made of it, so it never changes.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("no map, no foreign type")
    }

    /// The visible effect of a fault that began at this time.
    #[must_use]
    pub fn begun(self, began: SimTime) -> Self {
        match self {
            Self::Certificate(early) => Self::Certificate(early.begun(began)),
            Self::Flapping(flap) => Self::Flapping(flap.begun(began)),
            Self::Rebooting { down_for, name } => Self::Rebooting {
                down_for,
                name: name.begun(began),
            },
            Self::OtherName(name) => Self::OtherName(name.begun(began)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_effect::ApiServerRequestEffectKind;

    /// Journals have these texts, and digests are made of them.
    fn assert_texts<const N: usize>(texts: [(VisibleEffect, &str); N]) {
        for (visible_effect, text) in texts {
            assert_eq!(visible_effect.text(), text);
            assert_eq!(
                serde_json::from_str::<VisibleEffect>(text).expect("a visible effect"),
                visible_effect
            );
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);
    const BEGAN: SimTime = SimTime::from_millis(1_500);

    #[test]
    fn texts_for_machines_never_change() {
        let condition = NodeCondition {
            kind: "DiskPressure".into(),
            status: "True".into(),
            reason: "Full".into(),
            message: "\"quoted\"".into(),
        };
        let condition_text = r#"{"NodeCondition":{"kind":"DiskPressure","status":"True","reason":"Full","message":"\"quoted\""}}"#;
        let ahead = ClockSkew::Ahead(MINUTE);
        let behind = ClockSkew::Behind(Duration::from_millis(1));
        let reboots = VisibleEffect::Rebooting {
            down_for: MINUTE,
            name: OtherName::new("-2"),
        };
        let reboots_text =
            r#"{"Rebooting":{"down_for":{"secs":60,"nanos":0},"name":{"suffix":"-2","began":1500}}}"#;
        let flaps = VisibleEffect::Flapping(Flap::new(MINUTE, 2 * MINUTE));
        let flaps_text =
            r#"{"Flapping":{"down":{"secs":60,"nanos":0},"up":{"secs":120,"nanos":0},"began":null}}"#;
        let early = VisibleEffect::Certificate(EarlyExpiry::new(MINUTE));
        let early_text = r#"{"Certificate":{"expires_in":{"secs":60,"nanos":0},"began":null}}"#;
        assert_texts([
            (VisibleEffect::NotReady, r#""NotReady""#),
            (VisibleEffect::NodeCondition(condition), condition_text),
            (VisibleEffect::Frozen, r#""Frozen""#),
            (VisibleEffect::Vanished, r#""Vanished""#),
            (
                VisibleEffect::SpotReclaim(MINUTE),
                r#"{"SpotReclaim":{"secs":60,"nanos":0}}"#,
            ),
            (
                VisibleEffect::ClockSkew(ahead),
                r#"{"ClockSkew":{"Ahead":{"secs":60,"nanos":0}}}"#,
            ),
            (
                VisibleEffect::ClockSkew(behind),
                r#"{"ClockSkew":{"Behind":{"secs":0,"nanos":1000000}}}"#,
            ),
            (
                VisibleEffect::EtcdAlarm(EtcdAlarm::NoSpace),
                r#"{"EtcdAlarm":"NoSpace"}"#,
            ),
            (
                VisibleEffect::EtcdAlarm(EtcdAlarm::Corrupt),
                r#"{"EtcdAlarm":"Corrupt"}"#,
            ),
            (VisibleEffect::EtcdMemberHidden, r#""EtcdMemberHidden""#),
            (early, early_text),
            (VisibleEffect::WrongProviderId, r#""WrongProviderId""#),
            (flaps, flaps_text),
            (reboots.begun(BEGAN), reboots_text),
            (
                VisibleEffect::OtherName(OtherName::new("-2")),
                r#"{"OtherName":{"suffix":"-2","began":null}}"#,
            ),
        ]);
    }

    #[test]
    fn texts_for_the_start_of_machines_never_change() {
        let stages = Stage::ALL.into_iter().zip(["Vm", "Node", "Etcd", "ApiServer"]);
        for (stage, name) in stages {
            assert_texts([(VisibleEffect::Held(stage), &format!(r#"{{"Held":"{name}"}}"#))]);
        }
        let names = ["Preflight", "KubeletStart", "EtcdJoin", "WaitControlPlane"];
        for (phase, name) in BootstrapPhase::ALL.into_iter().zip(names) {
            let text = format!(r#"{{"BootstrapFailed":"{name}"}}"#);
            assert_texts([(VisibleEffect::BootstrapFailed(phase), &text)]);
        }
    }

    #[test]
    fn texts_for_clusters_never_change() {
        use ApiServerRequestEffectKind::{Cut, Down, Error, Latency, Stale};
        let kinds = [
            (Down, r#""Down""#),
            (
                Error {
                    code: 503,
                    per_million: 5,
                },
                r#"{"Error":{"code":503,"per_million":5}}"#,
            ),
            (
                Latency {
                    base: MINUTE,
                    jitter_per_million: 5,
                },
                r#"{"Latency":{"base":{"secs":60,"nanos":0},"jitter_per_million":5}}"#,
            ),
            (
                Cut { after: MINUTE },
                r#"{"Cut":{"after":{"secs":60,"nanos":0}}}"#,
            ),
            (Stale, r#""Stale""#),
        ];
        for (kind, kind_text) in kinds {
            let request_effect = ApiServerRequestEffect {
                verbs: vec!["list".into()],
                resources: vec!["nodes".into()],
                kind,
            };
            let text =
                format!(r#"{{"ApiServer":{{"verbs":["list"],"resources":["nodes"],"kind":{kind_text}}}}}"#);
            assert_texts([(VisibleEffect::ApiServer(request_effect), &text)]);
        }
        let slow = VisibleEffect::EtcdSlow {
            base: MINUTE,
            jitter_per_million: 5,
        };
        let reset = LoadBalancerEffect::Reset {
            after: MINUTE,
            per_million: 5,
        };
        assert_texts([
            (VisibleEffect::EtcdWithoutLeader, r#""EtcdWithoutLeader""#),
            (
                slow,
                r#"{"EtcdSlow":{"base":{"secs":60,"nanos":0},"jitter_per_million":5}}"#,
            ),
            (
                VisibleEffect::LoadBalancer(LoadBalancerEffect::NoBackends),
                r#"{"LoadBalancer":"NoBackends"}"#,
            ),
            (
                VisibleEffect::LoadBalancer(LoadBalancerEffect::WrongBackends),
                r#"{"LoadBalancer":"WrongBackends"}"#,
            ),
            (
                VisibleEffect::LoadBalancer(reset),
                r#"{"LoadBalancer":{"Reset":{"after":{"secs":60,"nanos":0},"per_million":5}}}"#,
            ),
        ]);
    }
}
