//! The manager that runs the cloud: one of the replicas in a management cluster, or the one in the process of `nephele up`,
//! whose routes are those of the management API, or of a socket beside its kubeconfig.

use std::{io::Read as _, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use kube::Client;
use nephele_manager::DIAGNOSTICS_AUDIENCE;

use super::{
    account::{Account, AccountFor, narrower},
    request::{Answer, Diagnostics},
    targets::{Target, targets},
};
use crate::{
    access::Access,
    embedded::is_embedded,
    exit::{Exit, Problem},
    manager_socket,
    provider::{self, ProviderArgs},
};

/// The longest answer that says why a request is refused.
const REASON_MAX: usize = 4 * 1024;

/// Whoever may get these in a namespace may read its part of the journal.
const CLUSTERS: &str = "inmemoryclusters.infrastructure.cluster.x-k8s.io";

/// A request to the manager.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// What it shows, such as "the journal".
    pub(crate) about: &'static str,
    pub(crate) method: Method,
    /// The path, with its parameters.
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

/// The flag with a token. Command lines are no place for it: every process of the machine can read them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TokenArgs {
    /// File with a token for the audience diagnostics.nephele.dev, or - for the standard input [default: NAME.token beside
    /// NAME.kubeconfig, or that of an account which the command creates and removes]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token of the flag, or else the one beside the kubeconfig.
    fn read(&self, beside: Option<&String>) -> anyhow::Result<Option<String>> {
        let Some(file) = &self.token_file else {
            return Ok(beside.cloned());
        };
        let mut text = String::new();
        let read = match file.as_os_str() == "-" {
            true => std::io::stdin().read_to_string(&mut text).map(drop),
            false => std::fs::read_to_string(file).map(|content| text = content),
        };
        read.with_context(|| format!("failed to read the token in {}", file.display()))?;
        let token = text.trim();
        anyhow::ensure!(!token.is_empty(), "there is no token in {}", file.display());
        Ok(Some(token.to_owned()))
    }
}

/// How to reach the manager.
pub(crate) enum Manager {
    /// This client reaches its routes: they are those of the management API, or of a socket.
    InProcess(Client),
    /// A port-forward to its pod.
    InPod(Box<InPod>),
}

/// A manager in a pod of its namespace.
pub(crate) struct InPod {
    diagnostics: Diagnostics,
    namespace: String,
    /// Whether the only pod is trusted where none leads.
    insecure: bool,
    account: Option<Account>,
}

impl Manager {
    /// Finds the manager of a management cluster. Without a token, creates an account for it.
    ///
    /// # Errors
    /// When the management cluster does not answer, has no manager that leads, or refuses the account.
    pub(crate) async fn find(
        access: &Access,
        provider: &ProviderArgs,
        token: &TokenArgs,
        account: AccountFor<'_>,
    ) -> anyhow::Result<Self> {
        let client = &access.client;
        if is_embedded(client).await? {
            return Ok(Self::InProcess(client.clone()));
        }
        if let Some(socket) = &access.manager {
            return Ok(Self::InProcess(manager_socket::client(socket.clone())));
        }
        let insecure = provider.insecure_manager;
        let namespace = provider::namespace(client, &provider.namespace).await?;
        // Without a manager, no account is needed.
        leader(client, &namespace, insecure).await?;
        let (token, account) = match token.read(access.token.as_ref())? {
            Some(token) => (token, None),
            None => {
                let audience = Some(DIAGNOSTICS_AUDIENCE);
                let account = Account::create(client, &namespace, audience, account).await?;
                (account.token.clone(), Some(account))
            }
        };
        let diagnostics = Diagnostics::new(client.clone(), token)?;
        Ok(Self::InPod(Box::new(InPod {
            diagnostics,
            namespace,
            insecure,
            account,
        })))
    }

    /// Removes the account, if one was created.
    ///
    /// # Errors
    /// When a part of it is left.
    pub(crate) async fn leave(&self) -> anyhow::Result<()> {
        match self {
            Self::InPod(manager) => match &manager.account {
                Some(account) => account.remove().await,
                None => Ok(()),
            },
            Self::InProcess(_) => Ok(()),
        }
    }

