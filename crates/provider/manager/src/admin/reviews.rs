//! Authenticates and authorizes callers at the management API (TokenReview, SubjectAccessReview), and caches the
//! answers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, Resource as _, api::PostParams};
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{namespace::Namespace, serve::CallerAddress};

/// How long `Allowed` is cached: one review a minute, with a scrape every 15 s.
const YES_FOR: Duration = Duration::from_mins(1);
/// How long a refusal is cached: less than the time between two scrapes, so that the next scrape works once a role is
/// granted.
const NO_FOR: Duration = Duration::from_secs(10);
/// The most cached answers, for allowed and for refused callers each. They need 64 KiB together. Further callers are
/// reviewed each time. Refused callers cannot evict allowed callers.
const REMEMBERED_MAX: usize = 256;
/// Reviews at a time. A review is two requests, or three for a reader of one namespace, and there are only a few scrapers.
const IN_FLIGHT_MAX: usize = 8;
/// Reviews at a time for callers from one address: a quarter, so that one address does not lock out the others.
const IN_FLIGHT_OF_CALLER_MAX: usize = 2;
/// Reviews at a time for answers that are under way, beside the others. These wait for each other: there are few such
/// answers, and those that came through port-forwards have one address, so most of them would be refused.
const AGAIN_MAX: usize = 2;

/// The result of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The caller may do it.
    Allowed(Allowed),
    /// The API server does not know the token.
    Unauthenticated,
    /// The API server knows the caller, but the caller may not do it.
    Forbidden,
}

/// Who may do it, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) user: User,
    pub(crate) scope: Scope,
}

/// A user, for shares: a digest of the name, so that long names need no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User(Digested);

impl User {
    pub(crate) fn named(name: &str) -> Self {
        Self(Sha256::digest(name).into())
    }

    pub(crate) fn digest(self) -> [u8; 32] {
        self.0
    }
}

/// What a caller may do it with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// With everything: the caller may use the path.
    Path,
    /// With the namespace of the request: the caller may get its InMemoryClusters.
    Namespace,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// Too many reviews are in flight.
    #[error("too many reviews are in flight")]
    Busy,
    /// The management API did not answer.
    #[error("failed to ask the management API")]
    Api(#[from] kube::Error),
}

/// A verdict, and until when it is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) until: Instant,
}

/// What a caller wants to do: a path and a verb in lower case.
#[derive(Debug, Clone)]
pub(crate) struct AccessRequest {
    pub(crate) token: String,
    /// The audience that the token has to be for; the API server's own if there is none.
    pub(crate) audience: Option<&'static str>,
    pub(crate) path: String,
    pub(crate) verb: String,
    /// The only namespace that the request concerns, where whoever may get its InMemoryClusters may do it, too.
    pub(crate) namespace: Option<Namespace>,
}

/// A digest of the token and the access, so that tokens are not stored and long ones need no memory.
type Digested = [u8; 32];

/// Reviews callers, and caches the answers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reviews {
    client: Client,
    in_flight: Arc<Mutex<HashMap<Option<CallerAddress>, usize>>>,
    again: Arc<Semaphore>,
    remembered: Arc<Mutex<Remembered>>,
}

