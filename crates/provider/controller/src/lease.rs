//! Leader election: one of several replicas works, the others stand by.
//!
//! The protocol is that of client-go (`tools/leaderelection`). The holder renews a `Lease`. A candidate takes over the
//! lease after it has seen it unchanged for the whole lease duration on its own monotonic clock, so the clocks of two
//! machines do not have to agree. Every write has the resource version as a precondition, so only one of two candidates
//! wins. (The crate kube-lease-manager is not used, because it compares the holder's `renewTime` with the candidate's
//! own wall clock.)
//!
//! The holder's [`Fence`] is open for the renew deadline, counted from the time at which the last successful renewal
//! was sent. Candidates wait for the lease duration, which is longer and starts later. So every request of a former
//! holder has arrived before another process leads.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use nephele_error_chain::chain;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{clock::Clock, fence::Fence, metrics::Metrics};

/// The name of the lease, and its times. The defaults are those of Cluster API's managers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// The identity of this process, unique among the replicas.
    pub identity: String,
    /// How long a candidate has to see the lease unchanged before it takes the lease.
    pub lease_duration: Duration,
    /// How long the holder tries to renew the lease before it stops leading. Shorter than the lease duration.
    pub renew_deadline: Duration,
    /// The time between two renewals of the lease, and between two attempts to take it when one failed. Candidates read
    /// it four times as often.
    pub retry_period: Duration,
    /// What the holder publishes about itself, as annotations of the lease: each of its writes has them.
    pub published: BTreeMap<String, String>,
}

/// Why this process does not lead any more.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another process holds the lease now.
    #[error("lost the lease {name} to {holder}")]
    Taken {
        /// Namespace and name of the lease.
        name: String,
        /// The process that holds it.
        holder: String,
    },
    /// The lease could not be renewed in time; another process may hold it by now.
    #[error("failed to renew the lease {name} within {deadline:?}")]
    NotRenewed {
        /// Namespace and name of the lease.
        name: String,
        deadline: Duration,
    },
}

/// The lease, while this process holds it. [`Leadership::hold`] renews it.
pub struct Leadership {
    candidate: Candidate,
    held: Lease,
    /// When the last request that renewed the lease was sent.
    renewed_at: Instant,
}

/// How often a candidate reads the lease of another process in a retry period. While nothing answers for the clusters,
/// half a second counts, and one small read does not.
const LOOKS: u32 = 4;

/// Waits until this process holds the lease; `None` if `shutdown` came first.
pub async fn acquire(
    client: Client,
    settings: LeaseSettings,
    clock: Clock,
    metrics: Metrics,
    shutdown: &CancellationToken,
) -> Option<Leadership> {
    metrics.leading(&settings.name, false);
    let api = Api::namespaced(client, &settings.namespace);
    let candidate = Candidate {
        api,
        settings,
        clock,
        metrics,
    };
    info!(
        lease = candidate.name(),
        identity = candidate.settings.identity,
        "Waiting for the lease"
    );
    let mut sighting: Option<Sighting> = None;
    loop {
        let sent_at = Instant::now();
        let attempt = timeout(
            candidate.settings.renew_deadline,
            candidate.attempt(&mut sighting),
        );
        let pause = match shutdown.run_until_cancelled(attempt).await? {
            Ok(Ok(Some(held))) => {
                info!(lease = candidate.name(), "Took the lease");
                candidate.metrics.leading(&candidate.settings.name, true);
                return Some(Leadership {
                    candidate,
                    held,
                    renewed_at: sent_at,
                });
            }
            Ok(Ok(None)) => candidate.settings.retry_period / LOOKS,
            Ok(Err(error)) => {
                warn!(error = %chain(&error), "Failed to take the lease");
                candidate.settings.retry_period
            }
            Err(_elapsed) => {
                warn!("Failed to take the lease: no answer in time");
                candidate.settings.retry_period
            }
        };
        shutdown.run_until_cancelled(sleep(pause)).await?;
    }
}

