//! What was done about a cluster, and when to reconcile it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use nephele_api::{
    conditions::reasons,
    infrastructure::v1beta2::{ClaimedAddress, InMemoryCluster},
};
use nephele_cloud::{Backend, ClusterError};
use nephele_controller::Outcome;
use nephele_model::{ClusterId, Endpoint};

use crate::{
    authorities::AuthoritiesState,
    claims::{self, Unmet},
    messages::retry,
    resolved_cloud::ResolvedCloud,
};

/// When to look again at a cluster whose machines of before a restart are not reserved yet.
const EARLY: Duration = Duration::from_secs(1);

/// What was done.
#[derive(Debug)]
pub(super) enum Acted {
    /// There is nothing to report.
    Left(Outcome),
    /// The object rests, for the reason in the message.
    Rested { message: String, outcome: Outcome },
    /// The object is not paused any more. The write of its status triggers the next reconcile, which does the work.
    Unpaused,
    /// The cluster waits for the address of its load balancer, which was claimed.
    Claimed(Unmet),
    /// The cluster waits for that address, but the kind IPAddressClaim is not installed.
    NotInstalled,
    /// The cluster waits for the SimulatedCloud of this name.
    WithoutCloud(String),
    /// The cloud has the cluster, or refuses it.
    Provided { id: ClusterId, applied: Box<Applied> },
    /// The cluster is being deleted; the message tells what the object waits for.
    Deleting { message: String, outcome: Outcome },
}

impl Acted {
    /// When to reconcile again.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Left(outcome) | Self::Rested { outcome, .. } | Self::Deleting { outcome, .. } => *outcome,
            Self::Unpaused => Outcome::Done,
            Self::Claimed(unmet) => unmet.outcome(),
            Self::NotInstalled => Outcome::After(claims::NOT_INSTALLED),
            Self::WithoutCloud(_) => Outcome::WaitingOn(reasons::CLOUD_NOT_FOUND),
            Self::Provided { applied, .. } => applied.outcome(),
        }
    }
}

/// The cluster in the cloud, after it was created or updated.
#[derive(Debug)]
pub(super) struct Applied {
    /// The object as it was written; none when nothing was written.
    pub(super) object: Option<InMemoryCluster>,
    pub(super) endpoint: Result<Endpoint, ClusterError>,
    /// The backends of its load balancer, by name; none when the cloud says nothing about them.
    pub(super) backends: Option<BTreeMap<String, Backend>>,
    /// The machines in the status that the cloud does not have yet after a restart.
    pub(super) expected: BTreeSet<String>,
    /// Whether some of them may never come: the machines of before the restart are not reserved yet.
    pub(super) is_early: bool,
    /// The host that new clusters are published under.
    pub(super) advertised_host: String,
    pub(super) authorities: AuthoritiesState,
    /// The offer of its SimulatedCloud.
    pub(super) resolved_cloud: Arc<ResolvedCloud>,
    /// The address that the load balancer got from a pool.
    pub(super) claimed: Option<ClaimedAddress>,
}

impl Applied {
    pub(super) fn outcome(&self) -> Outcome {
        if self.is_early {
            self.outcome_within(EARLY)
        } else {
            outcome(&self.endpoint, &self.authorities)
        }
    }

    /// When to reconcile again, at the latest after a time.
    pub(super) fn outcome_within(&self, wait: Duration) -> Outcome {
        match outcome(&self.endpoint, &self.authorities) {
            Outcome::After(after) => Outcome::After(after.min(wait)),
            Outcome::Done | Outcome::WaitingOn(_) => Outcome::After(wait),
        }
    }
}

/// When to reconcile again.
pub(super) fn outcome(endpoint: &Result<Endpoint, ClusterError>, authorities: &AuthoritiesState) -> Outcome {
    match endpoint {
        Err(error) => retry(error.class()),
        Ok(_) => match authorities {
            AuthoritiesState::Missing => Outcome::WaitingOn("authorities"),
            AuthoritiesState::Invalid(_) => Outcome::WaitingOn("valid authorities"),
            AuthoritiesState::InUse => Outcome::Done,
        },
    }
}