/// Cached answers, with the time until which they are valid.
#[derive(Default)]
struct Remembered {
    allowed: HashMap<Digested, (Allowed, Instant)>,
    refused: HashMap<Digested, (Verdict, Instant)>,
}

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            in_flight: Arc::default(),
            again: Arc::new(Semaphore::new(AGAIN_MAX)),
            remembered: Arc::default(),
        }
    }

    /// Whether a caller from this address may have access.
    pub(crate) async fn judge(
        &self,
        access: &AccessRequest,
        caller: Option<CallerAddress>,
    ) -> Result<Judgement, ReviewError> {
        if let Some(judgement) = self.recall(access) {
            return Ok(judgement);
        }
        let _review = self.begin(caller).ok_or(ReviewError::Busy)?;
        self.review(access).await
    }

    /// The same for an answer that is under way. It waits for others, but not for new callers.
    async fn judge_again(&self, access: &AccessRequest) -> Result<Judgement, ReviewError> {
        let turn = self.again.acquire().await;
        let _turn = turn.expect("the semaphore is never closed");
        match self.recall(access) {
            Some(judgement) => Ok(judgement),
            None => self.review(access).await,
        }
    }

    fn recall(&self, access: &AccessRequest) -> Option<Judgement> {
        self.remembered.lock().recall(&access.digested(), Instant::now())
    }

    async fn review(&self, access: &AccessRequest) -> Result<Judgement, ReviewError> {
        let verdict = match self.authenticate(access).await? {
            None => Verdict::Unauthenticated,
            Some(info) => {
                let user = User::named(info.username.as_deref().unwrap_or_default());
                match self.authorize(info, access).await? {
                    Some(scope) => Verdict::Allowed(Allowed { user, scope }),
                    None => Verdict::Forbidden,
                }
            }
        };
        let mut remembered = self.remembered.lock();
        Ok(remembered.remember(access.digested(), verdict, Instant::now()))
    }

    /// Begins a review, unless too many are in flight.
    fn begin(&self, caller: Option<CallerAddress>) -> Option<InFlight> {
        let mut in_flight = self.in_flight.lock();
        let all: usize = in_flight.values().sum();
        let own = in_flight.get(&caller).copied().unwrap_or(0);
        if all >= IN_FLIGHT_MAX || own >= IN_FLIGHT_OF_CALLER_MAX {
            return None;
        }
        in_flight.insert(caller, own + 1);
        Some(InFlight {
            reviews: self.clone(),
            caller,
        })
    }

    async fn authenticate(&self, access: &AccessRequest) -> Result<Option<UserInfo>, kube::Error> {
        let audiences = access.audience.map(|audience| vec![audience.to_owned()]);
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: access.token.clone(),
                audiences: audiences.clone(),
            },
            ..TokenReview::default()
        };
        let answer = Api::<TokenReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await?;
        let status = answer.status.filter(|status| status.authenticated == Some(true));
        // An authenticator that knows nothing of audiences names none, and its tokens are for the API server.
        let is_for_us = |status: &TokenReviewStatus| {
            audiences
                .iter()
                .flatten()
                .all(|wanted| status.audiences.iter().flatten().any(|one| one == wanted))
        };
        Ok(status.filter(is_for_us).and_then(|status| status.user))
    }

    /// With what the user may do it.
    async fn authorize(&self, user: UserInfo, access: &AccessRequest) -> Result<Option<Scope>, kube::Error> {
        let path = SubjectAccessReviewSpec {
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(access.path.clone()),
                verb: Some(access.verb.clone()),
            }),
            ..of_user(user)
        };
        let user = SubjectAccessReviewSpec {
            non_resource_attributes: None,
            ..path.clone()
        };
        if self.may(path).await? {
            return Ok(Some(Scope::Path));
        }
        let Some(namespace) = &access.namespace else {
            return Ok(None);
        };
        let clusters = SubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.as_str().to_owned()),
                group: Some(InMemoryCluster::group(&()).into_owned()),
                resource: Some(InMemoryCluster::plural(&()).into_owned()),
                verb: Some("get".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..user
        };
        Ok(self.may(clusters).await?.then_some(Scope::Namespace))
    }

    async fn may(&self, spec: SubjectAccessReviewSpec) -> Result<bool, kube::Error> {
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let answer = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// A review of a user, which asks for nothing yet.
fn of_user(user: UserInfo) -> SubjectAccessReviewSpec {
    let UserInfo {
        username,
        groups,
        extra,
        uid,
    } = user;
    SubjectAccessReviewSpec {
        user: username,
        groups,
        uid,
        extra,
        ..SubjectAccessReviewSpec::default()
    }
}

/// A review in flight. Callers with one are counted, so at most [`IN_FLIGHT_MAX`].
struct InFlight {
    reviews: Reviews,
    caller: Option<CallerAddress>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut in_flight = self.reviews.in_flight.lock();
        if let Some(own) = in_flight.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                in_flight.remove(&self.caller);
            }
        }
    }
}