impl Leadership {
    /// Renews the lease until `shutdown`, then releases it so that another replica does not have to wait until it
    /// expires. The fence is open only while this process holds the lease.
    ///
    /// # Errors
    ///
    /// When the lease is lost. Then the process has to end, because another one may already lead.
    pub async fn hold(mut self, fence: Fence, shutdown: CancellationToken) -> Result<(), LeaseError> {
        let result = loop {
            fence.extend(self.renewed_at + self.candidate.settings.renew_deadline);
            let pause = sleep(self.candidate.settings.retry_period.min(self.remaining()));
            if shutdown.run_until_cancelled(pause).await.is_none() {
                break Ok(());
            }
            if let Err(error) = self.renew().await {
                break Err(error);
            }
        };
        fence.close();
        self.candidate
            .metrics
            .leading(&self.candidate.settings.name, false);
        if result.is_ok() {
            self.release().await;
        }
        result
    }

    /// One attempt to renew; an error only when the lease is lost for good.
    async fn renew(&mut self) -> Result<(), LeaseError> {
        let settings = &self.candidate.settings;
        let sent_at = Instant::now();
        let problem = match timeout(self.remaining(), self.candidate.renewed(&self.held)).await {
            Ok(Ok(Renewal::Renewed(lease))) => {
                self.held = *lease;
                self.renewed_at = sent_at;
                return Ok(());
            }
            Ok(Ok(Renewal::Taken { holder })) => {
                return Err(LeaseError::Taken {
                    name: self.candidate.name(),
                    holder,
                });
            }
            Ok(Err(error)) => chain(&error),
            Err(_elapsed) => "no answer in time".to_owned(),
        };
        warn!(
            lease = self.candidate.name(),
            error = problem,
            "Failed to renew the lease"
        );
        if self.renewed_at.elapsed() >= settings.renew_deadline {
            return Err(LeaseError::NotRenewed {
                name: self.candidate.name(),
                deadline: settings.renew_deadline,
            });
        }
        Ok(())
    }

    /// The time that is left to renew the lease.
    fn remaining(&self) -> Duration {
        self.candidate
            .settings
            .renew_deadline
            .saturating_sub(self.renewed_at.elapsed())
    }

    async fn release(self) {
        let mut lease = self.held;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        // The same value as in client-go, because the API server requires a duration.
        spec.lease_duration_seconds = Some(1);
        let params = PostParams::default();
        let write = self
            .candidate
            .api
            .replace(&self.candidate.settings.name, &params, &lease);
        match timeout(self.candidate.settings.retry_period, write).await {
            Ok(Ok(_)) => info!(lease = self.candidate.name(), "Released the lease"),
            Ok(Err(error)) => warn!(error = %chain(&error), "Failed to release the lease"),
            Err(_elapsed) => warn!("Failed to release the lease: no answer in time"),
        }
    }
}

/// A process that wants to lead.
struct Candidate {
    api: Api<Lease>,
    settings: LeaseSettings,
    clock: Clock,
    metrics: Metrics,
}

/// The version of the lease at its last change that this process saw, and when it saw the change.
struct Sighting {
    resource_version: Option<String>,
    since: Instant,
}

enum Renewal {
    Renewed(Box<Lease>),
    Taken { holder: String },
}

/// What a candidate does with the lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Take,
    Wait,
}

/// Whether the lease can be taken, after it was seen unchanged for `unchanged_for`.
fn step(spec: Option<&LeaseSpec>, identity: &str, unchanged_for: Duration) -> Step {
    let Some(spec) = spec else { return Step::Take };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let lasts = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0));
    if holder.is_empty() || holder == identity || unchanged_for >= lasts {
        Step::Take
    } else {
        Step::Wait
    }
}

