//! The values that the engine, the cloud and the controllers share.
//!
//! A value has one type from where it is parsed to where it has its effect, so this crate is below all of them. Its functions
//! decide from their arguments alone.
//!
//! The crate knows no other crate of ours, no I/O, no clock, no source of entropy and no Kubernetes.

pub mod as_bits;
pub mod as_text;
mod budget;
mod caller;
mod capacity;
mod cloud_error;
mod decisions;
mod distribution;
pub mod effect;
mod failure;
mod identity;
mod image;
mod instance_type;
mod market;
mod matches;
pub mod name_patterns;
mod object_id;
mod odds;
mod quotas;
mod request_effect;
mod schedule;
mod selector;
mod stage;
mod steps;
mod time;
mod time_dependent;
mod verb;
mod visible_effect;
mod written;

pub use budget::{Budget, FaultPhase, FaultRecord};
pub use caller::Caller;
pub use capacity::{Capacity, Quota};
pub use cloud_error::{CallRate, CloudError, ErrorClass, HiddenBy};
pub use decisions::{Decided, Decisions, Earlier, LastHits, SKIPPED_MAX, Turn};
pub use distribution::Distribution;
pub use effect::FaultEffect;
pub use failure::FailureReason;
pub use identity::{Endpoint, ResourceId, ResourceKind, SeedKey};
pub use image::Image;
pub use instance_type::{Gpu, InstanceType};
pub use market::Market;
pub use matches::Matches;
pub use object_id::{ClusterId, FaultId, MachineId};
pub use odds::Odds;
pub use quotas::{Quotas, Stock};
pub use request_effect::{ApiServerRequestEffect, ApiServerRequestEffectKind, LoadBalancerEffect};
pub use schedule::{Schedule, TURN_MIN, Window};
pub use selector::{LabelSelector, Requirement, Selector};
pub use stage::{Role, Stage, StageName};
pub use steps::count_step;
#[cfg(debug_assertions)]
pub use steps::steps;
pub use time::SimTime;
pub use time_dependent::{EarlyExpiry, Flap, OtherName};
pub use verb::Verb;
pub use visible_effect::{BootstrapPhase, ClockSkew, EtcdAlarm, NodeCondition, VisibleEffect};
pub use written::{Amount, AmountError, ClockRate, ClockRateError, Fraction, FractionError, GoDuration};
