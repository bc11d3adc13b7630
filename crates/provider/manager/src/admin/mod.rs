//! The manager's own endpoints: health for the kubelet, metrics for Prometheus, the journal and checkpoints for people.

pub(crate) mod certificate;
pub(crate) mod checkpoint;
pub(crate) mod diagnostics;
pub(crate) mod health;
pub(crate) mod journal;
mod namespace;
pub(crate) mod places;
pub(crate) mod reviews;
pub(crate) mod serve;
pub(crate) mod visitors;