/// The permission of a request, for answers that take longer than a verdict is valid: an extension of the request.
#[derive(Clone)]
pub(crate) struct Permission {
    pub(super) reviews: Reviews,
    pub(super) access: AccessRequest,
    pub(super) allowed: Allowed,
    pub(super) until: Instant,
}

impl Permission {
    /// Waits until the caller may not have access any more: asks again whenever the verdict is no longer valid. Where the
    /// management API does not answer, the last verdict is valid for [`YES_FOR`] more.
    pub(crate) async fn ended(self) {
        let Self {
            reviews,
            access,
            allowed: _,
            mut until,
        } = self;
        loop {
            sleep_until(until).await;
            let last = until + YES_FOR;
            until = loop {
                match timeout_at(last, reviews.judge_again(&access)).await {
                    Ok(Ok(Judgement {
                        verdict: Verdict::Allowed(_),
                        until,
                    })) => break until,
                    Ok(Ok(_)) | Err(_) => return,
                    Ok(Err(_)) if Instant::now() >= last => return,
                    Ok(Err(_)) => sleep_until((Instant::now() + NO_FOR).min(last)).await,
                }
            };
        }
    }

    /// Asks again in a task of its own, until the watch is dropped: a client that does not read its answer does not put
    /// the question off.
    pub(crate) fn watch(self) -> Watch {
        let ended = CancellationToken::new();
        let end = ended.clone();
        let task = tokio::spawn(async move {
            self.ended().await;
            end.cancel();
        });
        Watch {
            ended,
            _task: AbortOnDropHandle::new(task),
        }
    }
}

/// A permission that is asked for again.
pub(crate) struct Watch {
    ended: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Watch {
    /// Whether the caller may not have access any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits until that is so.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl AccessRequest {
    fn digested(&self) -> Digested {
        let mut digest = Sha256::new();
        for part in [
            self.token.as_str(),
            self.audience.unwrap_or_default(),
            &self.path,
            &self.verb,
            self.namespace.as_ref().map_or("", Namespace::as_str),
        ] {
            // The length is part of the digest, so that different requests have different digests.
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

impl Remembered {
    fn recall(&self, access: &Digested, now: Instant) -> Option<Judgement> {
        let allowed = self.allowed.get(access);
        let allowed = allowed.map(|(allowed, until)| (Verdict::Allowed(*allowed), *until));
        let known = allowed.filter(|(_, until)| *until > now);
        let known = known.or_else(|| {
            self.refused
                .get(access)
                .copied()
                .filter(|(_, until)| *until > now)
        });
        known.map(|(verdict, until)| Judgement { verdict, until })
    }

    fn remember(&mut self, access: Digested, verdict: Verdict, now: Instant) -> Judgement {
        self.allowed.retain(|_, (_, until)| *until > now);
        self.refused.retain(|_, (_, until)| *until > now);
        let until = match verdict {
            Verdict::Allowed(allowed) => {
                let until = now + YES_FOR;
                if self.allowed.len() < REMEMBERED_MAX {
                    self.allowed.insert(access, (allowed, until));
                }
                until
            }
            Verdict::Unauthenticated | Verdict::Forbidden => {
                let until = now + NO_FOR;
                if self.refused.len() < REMEMBERED_MAX {
                    self.refused.insert(access, (verdict, until));
                }
                until
            }
        };
        Judgement { verdict, until }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::convert::Infallible;

    use axum::body::{Body, to_bytes};
    use serde_json::Value;

    use super::*;

    /// A client of an API server that answers each review with the status that `judge` gives to its spec.
    pub(crate) fn reviewer(judge: impl Fn(&Value) -> Value + Clone + Send + 'static) -> Client {
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let judge = judge.clone();
            async move {
                let bytes = to_bytes(Body::new(request.into_body()), usize::MAX).await;
                let mut review: Value = serde_json::from_slice(&bytes.expect("in memory")).expect("JSON");
                review["status"] = judge(&review["spec"]);
                Ok::<_, Infallible>(http::Response::new(Body::from(review.to_string())))
            }
        });
        Client::new(service, "default")
    }
}
