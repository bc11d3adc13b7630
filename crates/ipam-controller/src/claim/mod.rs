//! `IPAddressClaim`: waits for its pool, gets an address, gives it back.

mod act;
mod plan;
mod report;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use nephele_api::ipam::conditions as reasons;
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;
use tokio::time::Instant;

use crate::context::{Context, owner};
use crate::pool::{Answer, Pool, Request};
use act::{Made, Released};
use plan::{Fetched, Plan};
pub(crate) use turns::Turns;

/// How long to wait for what is being written right now.
const SHORTLY: Duration = Duration::from_millis(100);

/// A claim that waits for its turn is called. It is looked at after this time too, lest it wait for one that was called
/// and is gone.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Why a claim could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A write to the management API failed.
    #[error("failed to update the claim")]
    Claim(#[source] PatchError),
    /// The IPAddress could not be written.
    #[error("failed to write the IPAddress")]
    Address(#[source] PatchError),
    /// The pool could not be listed or written; its task says why, once for all claims.
    #[error("failed to ask the pool")]
    Pool,
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Claim(error) | Self::Address(error) => error.category(),
            Self::Pool => "pool",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Claim(error) | Self::Address(error) => error.retry(),
            Self::Pool => Retry::After(Duration::from_secs(1)),
        }
    }
}

/// Brings a claim to an address, or lets it go.
pub(crate) async fn reconcile(claim: Arc<IPAddressClaim>, context: Arc<Context>) -> Result<Outcome, Error> {
    if context.ahead.is_behind(&claim) {
        // The watch has yet to show what was written here last, and brings the claim back then.
        return Ok(Outcome::WaitingOn("watch"));
    }
    // 1. fetch: from memory.
    let fetched = Fetched::of(&claim, &context);
    // 2. validate and 3. plan: pure.
    let plan = plan::plan(&claim, &fetched);
    let _turn = match (&plan, &fetched.key) {
        (Plan::Leave(_), _) | (_, None) => None,
        (_, Some(key)) => match context.turns.take(key, &owner(&claim.metadata), Instant::now()) {
            Some(turn) => Some(turn),
            None => return Ok(Outcome::After(TURN_MAX)),
        },
    };
    match plan {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Wait { reason, message, protect } => {
            if let Some(pool) = &fetched.pool {
                pool.withdraw(&owner(&claim.metadata));
            }
            let protected = if protect { act::protect(&claim, &context).await? } else { None };
            let claim = protected.as_ref().unwrap_or(&*claim);
            report::waiting(claim, &context, reason, &message).await?;
            Ok(Outcome::WaitingOn(reason))
        }
        Plan::Bind { wanted } => {
            let protected = act::protect(&claim, &context).await?;
            let claim = protected.as_ref().unwrap_or(&*claim);
            let pool = fetched.pool.as_ref().expect("a claim is only bound to a pool that is there");
            bind(claim, pool, wanted, &context).await
        }
        Plan::Release => match act::release(&claim, fetched.pool.as_ref(), &context).await? {
            Released::Done => Ok(Outcome::Done),
            Released::Later(wait) => Ok(Outcome::After(wait)),
        },
    }
}

async fn bind(
    claim: &IPAddressClaim,
    pool: &Arc<Pool>,
    wanted: Option<std::net::IpAddr>,
    context: &Context,
) -> Result<Outcome, Error> {
    let request = Request {
        owner: owner(&claim.metadata),
        uid: claim.metadata.uid.as_deref().unwrap_or_default().into(),
        created: claim
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(jiff::Timestamp::UNIX_EPOCH, |time| time.0),
        wanted,
        published: claim.address_name().is_some(),
    };
    let waiting = |reason: &'static str, message: String| async move {
        report::waiting(claim, context, reason, &message).await?;
        Ok(Outcome::WaitingOn(reason))
    };
    match pool.ask(request).await {
        Answer::Granted { grant, first_asked } => match act::make(claim, pool, &grant, context).await? {
            Made::There => {
                if report::bound(claim, pool, context).await? {
                    let after = Instant::now().duration_since(first_asked);
                    context.metrics.bound(pool.key.kind, Some(after));
                }
                Ok(Outcome::Done)
            }
            Made::Refused(message) => waiting(reasons::ALLOCATION_FAILED, message).await,
            Made::Another => Ok(Outcome::After(Duration::ZERO)),
        },
        Answer::Bound => {
            if report::bound(claim, pool, context).await? {
                context.metrics.bound(pool.key.kind, None);
            }
            Ok(Outcome::Done)
        }
        Answer::Adopt => match act::adopt(claim, pool, context).await? {
            Made::There => {
                if report::bound(claim, pool, context).await? {
                    context.metrics.bound(pool.key.kind, None);
                }
                Ok(Outcome::Done)
            }
            Made::Refused(message) => waiting(reasons::ALLOCATION_FAILED, message).await,
            Made::Another => Ok(Outcome::After(SHORTLY)),
        },
        Answer::Exhausted => {
            waiting(reasons::POOL_EXHAUSTED, format!("{} has no address left", pool.key)).await
        }
        Answer::Refused { message } => waiting(reasons::ALLOCATION_FAILED, message).await,
        // An address stays good whatever becomes of the pool.
        Answer::Unavailable { reason, .. } if claim.address_name().is_some() => {
            Ok(Outcome::WaitingOn(reason))
        }
        Answer::Unavailable { reason, message } => waiting(reason, message).await,
        Answer::Failed => Err(Error::Pool),
    }
}
