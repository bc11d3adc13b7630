//! Authenticates and authorizes callers at the management API (TokenReview, SubjectAccessReview), and caches the
//! answers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};

use super::serve::CallerAddress;

/// How long `Allowed` is cached: one review a minute, with a scrape every 15 s.
const YES_FOR: Duration = Duration::from_mins(1);
/// How long a refusal is cached: less than the time between two scrapes, so that the next scrape works once a role is
/// granted.
const NO_FOR: Duration = Duration::from_secs(10);
/// The most cached answers, for allowed and for refused callers each. They need 64 KiB together. Further callers are
/// reviewed each time. Refused callers cannot evict allowed callers.
const REMEMBERED_MAX: usize = 256;
/// Reviews at a time. A review is two requests, and there are only a few scrapers.
const IN_FLIGHT_MAX: usize = 8;
/// Reviews at a time for callers from one address: a quarter, so that one address does not lock out the others.
const IN_FLIGHT_OF_CALLER_MAX: usize = 2;

/// The result of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The caller may do it.
    Allowed,
    /// The API server does not know the token.
    Unauthenticated,
    /// The API server knows the caller, but the caller may not do it.
    Forbidden,
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
}

/// A digest of the token and the access, so that tokens are not stored and long ones need no memory.
type Digested = [u8; 32];

/// Reviews callers, and caches the answers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reviews {
    client: Client,
    in_flight: Arc<Mutex<HashMap<Option<CallerAddress>, usize>>>,
    remembered: Arc<Mutex<Remembered>>,
}

/// Cached answers, with the time until which they are valid.
#[derive(Default)]
struct Remembered {
    allowed: HashMap<Digested, Instant>,
    refused: HashMap<Digested, (Verdict, Instant)>,
}

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            in_flight: Arc::default(),
            remembered: Arc::default(),
        }
    }

    /// Whether a caller from this address may have access.
    pub(crate) async fn judge(
        &self,
        access: &AccessRequest,
        caller: Option<CallerAddress>,
    ) -> Result<Judgement, ReviewError> {
        let digested = access.digested();
        if let Some(judgement) = self.remembered.lock().recall(&digested, Instant::now()) {
            return Ok(judgement);
        }
        let _review = self.begin(caller).ok_or(ReviewError::Busy)?;
        let verdict = match self.authenticate(access).await? {
            None => Verdict::Unauthenticated,
            Some(user) => {
                if self.authorize(user, access).await? {
                    Verdict::Allowed
                } else {
                    Verdict::Forbidden
                }
            }
        };
        Ok(self.remembered.lock().remember(digested, verdict, Instant::now()))
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

    async fn authorize(&self, user: UserInfo, access: &AccessRequest) -> Result<bool, kube::Error> {
        let UserInfo {
            username,
            groups,
            extra,
            uid,
        } = user;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: username,
                groups,
                uid,
                extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(access.path.clone()),
                    verb: Some(access.verb.clone()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
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
    pub(super) caller: Option<CallerAddress>,
    pub(super) until: Instant,
}

impl Permission {
    /// Waits until the caller may not have access any more: asks again whenever the verdict is no longer valid. Where the
    /// management API does not answer, the last verdict is valid for [`YES_FOR`] more.
    pub(crate) async fn ended(mut self) {
        loop {
            sleep_until(self.until).await;
            let last = self.until + YES_FOR;
            self.until = loop {
                match self.reviews.judge(&self.access, self.caller).await {
                    Ok(Judgement {
                        verdict: Verdict::Allowed,
                        until,
                    }) => break until,
                    Ok(_) => return,
                    Err(_) if Instant::now() >= last => return,
                    Err(_) => sleep_until((Instant::now() + NO_FOR).min(last)).await,
                }
            };
        }
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
        let allowed = self.allowed.get(access).map(|until| (Verdict::Allowed, *until));
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
        self.allowed.retain(|_, until| *until > now);
        self.refused.retain(|_, (_, until)| *until > now);
        let until = now
            + if verdict == Verdict::Allowed {
                YES_FOR
            } else {
                NO_FOR
            };
        if verdict == Verdict::Allowed {
            if self.allowed.len() < REMEMBERED_MAX {
                self.allowed.insert(access, until);
            }
        } else if self.refused.len() < REMEMBERED_MAX {
            self.refused.insert(access, (verdict, until));
        }
        Judgement { verdict, until }
    }
}