    /// The answer of the manager that runs the cloud, also one that refuses.
    ///
    /// # Errors
    /// When no manager runs it, or the caller may not ask.
    pub(crate) async fn ask(&self, ask: &Ask) -> anyhow::Result<Answer> {
        let about = ask.about;
        let (diagnostics, namespace, insecure) = match self {
            Self::InProcess(client) => {
                return in_process(client, ask)
                    .await
                    .with_context(|| format!("failed to ask for {about}"));
            }
            Self::InPod(manager) => (&manager.diagnostics, &manager.namespace, manager.insecure),
        };
        // Another one may lead by now.
        let target = leader(diagnostics.client(), namespace, insecure).await?;
        let answer = diagnostics
            .send(&target, ask.method.clone(), &ask.path, ask.body.clone())
            .await;
        let answer = answer.with_context(|| format!("failed to ask {} for {about}", target.pod))?;
        match answer.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                let reason = answer.text(REASON_MAX).await?;
                bail!("failed to ask for {about}: {}: {}", target.pod, reason.trim())
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let message = format!(
                    "failed to ask {} for {about}: {}; the token needs the audience {DIAGNOSTICS_AUDIENCE} and the \
                     permission to {}",
                    target.pod,
                    answer.status,
                    permission(ask)
                );
                Err(Problem::new(Exit::Forbidden, message).into())
            }
            StatusCode::NOT_FOUND => bail!(
                "failed to ask {} for {about}: {}; the manager serves it only when its diagnostics ask for a token",
                target.pod,
                answer.status
            ),
            _ => Ok(answer),
        }
    }
}

/// What a token has to allow for a request.
fn permission(ask: &Ask) -> String {
    let verb = ask.method.as_str().to_lowercase();
    let (path, query) = ask.path.split_once('?').unwrap_or((&ask.path, ""));
    let right = format!("{verb} {path}");
    let Some(way) = narrower(path) else {
        return right;
    };
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    match parameters.find(|(name, _)| name == "namespace") {
        Some((_, namespace)) => format!("{right}, or to get {CLUSTERS} in namespace {namespace}"),
        None => format!("{right}; {way}"),
    }
}

/// The diagnostics of the pod that leads. Its own arguments say on which port they are; whether they are secure is not
/// for the pod to say.
async fn leader(client: &Client, namespace: &str, insecure: bool) -> anyhow::Result<Target> {
    let leader = provider::leader(client, namespace, insecure).await?;
    let found = targets(std::slice::from_ref(&leader.pod), 1).into_iter().next();
    let found = found.context("the manager serves no diagnostics: --diagnostics-address turns them off")?;
    Ok(Target {
        is_tls: true,
        certificate: leader.certificate,
        ..found
    })
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
        bail!(
            "failed to ask for {about}: {status}: {}",
            self.text(REASON_MAX).await?.trim()
        )
    }
}

async fn in_process(client: &Client, ask: &Ask) -> anyhow::Result<Answer> {
    let request = Request::builder().method(ask.method.clone()).uri(&ask.path);
    let request = request
        .body(kube::client::Body::from(ask.body.clone()))
        .context("failed to make a request")?;
    let answer = client.send(request).await.context("nephele up does not answer")?;
    Ok(Answer::of(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_namespace_that_is_asked_for_or_with_the_way_to_ask_for_one() {
        let needs = |path: &str| {
            permission(&Ask {
                about: "the journal",
                method: Method::GET,
                path: path.to_owned(),
                body: Bytes::new(),
            })
        };
        assert_eq!(
            [
                needs("/journal?follow=false"),
                needs("/journal?namespace=ada&follow=true"),
                needs("/checkpoint?namespace=ada"),
            ],
            [
                "get /journal; -n NAMESPACE asks for one namespace, where the permission to get inmemoryclusters is enough",
                "get /journal, or to get inmemoryclusters.infrastructure.cluster.x-k8s.io in namespace ada",
                "get /checkpoint",
            ]
        );
    }
}
