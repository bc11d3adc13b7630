//! Asks the management API who a token belongs to and what they may do (TokenReview, SubjectAccessReview), and
//! remembers a yes for a while.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a yes counts: a scrape every 15 s asks once a minute. A no is asked again each time.
const REMEMBERED_FOR: Duration = Duration::from_mins(1);
/// The most answers remembered; more tokens than that are asked about each time.
const REMEMBERED_MAX: usize = 256;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go ahead.
    Allowed,
    /// Nobody knows the caller.
    Unauthenticated,
    /// The caller is known and may not.
    Forbidden,
}

/// What a caller wants: a path and a verb in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub(crate) token: String,
    pub(crate) path: String,
    pub(crate) verb: String,
}

/// Asks, and remembers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reviews {
    client: Client,
    allowed: Arc<Mutex<HashMap<Wish, Instant>>>,
}

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, allowed: Arc::default() }
    }

    pub(crate) async fn judge(&self, wish: Wish) -> Result<Verdict, kube::Error> {
        let known = self.allowed.lock().get(&wish).is_some_and(|until| *until > Instant::now());
        if known {
            return Ok(Verdict::Allowed);
        }
        let Some(user) = self.authenticate(&wish.token).await? else { return Ok(Verdict::Unauthenticated) };
        if !self.authorize(user, &wish).await? {
            return Ok(Verdict::Forbidden);
        }
        self.remember(wish, Instant::now());
        Ok(Verdict::Allowed)
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

    async fn authorize(&self, user: UserInfo, wish: &Wish) -> Result<bool, kube::Error> {
        let UserInfo { username, groups, extra, uid } = user;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: username,
                groups,
                uid,
                extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(wish.path.clone()),
                    verb: Some(wish.verb.clone()),
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

    fn remember(&self, wish: Wish, now: Instant) {
        let mut allowed = self.allowed.lock();
        allowed.retain(|_, until| *until > now);
        if allowed.len() < REMEMBERED_MAX {
            allowed.insert(wish, now + REMEMBERED_FOR);
        }
    }
}
