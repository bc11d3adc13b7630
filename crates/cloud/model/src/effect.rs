//! What a Fault does, as the field `effect` of its spec says it: an object with one field, which is read into the value that
//! everything behind it uses.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::{
    failure::FailureReason,
    stage::Stage,
    visible_effect::{BootstrapPhase, EtcdAlarm},
    written::{Fraction, GoDuration},
};

/// The status codes with which a Fault can answer requests.
pub const ERROR_CODES: [u16; 9] = [401, 403, 404, 409, 410, 429, 500, 503, 504];
/// The verbs of requests.
pub const REQUEST_VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
/// The verbs of requests that read.
pub const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// What a Fault does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultEffect {
    /// The cloud refuses an operation.
    Fail(Fail),
    /// An operation takes longer.
    Delay(Delay),
    /// A part of the cloud is down: the machines there freeze, and the cloud creates no new ones.
    Outage(Outage),
    /// The kubelet stops. Everything else on the machine works.
    NotReady {},
    /// The Node of the machine has a condition.
    NodeCondition(FaultyCondition),
    /// The machine runs, but nothing on it answers.
    Freeze {},
    /// The instance is gone, also after the Fault is deleted.
    Vanish {},
    /// The machine does not get past a stage of its start.
    Hold(Hold),
    /// The API servers of a workload cluster misbehave.
    ApiServer(ApiServerFault),
    /// The etcd of a workload cluster misbehaves.
    Etcd(EtcdFault),
    /// The API server on a control plane machine presents a certificate that expires early.
    Certificate(CertificateFault),
    /// The load balancer of a workload cluster misbehaves.
    LoadBalancer(LoadBalancerFault),
    /// The Node of the machine has the provider ID of no machine.
    #[serde(rename = "wrongProviderID")]
    WrongProviderId {},
    /// The kubelet falls silent and reports in turn.
    Flap(FlapTurns),
    /// The cloud says that an instance or a load balancer is deleted, and it still exists.
    Leak {},
    /// The cloud takes instances of the market Spot back, after a notice.
    SpotReclaim(SpotReclaim),
    /// kubeadm fails on the machine.
    Bootstrap(BootstrapFault),
    /// The clock of the machine is wrong.
    ClockSkew(ClockSkewFault),
    /// Reads do not show for a while what an operation has changed.
    Lag(Delay),
    /// A creation is carried out, no answer comes, and its repetition creates a second instance.
    Duplicate(Duplicate),
    /// Pools hand out addresses late, or not at all.
    Addresses(AddressFault),
    /// The instance reboots, and its kubelet registers a Node with another name.
    NodeRebootsAs(NodeReboot),
}

impl FaultEffect {
    /// Whether the IPAM provider carries it out. If not, the infrastructure provider does.
    #[must_use]
    pub fn is_of_addresses(&self) -> bool {
        matches!(self, Self::Addresses(_))
    }
}

/// The cloud refuses an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fail {
    /// The reason, which conditions show.
    pub reason: FailureReason,
    /// More words for the message of the condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the manager tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<GoDuration>,
}

/// Something takes longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delay {
    /// By at least this time.
    pub duration: GoDuration,
    /// The largest random addition, as a fraction of the duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Fraction>,
}

impl Delay {
    /// The largest random addition, as a fraction of the duration.
    #[must_use]
    pub fn jitter(&self) -> f64 {
        self.jitter.as_ref().map(Fraction::get).unwrap_or_default()
    }

    /// The largest random addition, in millionths of the duration.
    #[must_use]
    pub fn jitter_per_million(&self) -> u32 {
        self.jitter
            .as_ref()
            .map(Fraction::per_million)
            .unwrap_or_default()
    }
}

/// A part of the cloud is down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// When the manager tries again to create a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<GoDuration>,
}

/// A condition that the Node of a machine has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultyCondition {
    /// Its type, such as `DiskPressure`.
    #[serde(rename = "type", deserialize_with = "condition_type")]
    pub kind: String,
    /// Whether the Node has what the type says.
    pub status: ConditionStatus,
    /// Its reason; by default `SimulatedFault`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its message, to which the name of the Fault is added.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition is there.
    True,
    /// The condition is not there.
    False,
    /// It cannot be told.
    Unknown,
}

impl ConditionStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::True, Self::False, Self::Unknown];

    /// Its name in Kubernetes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A machine does not get past a stage of its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The stage that it does not reach.
    #[serde(with = "stage_name")]
    pub stage: Stage,
}

/// The API servers of a workload cluster misbehave, for some requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "ApiServerFields")]
pub struct ApiServerFault {
    /// What happens to the requests.
    #[serde(flatten)]
    pub effect: ApiServerEffect,
    /// The verbs of the requests; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// The resources of the requests, such as `nodes`. If empty all, and those without a resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
}

/// What happens to requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApiServerEffect {
    /// No API server is in service.
    Down {},
    /// Requests are answered with an error.
    Error(RequestError),
    /// Requests are answered late.
    Latency(Delay),
    /// The connections of watches break.
    CutWatches(CutWatches),
    /// Reads see the objects as they were when the Fault hit the cluster.
    StaleReads {},
}

/// The fields of an [`ApiServerFault`], before it is known that exactly one of them says what happens.
#[derive(Deserialize)]
struct ApiServerFields {
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(flatten)]
    effect: Map<String, Value>,
}

impl TryFrom<ApiServerFields> for ApiServerFault {
    type Error = String;

