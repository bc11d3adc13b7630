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
mod decisions;
mod failure;
pub mod effect;
mod market;
mod odds;
mod schedule;
mod selector;
mod stage;
mod symptom;
mod time;
mod timed;
mod trouble;
mod verb;
mod written;

pub use budget::{Budget, FaultPhase, FaultRecord};
pub use caller::Caller;
pub use decisions::{Decided, Decisions, Earlier, LastHits, SKIPPED_MAX, Turn};
pub use effect::FaultEffect;
pub use failure::FailureReason;
pub use market::Market;
pub use odds::Odds;
pub use schedule::{Schedule, TURN_MIN, Window};
pub use selector::{Requirement, Selector};
pub use stage::{Role, Stage, StageName};
pub use symptom::{BootstrapPhase, ClockSkew, EtcdAlarm, NodeCondition, Symptom};
pub use time::SimTime;
pub use timed::{EarlyExpiry, Flap, OtherName};
pub use trouble::{ApiServerTrouble, ApiServerTroubleKind, LoadBalancerTrouble};
pub use verb::Verb;
pub use written::{Fraction, FractionError, GoDuration};
