//! `nephele page`: the live page of any management cluster, with the rights of whoever runs the command.
//!
//! ```text
//!  browser ──▶ page on this machine ──watches──▶ API server ◀──port-forward── journal of the manager
//! ```

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{Router, body::Body, response::IntoResponse as _, routing::get};
use clap::Args;
use http::{Method, Response, StatusCode};
use hyper::body::Bytes;
use kube::{Api, Client, Resource, api::ListParams, core::NamespaceResourceScope};
use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario, SimulatedCloud},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_cloud::JournalFilter;
use nephele_controller::{Kind, chain, scoped, wall_clock};
use nephele_page::{Allowance, Means, Page, Screens, Source};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Access, TargetArgs, not_installed},
    diagnostics::{Ask, Manager, TokenArgs},
    exit::{Problem, is_forbidden},
    journal,
    loopback::loopback,
    matcher::matcher,
    output::print,
    provider::ProviderArgs,
    scenario::page_library,
};

/// How long the page waits for a manager that does not answer: each question costs the API server a port-forward.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Only this namespace [default: all]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show the cloud on a screen that people only look at: no controls, and whoever opens it can change nothing
    #[arg(long)]
    kiosk: bool,
    #[command(flatten)]
    provider: ProviderArgs,
    #[command(flatten)]
    token: TokenArgs,
}

/// Serves the page until the process is told to stop.
pub(crate) async fn run(args: PageArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let PageArgs {
        target,
        namespace,
        kiosk,
        provider,
        token,
    } = args;
    let screens = if kiosk { Screens::Kiosk } else { Screens::All };
    let page = Page::listen(loopback(), screens).context("failed to start the page")?;
    let Followed { source, manager } =
        Followed::open("The page", target, namespace, &provider, &token).await?;
    let served = async {
        print(&format!(
            "Page  {}\nThe address lets one browser in. Ctrl-C ends the page.\n",
            page.url()
        ))?;
        let means = Means {
            matcher,
            library: page_library(source.client.clone())?,
        };
        page.serve(source, means, wall_clock(), shutdown).await?;
        anyhow::Ok(())
    };
    let served = served.await;
    served.and(leave(manager).await)?;
    Ok(ExitCode::SUCCESS)
}

/// What is shown of a management cluster.
pub(crate) struct Followed {
    pub(crate) source: Source,
    /// The manager that has the journal, if the caller may read it.
    pub(crate) manager: Option<Arc<Manager>>,
}

impl Followed {
    /// A management cluster that the caller may read. `what` shows it, such as "The page".
    pub(crate) async fn open(
        what: &str,
        target: TargetArgs,
        namespace: Option<String>,
        provider: &ProviderArgs,
        token: &TokenArgs,
    ) -> anyhow::Result<Self> {
        let access = target.open().await?;
        let client = access.client.clone();
        let namespace = shown(what, &access, namespace).await?;
        let filter = JournalFilter {
            namespace: namespace.clone(),
            ..JournalFilter::default()
        };
        let path = journal::path(&filter, true)?;
        let manager = match journal::manager(&access, provider, token, namespace.as_deref()).await {
            Ok(manager) => Some(Arc::new(manager)),
            Err(error) => {
                eprintln!("{what} has no journal: {}", chain(error.as_ref()));
                None
            }
        };
        let source = Source {
            client,
            namespace,
            journal: routes(manager.clone(), path),
            allowance: Allowance::unlimited(),
        };
        Ok(Self { source, manager })
    }
}

/// Removes what reading the journal made in the cluster.
pub(crate) async fn leave(manager: Option<Arc<Manager>>) -> anyhow::Result<()> {
    match manager {
        Some(manager) => manager.leave().await,
        None => Ok(()),
    }
}

/// The namespace that is shown: the wanted one, else all, or that of the context for a caller who may not list all.
async fn shown(what: &str, access: &Access, wanted: Option<String>) -> anyhow::Result<Option<String>> {
    let Err(refused) = may_read(&access.client, wanted.as_deref()).await else {
        return Ok(wanted);
    };
    let own = Some(access.namespace.clone());
    if wanted.is_some() || !is_forbidden(&refused) || may_read(&access.client, own.as_deref()).await.is_err()
    {
        return Err(refused);
    }
    access.tell_of_one_namespace(what);
    Ok(own)
}

/// Whether the caller may read what the page shows. A watch that is refused would only leave the page empty.
async fn may_read(client: &Client, namespace: Option<&str>) -> anyhow::Result<()> {
    may_list::<Cluster>(client, namespace).await?;
    may_list::<Machine>(client, namespace).await?;
    may_list::<InMemoryCluster>(client, namespace).await?;
    may_list::<InMemoryMachine>(client, namespace).await?;
    may_list::<SimulatedCloud>(client, namespace).await?;
    may_list::<Fault>(client, namespace).await?;
    may_list::<Scenario>(client, namespace).await
}

async fn may_list<K>(client: &Client, namespace: Option<&str>) -> anyhow::Result<()>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let api: Api<K> = scoped(client.clone(), namespace);
    let one = ListParams::default().limit(1);
    let Err(error) = api.list_metadata(&one).await else {
        return Ok(());
    };
    if matches!(&error, kube::Error::Api(status) if status.code == StatusCode::NOT_FOUND.as_u16()) {
        return Err(not_installed(&K::group(&()), &K::kind(&())).into());
    }
    let kinds = K::plural(&());
    let group = K::group(&());
    let permission = match namespace {
        Some(namespace) => format!("list {kinds}.{group} in namespace {namespace}"),
        None => format!("list {kinds}.{group} in all namespaces; --namespace asks for one"),
    };
    Err(Problem::request(&format!("list {kinds}"), &permission, error).into())
}

/// `/journal` of the manager, if there is one to ask.
fn routes(manager: Option<Arc<Manager>>, path: String) -> Router {
    let ask = Ask {
        about: "the journal",
        method: Method::GET,
        path,
        body: Bytes::new(),
    };
    let journal = move || {
        let manager = manager.clone();
        let ask = ask.clone();
        async move {
            let answer = match &manager {
                Some(manager) => manager.ask(&ask).await.ok(),
                // Nothing to ask, and nothing that would come later.
                None => std::future::pending().await,
            };
            match answer.filter(|answer| answer.status.is_success()) {
                Some(answer) => Response::new(Body::new(answer.body)),
                None => {
                    sleep(RETRY).await;
                    StatusCode::SERVICE_UNAVAILABLE.into_response()
                }
            }
        }
    };
    Router::new().route("/journal", get(journal))
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;

    use super::*;

    #[tokio::test]
    async fn who_may_not_list_all_namespaces_is_shown_that_of_the_context() {
        let management = ManagementApi::start();
        let access = |client: Client| Access {
            client,
            namespace: "default".to_owned(),
            manager: None,
            token: None,
        };
        let of_all = access(management.client());
        assert_eq!(shown("The page", &of_all, None).await.expect("all"), None);
        let tenant = access(management.forbidding(|_, path| !path.contains("/namespaces/default/")));
        let own = Some("default".to_owned());
        assert_eq!(shown("The page", &tenant, None).await.expect("one"), own);
        assert!(
            shown("The page", &tenant, Some("other".to_owned()))
                .await
                .is_err()
        );
        let nothing = access(management.forbidding(|_, _| true));
        let refused = shown("The page", &nothing, None).await.expect_err("nothing");
        assert!(refused.to_string().contains("in all namespaces"), "{refused}");
    }
}
