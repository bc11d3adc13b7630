//! The running cloud: the shell around the engine.
//!
//! ```text
//!  infra ──ensure, observe, delete──▶ Cloud ──apply, poll──▶ engine
//!    ▲                                                         │ journal
//!    └────────── ids that changed ◀───── follower of a cluster ◀┘
//!                                       ▼
//!                       projection ─▶ store ◀─ ApiServer ◀─ listener (TLS) ◀─ Cluster API, kubectl
//!                                     etcd  ◀─ tunnel (port-forward, TLS) ◀──┘
//! ```
//!
//! It owns everything that touches the outside: the clock, listeners, certificates in use, connections. The engine
//! decides what happens and when. The projection, a set of pure functions, decides what a cluster looks like. The crate
//! knows nothing of Cluster API's objects: `infra` uses the crate's own types and reads everything back by observing.

mod active_effect;
mod allocation;
mod backend;
mod certificates;
mod checkpoint;
mod checkpoints;
mod cidr;
mod clock;
mod cloud;
mod cloud_metrics;
mod cloud_spec;
mod cluster;
mod cluster_server;
mod connection;
mod content;
mod cost;
mod driver;
mod error;
mod etcd_delay;
mod fault;
mod follower;
mod frontend;
mod identity;
mod journal;
mod leaks;
mod listener;
mod load_balancer;
mod metrics;
mod namespace_metrics;
mod network;
mod observation;
mod operation_times;
mod persisted;
mod port_metrics;
mod ports;
mod projection;
mod request_effect;
mod serve;
mod spec;
mod time_dependent;
mod tls;
mod touched;
mod tunnel;
mod user_data;

pub use active_effect::active_effect_of;
pub use backend::{Backend, OutOfService, OutOfServiceReason};
pub use checkpoint::{ClusterObjects, ObjectRecord, PutBackError};
pub use clock::{ClockObservation, WallClock};
pub use cloud::{Cloud, CloudConfig};
pub use cloud_spec::{CloudObservation, CloudRecord};
pub use cost::CostObservation;
pub use error::{CallError, ClusterError, MachineError, StartError};
pub use fault::{Affected, FaultHistory, FaultHit, FaultObservation};
pub use identity::MachineAddress;
pub use journal::{JournalFilter, JournalLine, JournalReader, RecentRecords};
pub use nephele_engine::{
    ApiLimits, CallerMistakes, CapacityUsage, ClockSetting, CloudSpec, Effect, Fault, Footprint, Hardware,
    Latencies, Latency, Leaked, MistakesByCaller, Model, Rate, Seed, Spent,
};
pub use nephele_pki::{Authority, AuthorityError};
pub use network::{InProcess, Network};
pub use observation::{
    Changed, ClusterObservation, Deletion, LoadBalancer, MachineObservation, StageObservation,
    UpdateObservation,
};
pub use projection::DNS_IMAGE_TAG;
pub use spec::{
    Allocation, Authorities, ClusterSpec, Files, MachineSpec, MachineUpdate, PreviousCluster,
    PreviousMachine, Software,
};
pub use user_data::{Kubeadm, KubeadmCluster, Taint, read_user_data};