    fn try_from(fields: ApiServerFields) -> Result<Self, String> {
        let ApiServerFields {
            verbs,
            resources,
            effect,
        } = fields;
        if effect.len() != 1 {
            return Err("not exactly one of down, error, latency, cutWatches and staleReads".to_owned());
        }
        let effect = serde_json::from_value(Value::Object(effect)).map_err(|error| error.to_string())?;
        let unfit = verbs.iter().find(|verb| !READ_VERBS.contains(&verb.as_str()));
        match unfit.filter(|_| matches!(effect, ApiServerEffect::StaleReads {})) {
            Some(verb) => Err(format!("the verb {verb:?} is not get, list or watch")),
            None => Ok(Self {
                effect,
                verbs,
                resources,
            }),
        }
    }
}

/// Requests are answered with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestError {
    /// The status code of the answers, one of [`ERROR_CODES`].
    #[serde(deserialize_with = "error_code")]
    pub code: u16,
    /// The probability that a request fails; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<Fraction>,
}

/// The connections of watches break.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutWatches {
    /// The time from the beginning of a watch.
    pub after: GoDuration,
}

/// The etcd of a workload cluster misbehaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EtcdFault {
    /// The members of control plane machines raise this alarm.
    Alarm(EtcdAlarm),
    /// The members cannot elect a leader.
    NoLeader {},
    /// All calls are answered late.
    Slow(Delay),
    /// The member list omits the members of control plane machines.
    HiddenMember {},
}

/// A certificate expires early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CertificateFault {
    /// It expires after this time.
    ExpiresIn(GoDuration),
    /// It has expired.
    Expired {},
}

/// The load balancer of a workload cluster misbehaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoadBalancerFault {
    /// New connections are accepted and closed at once.
    NoBackends {},
    /// New connections reach a server of another cluster.
    WrongBackends {},
    /// Connections break off.
    Reset(ConnectionReset),
}

/// Connections break off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionReset {
    /// The time until a connection breaks.
    pub after: GoDuration,
    /// The probability that a connection breaks; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<Fraction>,
}

/// How long a kubelet reports and is silent in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlapTurns {
    /// How long it reports before it is silent.
    #[serde(deserialize_with = "turn")]
    pub up: GoDuration,
    /// How long it is silent.
    #[serde(deserialize_with = "turn")]
    pub down: GoDuration,
}

/// The cloud takes instances back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpotReclaim {
    /// The time between the notice and the end of an instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<GoDuration>,
}

/// kubeadm fails on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapFault {
    /// The phase in which it fails.
    #[serde(with = "phase_name")]
    pub failed_phase: BootstrapPhase,
}

/// The clock of a machine is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClockSkewFault {
    /// It is ahead by this time.
    Ahead(GoDuration),
    /// It is behind by this time.
    Behind(GoDuration),
}

/// A machine is created twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Duplicate {
    /// When the manager repeats the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<GoDuration>,
}

/// Pools hand out addresses late, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AddressFault {
    /// A claim gets its address this time after it was created.
    Slow(Delay),
    /// A claim that has no address gets none.
    Exhausted {},
    /// The address that a claim would get is in use outside of the pool.
    Conflict {},
    /// An address is held back after its claim was deleted.
    LateRelease(LateRelease),
}

/// An address is held back after its claim was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LateRelease {
    /// The time from the deletion of the claim.
    pub duration: GoDuration,
}

/// An instance reboots, and its kubelet registers a Node with another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReboot {
    /// What the name of the second Node has in addition to that of the first one.
    #[serde(deserialize_with = "name_suffix")]
    pub name_suffix: String,
    /// How long the instance is down, in the time of its cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_for: Option<GoDuration>,
}

fn refused<E: de::Error>(value: &(impl fmt::Debug + ?Sized), expected: &str) -> E {
    E::custom(format_args!("{value:?} is not {expected}"))
}

fn condition_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let kind = String::deserialize(deserializer)?;
    if kind.is_empty() {
        Err(refused(&kind, "the type of a condition"))
    } else {
        Ok(kind)
    }
}

fn error_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let code = i64::deserialize(deserializer)?;
    let known = ERROR_CODES.into_iter().find(|known| i64::from(*known) == code);
    known.ok_or_else(|| refused(&code, "a status code of an error"))
}

fn turn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GoDuration, D::Error> {
    let turn = GoDuration::deserialize(deserializer)?;
    if turn.get() < crate::schedule::TURN_MIN {
        return Err(refused(turn.as_str(), "at least 1s"));
    }
    Ok(turn)
}

fn name_suffix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let suffix = String::deserialize(deserializer)?;
    let is_of_name = |c: char| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit();
    if !suffix.chars().all(is_of_name) || !suffix.ends_with(|c| c != '-') {
        return Err(refused(&suffix, "the end of the name of a Node"));
    }
    Ok(suffix)
}

/// A stage by its name on a machine. Journals have other names of stages.
mod stage_name {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::stage::Stage;

    pub(super) fn serialize<S: Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(stage.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stage, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Stage::ALL.into_iter().find(|stage| stage.as_str() == name);
        found.ok_or_else(|| super::refused(&name, "a stage of a machine's start"))
    }
}

/// A phase by its name in kubeadm. Journals have other names of phases.
mod phase_name {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::visible_effect::BootstrapPhase;

    pub(super) fn serialize<S: Serializer>(phase: &BootstrapPhase, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(phase.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BootstrapPhase, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = BootstrapPhase::ALL
            .into_iter()
            .find(|phase| phase.as_str() == name);
        found.ok_or_else(|| super::refused(&name, "a phase of kubeadm"))
    }
}

#[cfg(test)]
mod tests;
