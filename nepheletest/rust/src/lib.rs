//! Starts Nephele for a test: a management API for Cluster API and workload clusters, in one process that needs no
//! Kubernetes and no containers.
//!
//! ```no_run
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::Api;
//! # use nepheletest::Nephele;
//! # fn start_my_controller(management: kube::Client) {}
//! # async fn add_on_is_installed() -> Result<(), Box<dyn std::error::Error>> {
//! let nephele = Nephele::builder().file("tests/clusters.yaml").start().await?;
//! start_my_controller(nephele.client()?);
//!
//! let small = nephele.wait_for_cluster("default", "small").await?;
//! let config_maps = Api::<ConfigMap>::namespaced(small.client()?, "kube-system");
//! nephele.wait_until("the add-on is installed", async || config_maps.get("add-on").await).await?;
//! nephele.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The program is the one that the environment variable `NEPHELE` names, or else `nephele` on `PATH`.
//!
//! # Break and steer
//!
//! A test breaks the cloud with a [`Fault`], and steers it with [`Nephele::scenario`], [`Nephele::clock`],
//! [`Nephele::checkpoint`] and [`Nephele::restore`]. [`Nephele::calls`] reads what a controller caused.
//!
//! ```no_run
//! # use nepheletest::Nephele;
//! # fn start_my_controller(management: kube::Client) {}
//! # async fn cluster_has_its_records(nephele: &Nephele) -> Result<(), Box<dyn std::error::Error>> {
//! let effect = "apiServer: {latency: {duration: 1h}}";
//! let silence = nephele.fault(effect, &["--target", "small"]).await?;
//! start_my_controller(nephele.client()?);
//! // … what the controller has to do meanwhile
//! silence.heal().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The end of Nephele
//!
//! ```text
//!  test process                         nephele up --json
//!    Nephele ──── life line (pipe) ────▶ standard input: ends when it closes
//!    threads ◀─── report, errors ─────── standard output and error
//!    clients ──── HTTPS ───────────────▶ management API, workload clusters
//! ```
//!
//! [`Nephele::stop`] closes the life line, waits, and reports errors. Dropping a [`Nephele`] only closes the life line:
//! it never blocks, and the program ends by itself within moments. When the test process is killed, the kernel closes
//! the life line.
//!
//! # Runtimes
//!
//! Each `#[tokio::test]` has a runtime of its own. A [`Nephele`] uses none: it can outlive the runtime that started it,
//! so one in a [`tokio::sync::OnceCell`] can serve all tests of a program. A client does not outlive its runtime:
//! [`Nephele::client`] and [`Cluster::client`] make a new one for the runtime that calls them.
//!
//! Locals are dropped in the reverse order of their declaration. So a controller that is declared after its [`Nephele`]
//! ends before it, and does not see its API server go away.

mod builder;
mod cluster;
mod command;
mod debug;
mod fault;
mod log;
mod nephele;
mod objects;
mod output;
mod process;
mod program;
mod report;
mod settings;
mod start_error;
mod steering;
mod unnamed;
mod wait;

pub use builder::Builder;
pub use cluster::{Cluster, ClusterError, Machine};
pub use command::CommandError;
pub use fault::{Fault, FaultError};
pub use nephele::{Nephele, StopError};
pub use process::Ended;
pub use start_error::StartError;
pub use steering::Record;
pub use wait::{LastSeen, WaitError};
