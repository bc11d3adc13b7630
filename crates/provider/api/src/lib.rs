//! The kinds of the simulated cloud, and the parts that we read of Cluster API's own kinds.
//!
//! ```text
//!  infrastructure::v1beta2, v1beta1 ── InMemoryCluster, InMemoryMachine, their templates ──crds()──▶ config/crd
//!  cloud::v1alpha1 ── SimulatedCloud ──crds()──▶ config/crd
//!  ipam::v1alpha2, v1alpha1 ── InClusterIPPool, InClusterPrefixPool, their global twins ──crds()──▶ config/crd
//!  ipam::v1beta2 ── IPAddressClaim, IPAddress, Cluster API's own, trimmed
//!  core ── Cluster, Machine, trimmed: only read and patched, never written whole
//!  conditions · labels · names · finalizers · start_up ── the words and values both sides share
//! ```
//!
//! What it must not know: clients, controllers, clocks. It is data, schemas and pure functions over them.
//!
//! A duration, a fraction, a rate or an effect is read when its object is read, into a type of `nephele_model`. Of an object
//! with a field that cannot be read, `nephele-controller` reads the rest and names the field. Other fields that the schema restricts are plain
//! strings and numbers, which the code that uses them checks: an object can get past a schema.

// The attributes of the derives have `type_` in each column, which clippy reports as a repeated attribute.
#![allow(clippy::duplicated_attributes)]

pub mod cloud;
pub mod conditions;
pub mod core;
mod definitions;
pub mod finalizers;
mod host_port;
pub mod infrastructure;
pub mod ipam;
pub mod labels;
pub mod names;
mod schema;
mod start_up;

pub use definitions::crds;
