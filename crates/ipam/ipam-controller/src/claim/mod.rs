//! The reconcile of an `IPAddressClaim`: it waits for its pool, gets an address and releases it.

mod act;
mod error;
mod plan;
mod report;

use std::{sync::Arc, time::Duration};

use act::{Binding, Released, SHORTLY};
pub(crate) use error::Error;
use nephele_api::ipam::{conditions as reasons, v1beta2::IPAddressClaim};
use nephele_controller::Outcome;
use plan::{Fetched, Need, Plan};
pub(crate) use plan::{asks, gives_back};
use tokio::time::Instant;

use crate::{
    context::Context,
    owner::owner,
    pool::{Pool, Request},
};

/// Gets an address for a claim, or releases a claim that is being deleted.
pub(crate) async fn reconcile(claim: Arc<IPAddressClaim>, context: Arc<Context>) -> Result<Outcome, Error> {
    let name = owner(&claim.metadata);
    if context.ahead.is_behind(&claim) {
        // The watch does not show this process's last write yet. When it does, the claim is reconciled again.
        context.queue.decline(&name);
        return Ok(Outcome::WaitingOn("watch"));
    }
    // 1. fetch: from memory.
    let fetched = Fetched::of(&claim, &context);
    // 2. validate and 3. plan: pure, except that the pool remembers the request.
    let plan = match (plan::plan(&claim, &fetched), &fetched.pool) {
        (Need::Address { wanted }, Some(pool)) => {
            let request = request(&claim, wanted);
            // What is bound stays bound.
            let answer = if context.faults.any() && !request.published {
                pool.ask_faults_first(request, &context.faults, &context.subject(&claim), context.now())
            } else {
                pool.ask(request)
            };
            plan::answered(&claim, &pool.key, answer, context.now())
        }
        (Need::Address { .. }, None) => Plan::Leave(Outcome::WaitingOn(reasons::POOL_NOT_READY)),
        (Need::Plan(plan), pool) => {
            if let (Plan::Wait { .. }, Some(pool)) = (&plan, pool) {
                pool.withdraw(&name);
            }
            plan
        }
    };
    let slot = match &fetched.key {
        Some(key) if plan.sends(&claim, context.now()) => context.queue.slot(key, &claim),
        _ => {
            context.queue.decline(&name);
            return Ok(settled(&plan, fetched.pool.as_deref(), &claim));
        }
    };
    let Some(_slot) = slot else {
        return Ok(Outcome::WaitingOn("slot"));
    };
    // 4. act and 5. report.
    carry_out(plan, &claim, fetched.pool.as_ref(), &context).await
}

/// The request of a claim to its pool.
fn request(claim: &IPAddressClaim, wanted: Option<std::net::IpAddr>) -> Request {
    let created = claim.metadata.creation_timestamp.as_ref();
    Request {
        owner: owner(&claim.metadata),
        uid: claim.metadata.uid.as_deref().unwrap_or_default().into(),
        created: created.map_or(jiff::Timestamp::UNIX_EPOCH, |time| time.0),
        wanted,
        published: claim.address_name().is_some(),
    }
}

/// The outcome of a plan without requests.
fn settled(plan: &Plan, pool: Option<&Pool>, claim: &IPAddressClaim) -> Outcome {
    match plan {
        Plan::Leave(outcome) => *outcome,
        Plan::Wait { reason, .. } => Outcome::WaitingOn(reason),
        Plan::Hold { reason, again, .. } => held(reason, *again),
        _ => {
            if let Some(pool) = pool {
                pool.published(&owner(&claim.metadata));
            }
            Outcome::Done
        }
    }
}

/// The outcome for a claim that a Fault holds.
fn held(reason: &'static str, again: Option<Duration>) -> Outcome {
    again.map_or(Outcome::WaitingOn(reason), Outcome::After)
}

async fn carry_out(
    plan: Plan,
    claim: &IPAddressClaim,
    pool: Option<&Arc<Pool>>,
    context: &Context,
) -> Result<Outcome, Error> {
    let protected = match &plan {
        Plan::Wait { protect: false, .. } | Plan::Leave(_) | Plan::Release => None,
        _ => match act::protect(claim, context).await? {
            act::Protected::Gone => {
                if let Some(pool) = pool {
                    let name = owner(&claim.metadata);
                    pool.withdraw(&name);
                    pool.drop_decision(&name, claim.metadata.uid.as_deref().unwrap_or_default());
                }
                return Ok(Outcome::Done);
            }
            act::Protected::Already => None,
            act::Protected::Now(claim) => Some(claim),
        },
    };
    let claim = protected.as_deref().unwrap_or(claim);
    let (outcome, first_asked) = match (plan, pool) {
        (Plan::Wait { reason, message, .. }, _) => {
            report::waiting(claim, context, reason, &message).await?;
            return Ok(Outcome::WaitingOn(reason));
        }
        (
            Plan::Hold {
                reason,
                message,
                again,
            },
            _,
        ) => {
            report::waiting(claim, context, reason, &message).await?;
            return Ok(held(reason, again));
        }
        (Plan::Release, pool) => {
            return Ok(match act::release(claim, pool, context).await? {
                Released::Done => Outcome::Done,
                Released::Later(wait) => Outcome::After(wait),
                Released::Unrecorded => Outcome::WaitingOn("fault"),
            });
        }
        (Plan::Create { grant, first_asked }, Some(pool)) => (
            act::create_address(claim, pool, &grant, context).await?,
            Some(first_asked),
        ),
        (Plan::TakeOver, Some(pool)) => (act::take_over(claim, pool, context).await?, None),
        (Plan::Publish, Some(_)) => (Binding::Done, None),
        (Plan::Leave(outcome), _) => return Ok(outcome),
        // These plans are the answers of a pool, so there is one.
        (Plan::Create { .. } | Plan::TakeOver | Plan::Publish, None) => {
            return Ok(Outcome::WaitingOn(reasons::POOL_NOT_READY));
        }
    };
    match (outcome, pool) {
        (Binding::Done, Some(pool)) => {
            if report::bound(claim, pool, context).await? {
                let after = first_asked.map(|first_asked| Instant::now().duration_since(first_asked));
                context.metrics.bound(pool.key.kind, after);
            }
            context.faults.left(claim);
            Ok(Outcome::Done)
        }
        (Binding::Refused(message), _) => {
            report::waiting(claim, context, reasons::ALLOCATION_FAILED, &message).await?;
            Ok(Outcome::WaitingOn(reasons::ALLOCATION_FAILED))
        }
        (Binding::Denied(message), _) => {
            report::waiting(claim, context, reasons::ALLOCATION_FAILED, &message).await?;
            Ok(Outcome::After(plan::after_denial(claim, context.now())))
        }
        (Binding::AskAgain, _) | (Binding::Done, None) => Ok(Outcome::After(SHORTLY)),
    }
}
