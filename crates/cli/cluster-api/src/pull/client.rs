//! Requests to registries and to what they lead to, within bounds.

use std::{collections::BTreeMap, fs::File, ops::Deref, time::Duration};

use futures::TryFutureExt as _;
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, USER_AGENT},
};
use http_body_util::BodyExt as _;
use kube::client::Body;
use nephele_access::{Environment, Server};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::{io::AsyncWriteExt as _, time::timeout};

use super::{
    digest::Digest,
    error::PullError,
    route::{Next, next, origin, shown},
};

/// The most redirects that lead to one answer.
const REDIRECTS_MAX: usize = 5;
/// How long a text may take.
const TEXT_WITHIN: Duration = Duration::from_secs(60);
/// How long a layer may take.
const LAYER_WITHIN: Duration = Duration::from_secs(15 * 60);
/// The most bytes of the answer with a token.
const TOKEN_MAX: u64 = 64 << 10;

/// Asks servers, through the proxies of an environment, each with the token that it gave and no other.
pub(super) struct Client {
    environment: Environment,
    /// By the origin of their URLs.
    servers: BTreeMap<String, kube::Client>,
    tokens: BTreeMap<String, HeaderValue>,
}

/// The answer of a server that gives a token: either name is usual.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Client {
    pub(super) fn new(environment: Environment) -> Self {
        Self {
            environment,
            servers: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }

    /// Forgets tokens: each is for one image, and for a few minutes.
    pub(super) fn forget_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Gets a text, with the headers of the answer.
    pub(super) async fn text(
        &mut self,
        uri: &Uri,
        accept: &str,
        max: u64,
    ) -> Result<(HeaderMap, Vec<u8>), PullError> {
        within(TEXT_WITHIN, uri, async {
            let (head, body) = self.get(uri, accept).await?.into_parts();
            let text = Bounded::new(uri, body, max).text().await?;
            Ok((head.headers, text))
        })
        .await
    }

    /// Gets a blob into a file, from its beginning. Returns the file and the digest of what is in it.
    pub(super) async fn blob(
        &mut self,
        uri: &Uri,
        max: u64,
        file: File,
    ) -> Result<(File, Digest), PullError> {
        within(LAYER_WITHIN, uri, async {
            let body = self.get(uri, "*/*").await?.into_body();
            let mut file = tokio::fs::File::from_std(file);
            let mut hasher = Sha256::new();
            let mut body = Bounded::new(uri, body, max);
            while let Some(data) = body.data().await? {
                hasher.update(&*data);
                file.write_all(&data).map_err(PullError::Scratch).await?;
            }
            file.flush().map_err(PullError::Scratch).await?;
            Ok((file.into_std().await, Digest::end(hasher)))
        })
        .await
    }

    /// Asks, follows redirects, and asks again with a token where a server wants one.
    async fn get(&mut self, uri: &Uri, accept: &str) -> Result<Response<Body>, PullError> {
        let mut at = uri.clone();
        let mut redirects = 0;
        let mut has_new_token = false;
        loop {
            let answer = self.send(&at, accept).await?;
            match next(&at, answer.status(), answer.headers())? {
                Next::Read => return Ok(answer),
                Next::Follow(_) if redirects == REDIRECTS_MAX => {
                    return Err(PullError::Answer {
                        at: shown(uri),
                        problem: "it leads from one place to the next",
                    });
                }
                Next::Follow(to) => {
                    redirects += 1;
                    has_new_token = false;
                    at = to;
                }
                Next::Token(_) if has_new_token => {
                    return Err(PullError::Status {
                        at: shown(&at),
                        status: StatusCode::UNAUTHORIZED,
                    });
                }
                Next::Token(of) => {
                    let token = self.token(&of).await?;
                    self.tokens.insert(origin(&at), token);
                    has_new_token = true;
                }
            }
        }
    }

    /// Asks for a token as anyone may.
    async fn token(&mut self, uri: &Uri) -> Result<HeaderValue, PullError> {
        let strange = || PullError::Answer {
            at: shown(uri),
            problem: "it has no token",
        };
        let answer = self.send(uri, "application/json").await?;
        if answer.status() != StatusCode::OK {
            return Err(PullError::Status {
                at: shown(uri),
                status: answer.status(),
            });
        }
        let text = Bounded::new(uri, answer.into_body(), TOKEN_MAX).text().await?;
        let token: Token = serde_json::from_slice(&text).map_err(|_| strange())?;
        let token = token.token.or(token.access_token).ok_or_else(strange)?;
        let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| strange())?;
        header.set_sensitive(true);
        Ok(header)
    }

    async fn send(&mut self, uri: &Uri, accept: &str) -> Result<Response<Body>, PullError> {
        let origin = origin(uri);
        let server = match self.servers.get(&origin) {
            Some(server) => server.clone(),
            None => {
                let server = server(&origin, &self.environment)
                    .await
                    .map_err(|source| unreachable(uri, source))?;
                self.servers.insert(origin.clone(), server.clone());
                server
            }
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::get(path)
            .header(ACCEPT, accept)
            .header(USER_AGENT, "nephele");
        if let Some(token) = self.tokens.get(&origin) {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request
            .body(Body::from(Vec::new()))
            .map_err(|source| unreachable(uri, source))?;
        server
            .send(request)
            .map_err(|source| unreachable(uri, source))
            .await
    }
}

/// The connections to a server. It is no API server, but proxies, TLS and silence are the same.
async fn server(
    origin: &str,
    environment: &Environment,
) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "server", "cluster": {"server": origin}}],
        "users": [{"name": "anyone", "user": {}}],
        "contexts": [{"name": "server", "context": {"cluster": "server", "user": "anyone"}}],
        "current-context": "server",
    }))?;
    let server = Server::of(
        kubeconfig,
        &kube::config::KubeConfigOptions::default(),
        environment,
    )
    .await?;
    Ok(server.client()?)
}

/// The body of an answer, until it is longer than it may be.
struct Bounded<'a> {
    uri: &'a Uri,
    body: Body,
    max: u64,
    left: u64,
}

impl<'a> Bounded<'a> {
    fn new(uri: &'a Uri, body: Body, max: u64) -> Self {
        Self {
            uri,
            body,
            max,
            left: max,
        }
    }

    async fn text(&mut self) -> Result<Vec<u8>, PullError> {
        let mut text = Vec::new();
        while let Some(data) = self.data().await? {
            text.extend_from_slice(&data);
        }
        Ok(text)
    }

    async fn data(&mut self) -> Result<Option<impl Deref<Target = [u8]> + use<>>, PullError> {
        loop {
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|source| unreachable(self.uri, source))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.left = self
                .left
                .checked_sub(data.len() as u64)
                .ok_or_else(|| PullError::TooLarge {
                    at: shown(self.uri),
                    max: self.max,
                })?;
            return Ok(Some(data));
        }
    }
}

async fn within<T>(
    limit: Duration,
    uri: &Uri,
    work: impl Future<Output = Result<T, PullError>>,
) -> Result<T, PullError> {
    let late = |_| unreachable(uri, format!("no whole answer within {limit:?}"));
    timeout(limit, work).await.map_err(late)?
}

fn unreachable(uri: &Uri, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> PullError {
    PullError::Unreachable {
        host: uri.authority().map(ToString::to_string).unwrap_or_default(),
        source: source.into(),
    }
}
