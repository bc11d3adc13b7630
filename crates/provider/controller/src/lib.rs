//! The code that all controllers of Nephele share: the loop around a reconcile function, with its watches, metrics,
//! backoff, Events and leader election.
//!
//! ```text
//!  management API ──watch──▶ Cache (trimmed store) ──touched──┐
//!        │                                                    ▼
//!        └──────────watch──▶ Runner ──▶ reconcile(object) ──▶ Outcome | error
//!                              │  span, metrics, panic guard      │
//!                              │  Failures: backoff per object ◀──┤
//!                              └─ Events: bounded, de-duplicated ◀┘
//!  patch · finalizer ──merge patches, skipped when equal──▶ management API
//!  lease ──one leader among replicas──▶ management API
//!  fence ──closes when the lease is lost──▶ nothing of a former leader reaches the management API
//!  guard ──refuses names that change a path──▶ only requests that were meant reach the management API
//! ```
//!
//! The crate depends neither on the simulated cloud nor on any of our kinds: only reconcile functions use both. It
//! reads no argument and no environment variable.

mod backoff;
mod by_namespace;
mod clock;
mod events;
mod external;
mod failures;
mod fence;
mod filter;
mod gone;
mod kube_error;
mod kubeconfig;
mod lease;
mod listed;
mod lists;
mod metrics;
mod outcome;
mod own_task;
mod owner;
pub mod patch;
mod paused;
mod readable;
mod readiness;
mod registered;
mod request_guard;
mod runner;
mod services;
mod status_throttle;
mod stretch;
mod watch;
mod watch_failure;
mod work_queue;

pub use backoff::Backoff;
pub use by_namespace::ByNamespace;
pub use clock::{Clock, wall_clock};
pub use events::{Event, Events, Reporter, Severity};
pub use external::{MANAGED_BY_ANNOTATION, is_externally_managed};
pub use fence::{Fence, NotLeading};
pub use filter::{WATCH_FILTER_LABEL, WatchFilter, watch_filter_label};
pub use gone::Gone;
pub use kube_error::{category as kube_category, is_without_dry_run, retry as kube_retry};
pub use kubeconfig::{Credentials, kubeconfig};
pub use lease::{Leadership, LeaseError, LeaseSettings, acquire};
pub use listed::{Listed, Listing};
pub use metrics::Metrics;
pub use nephele_error_chain::chain;
pub use outcome::{Outcome, ReconcileError, Retry};
pub use own_task::own_task;
pub use owner::{names_another_version, owner_cluster, owner_machine, owner_of_kind};
pub use patch::{Deleted, PatchError, Precondition};
pub use paused::{PAUSED_ANNOTATION, paused, paused_message};
pub use readable::{Kind, Readable, unreadable};
pub use readiness::{Gate, Readiness};
pub use registered::registered;
pub use request_guard::{KnownResource, UnsafeRequest, check_request, guarded};
pub use runner::{RunError, Runner};
pub use services::Services;
pub use status_throttle::StatusThrottle;
pub use watch::{Cache, LAST_APPLIED_ANNOTATION, measured, quietly_watched, scoped, trim, watched};
pub use watch_failure::watch_failed;
