//! Authenticates and authorizes callers at the management API (TokenReview, SubjectAccessReview), and caches the
//! answers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, time::Instant};

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

/// What a caller wants to do: a path and a verb in lower case.
#[derive(Debug, Clone)]
pub(crate) struct AccessRequest {
    pub(crate) token: String,
    pub(crate) path: String,
    pub(crate) verb: String,
}

/// A digest of the token and the access, so that tokens are not stored and long ones need no memory.
type Digested = [u8; 32];

/// Reviews callers, and caches the answers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reviews {
    client: Client,
    in_flight: Arc<Semaphore>,
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
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        Self { client, in_flight, remembered: Arc::default() }
    }

    pub(crate) async fn judge(&self, access: AccessRequest) -> Result<Verdict, ReviewError> {
        let digested = access.digested();
        if let Some(verdict) = self.remembered.lock().recall(&digested, Instant::now()) {
            return Ok(verdict);
        }
        let _review = self.in_flight.try_acquire().map_err(|_| ReviewError::Busy)?;
        let verdict = match self.authenticate(&access.token).await? {
            None => Verdict::Unauthenticated,
            Some(user) => {
                if self.authorize(user, &access).await? {
                    Verdict::Allowed
                } else {
                    Verdict::Forbidden
                }
            }
        };
        self.remembered.lock().remember(digested, verdict, Instant::now());
        Ok(verdict)
    }

    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let answer =
            Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(answer.status.filter(|status| status.authenticated == Some(true)).and_then(|status| status.user))
    }

    async fn authorize(&self, user: UserInfo, access: &AccessRequest) -> Result<bool, kube::Error> {
        let UserInfo { username, groups, extra, uid } = user;
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

impl AccessRequest {
    fn digested(&self) -> Digested {
        let mut digest = Sha256::new();
        for part in [&self.token, &self.path, &self.verb] {
            // The length is part of the digest, so that different requests have different digests.
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

impl Remembered {
    fn recall(&self, access: &Digested, now: Instant) -> Option<Verdict> {
        if self.allowed.get(access).is_some_and(|until| *until > now) {
            return Some(Verdict::Allowed);
        }
        self.refused.get(access).filter(|(_, until)| *until > now).map(|(verdict, _)| *verdict)
    }

    fn remember(&mut self, access: Digested, verdict: Verdict, now: Instant) {
        self.allowed.retain(|_, until| *until > now);
        self.refused.retain(|_, (_, until)| *until > now);
        if verdict == Verdict::Allowed {
            if self.allowed.len() < REMEMBERED_MAX {
                self.allowed.insert(access, now + YES_FOR);
            }
        } else if self.refused.len() < REMEMBERED_MAX {
            self.refused.insert(access, (verdict, now + NO_FOR));
        }
    }
}
