//! The manager's `/checkpoint`.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use clap::Args;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use nephele_checkpoint::Workloads;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    access::Access,
    diagnostics::{AccountFor, Ask, Manager, TokenArgs},
    provider::ProviderArgs,
};

/// The label of the account.
const LABEL: &str = "nephele.dev/checkpoint";
const ABOUT: &str = "the objects of workload clusters";
/// The route.
pub(crate) const PATH: &str = "/checkpoint";

/// Flags that say which manager is asked, and as whom.
#[derive(Debug, Args)]
pub(super) struct ManagerArgs {
    #[command(flatten)]
    provider: ProviderArgs,
    #[command(flatten)]
    token: TokenArgs,
}

/// Asks the manager.
pub(super) struct OfManager(Manager);

/// The path of a GET with its parameters.
pub(crate) fn path(namespace: &str, names: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("namespace", namespace)
        .append_pair("names", names);
    format!("{PATH}?{}", query.finish())
}

/// The names in the answer to a GET of names.
pub(crate) fn names_in(lines: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Line {
        name: String,
    }
    let lines = serde_json::Deserializer::from_slice(lines).into_iter::<Line>();
    let names = lines
        .map(|line| line.map(|line| line.name))
        .collect::<Result<_, _>>();
    names.context("failed to understand the names of workload clusters")
}

impl OfManager {
    async fn get(&self, namespace: &str, names: &str) -> anyhow::Result<Vec<u8>> {
        let ask = Ask {
            about: ABOUT,
            method: Method::GET,
            path: path(namespace, names),
            body: Bytes::new(),
        };
        let answer = self.0.ask(&ask).await?.succeeded(ABOUT).await?;
        Ok(answer.body.collect().await?.to_bytes().into())
    }
}

impl Workloads for OfManager {
    type Error = anyhow::Error;

    async fn read(&self, namespace: &str) -> anyhow::Result<Vec<u8>> {
        self.get(namespace, "false").await
    }

    async fn names(&self, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
        names_in(&self.get(namespace, "true").await?)
    }

    async fn put_back(&self, lines: Bytes) -> anyhow::Result<bool> {
        let ask = Ask {
            about: ABOUT,
            method: Method::PUT,
            path: PATH.to_owned(),
            body: lines,
        };
        let answer = self.0.ask(&ask).await?;
        if answer.status == StatusCode::CONFLICT {
            return Ok(false);
        }
        answer.succeeded(ABOUT).await.map(|_| true)
    }

    async fn forget(&self) -> anyhow::Result<()> {
        let ask = Ask {
            about: ABOUT,
            method: Method::DELETE,
            path: PATH.to_owned(),
            body: Bytes::new(),
        };
        self.0.ask(&ask).await?.succeeded(ABOUT).await.map(drop)
    }
}

/// Does something with the manager, as an account that may use its `/checkpoint` and nothing else.
pub(super) async fn with_manager<T>(
    access: &Access,
    manager: &ManagerArgs,
    time_limit: Duration,
    shutdown: &CancellationToken,
    act: impl AsyncFnOnce(&OfManager) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let run = format!("{:08x}", fastrand::u32(..));
    let account = AccountFor {
        name: format!("nephele-checkpoint-{run}"),
        label: (LABEL, &run),
        path: PATH,
        verbs: &["get", "put", "delete"],
        namespace: None,
        time_limit,
    };
    let workloads = OfManager(Manager::find(access, &manager.provider, &manager.token, account).await?);
    let done = shutdown.run_until_cancelled(act(&workloads)).await;
    let left = workloads.0.leave().await;
    let done = done.unwrap_or_else(|| Err(anyhow::anyhow!("interrupted")))?;
    left.map(|()| done)
}
