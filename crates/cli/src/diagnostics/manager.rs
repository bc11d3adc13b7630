//! The manager that runs the cloud: one of the replicas in a management cluster, or the one in the process of `nephele up`.

use anyhow::{Context as _, bail};
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

use super::MANAGER_PODS;
use super::account::{Account, AccountFor};
use super::request::{Answer, Diagnostics};
use super::targets::{Target, targets};
use crate::embedded::GIT_VERSION;
use crate::exit::{Exit, Problem};

/// The most replicas of the manager that are asked.
const PODS_MAX: usize = 16;
/// The longest answer that says why a request is refused.
const REASON_MAX: usize = 4 * 1024;

/// A request to the manager.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// What it is about, such as "the journal".
    pub(crate) about: &'static str,
    pub(crate) method: Method,
    /// The path, with its parameters.
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

/// How to reach the manager.
pub(crate) enum Manager {
    /// Its routes are those of the management API.
    InProcess(Client),
    /// Port-forwards to its pods.
    InPods { diagnostics: Diagnostics, pods: Vec<Target>, account: Option<Account> },
}

impl Manager {
    /// Finds the manager of a management cluster. Without a token, creates an account for it.
    ///
    /// # Errors
    /// When the management cluster does not answer, has no manager, or refuses the account.
    pub(crate) async fn find(
        client: &Client,
        token: Option<String>,
        account: AccountFor<'_>,
    ) -> anyhow::Result<Self> {
        let version = client.apiserver_version().await;
        let version = version.map_err(|error| {
            Problem::request("ask the management cluster for its version", "get /version", error)
        })?;
        if version.git_version == GIT_VERSION {
            return Ok(Self::InProcess(client.clone()));
        }
        let pods = pods(client).await?;
        let (token, account) = match token {
            Some(token) => (token, None),
            None => {
                let account = Account::create(client, account).await?;
                (account.token.clone(), Some(account))
            }
        };
        Ok(Self::InPods { diagnostics: Diagnostics::new(client.clone(), token)?, pods, account })
    }

    /// Removes the account, if one was created.
    ///
    /// # Errors
    /// When a part of it is left.
    pub(crate) async fn leave(&self) -> anyhow::Result<()> {
        match self {
            Self::InPods { account: Some(account), .. } => account.remove().await,
            Self::InPods { account: None, .. } | Self::InProcess(_) => Ok(()),
        }
    }

    /// The answer of the manager that runs the cloud, also one that refuses.
    ///
    /// # Errors
    /// When no manager runs it, or the caller may not ask.
    pub(crate) async fn ask(&self, ask: &Ask) -> anyhow::Result<Answer> {
        let about = ask.about;
        let (diagnostics, pods) = match self {
            Self::InProcess(client) => {
                return in_process(client, ask).await.with_context(|| format!("failed to ask for {about}"));
            }
            Self::InPods { diagnostics, pods, .. } => (diagnostics, pods),
        };
        let mut reason = String::new();
        for pod in pods {
            let answer = diagnostics.send(pod, ask.method.clone(), &ask.path, ask.body.clone()).await;
            let answer = answer.with_context(|| format!("failed to ask {} for {about}", pod.pod))?;
            match answer.status {
                StatusCode::SERVICE_UNAVAILABLE => {
                    reason = format!("{}: {}", pod.pod, answer.text(REASON_MAX).await?.trim());
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    let verb = ask.method.as_str().to_lowercase();
                    let path = ask.path.split('?').next().unwrap_or_default();
                    let message = format!(
                        "failed to ask {} for {about}: {}; the token needs the permission to {verb} {path}",
                        pod.pod, answer.status
                    );
                    return Err(Problem::new(Exit::Forbidden, message).into());
                }
                StatusCode::NOT_FOUND => bail!(
                    "failed to ask {} for {about}: {}; the manager serves it only when its diagnostics ask for a token",
                    pod.pod,
                    answer.status
                ),
                _ => return Ok(answer),
            }
        }
        bail!("failed to ask for {about}: {reason}")
    }
}

impl Answer {
    /// The answer, if the request succeeded.
    ///
    /// # Errors
    /// With what the manager says.
    pub(crate) async fn succeeded(self, about: &str) -> anyhow::Result<Self> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status;
        bail!("failed to ask for {about}: {status}: {}", self.text(REASON_MAX).await?.trim())
    }
}

async fn in_process(client: &Client, ask: &Ask) -> anyhow::Result<Answer> {
    let request = Request::builder().method(ask.method.clone()).uri(&ask.path);
    let request =
        request.body(kube::client::Body::from(ask.body.clone())).context("failed to make a request")?;
    let answer = client.send(request).await.context("the management API does not answer")?;
    Ok(Answer::of(answer))
}

/// The running pods of the manager.
async fn pods(client: &Client) -> anyhow::Result<Vec<Target>> {
    let listed = Api::<Pod>::all(client.clone()).list(&ListParams::default().labels(MANAGER_PODS)).await;
    let listed = listed
        .map_err(|error| Problem::request("find the manager's pod", "list pods in all namespaces", error))?;
    let pods = targets(&listed.items, PODS_MAX);
    if pods.is_empty() {
        let message = format!(
            "found no running pod of Nephele's manager; is the infrastructure provider installed in this cluster? \
             Its pods have the labels {MANAGER_PODS}"
        );
        return Err(Problem::new(Exit::NotFound, message).into());
    }
    Ok(pods)
}