impl Candidate {
    fn name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// One attempt to take the lease; returns the lease if this process holds it now.
    async fn attempt(&self, sighting: &mut Option<Sighting>) -> Result<Option<Lease>, kube::Error> {
        let Some(current) = self.api.get_opt(&self.settings.name).await? else {
            return self.create().await;
        };
        let version = current.metadata.resource_version.clone();
        let seen = match sighting {
            Some(seen) if seen.resource_version == version => seen,
            other => other.insert(Sighting {
                resource_version: version,
                since: Instant::now(),
            }),
        };
        match step(
            current.spec.as_ref(),
            &self.settings.identity,
            seen.since.elapsed(),
        ) {
            Step::Wait => {
                let holder = current.spec.and_then(|spec| spec.holder_identity);
                debug!(holder, "Another process holds the lease");
                Ok(None)
            }
            Step::Take => self.write(self.taken(current)).await,
        }
    }

    async fn renewed(&self, held: &Lease) -> Result<Renewal, kube::Error> {
        let mut next = held.clone();
        self.renew(&mut next, MicroTime((self.clock)()));
        if let Some(lease) = self.write(next).await? {
            return Ok(Renewal::Renewed(Box::new(lease)));
        }
        // Another client wrote the lease meanwhile: another process, or a person who annotated it.
        let Some(current) = self.api.get_opt(&self.settings.name).await? else {
            let created = self.create().await?;
            return Ok(created.map_or_else(
                || Renewal::Taken {
                    holder: "an unknown process".to_owned(),
                },
                |lease| Renewal::Renewed(Box::new(lease)),
            ));
        };
        let holder = current
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.clone())
            .unwrap_or_default();
        if holder != self.settings.identity {
            return Ok(Renewal::Taken { holder });
        }
        let mut next = current;
        self.renew(&mut next, MicroTime((self.clock)()));
        let written = self
            .api
            .replace(&self.settings.name, &PostParams::default(), &next)
            .await?;
        Ok(Renewal::Renewed(Box::new(written)))
    }

    /// The lease with this process as its holder.
    fn taken(&self, mut lease: Lease) -> Lease {
        let now = MicroTime((self.clock)());
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.settings.identity) {
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.settings.identity.clone());
        spec.lease_duration_seconds = Some(
            i32::try_from(self.settings.lease_duration.as_secs())
                .unwrap_or(i32::MAX)
                .max(1),
        );
        self.renew(&mut lease, now);
        lease
    }

    fn renew(&self, lease: &mut Lease, now: MicroTime) {
        lease.spec.get_or_insert_default().renew_time = Some(now);
        if !self.settings.published.is_empty() {
            let published = self.settings.published.clone();
            lease
                .metadata
                .annotations
                .get_or_insert_default()
                .extend(published);
        }
    }

    async fn create(&self) -> Result<Option<Lease>, kube::Error> {
        let mut lease = self.taken(Lease {
            metadata: ObjectMeta {
                name: Some(self.settings.name.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.spec.get_or_insert_default().lease_transitions = Some(0);
        won(self.api.create(&PostParams::default(), &lease).await)
    }

    async fn write(&self, lease: Lease) -> Result<Option<Lease>, kube::Error> {
        won(self
            .api
            .replace(&self.settings.name, &PostParams::default(), &lease)
            .await)
    }
}

/// The lease, or none if another process was faster: a conflict is not a failure.
fn won(result: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: Option<&str>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_when_free_ours_or_run_out() {
        let seconds = Duration::from_secs;
        let cases = [
            (None, seconds(0), Step::Take),
            (Some(held_by(None)), seconds(0), Step::Take),
            (Some(held_by(Some(""))), seconds(0), Step::Take),
            (Some(held_by(Some("me"))), seconds(0), Step::Take),
            (Some(held_by(Some("other"))), seconds(0), Step::Wait),
            (Some(held_by(Some("other"))), seconds(14), Step::Wait),
            (Some(held_by(Some("other"))), seconds(15), Step::Take),
        ];
        for (spec, unchanged_for, expected) in cases {
            assert_eq!(
                step(spec.as_ref(), "me", unchanged_for),
                expected,
                "{spec:?} after {unchanged_for:?}"
            );
        }
    }
}
