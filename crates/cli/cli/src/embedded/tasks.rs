//! The manager and the stand-in, as tasks of this process.

use std::{
    future::poll_fn,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use axum::Router;
use kube::Client;
use nephele_controller::wall_clock;
use nephele_fake_capi::{PlannedClusters, Surroundings};
use nephele_manager::{Config, ConfigError, Manager, Options};
use nephele_page::{Allowance, Library, Means, Page, Screens, Source};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{loopback::loopback, manager_socket, matcher::matcher};

/// How long all tasks may take to stop. The manager takes eight seconds at most.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The settings of the manager that differ between commands.
pub(crate) struct ManagerSettings {
    /// `FIRST-LAST`, as the user wrote it.
    pub(crate) port_range: String,
    pub(crate) journal: PathBuf,
    /// A part of the manager's identity.
    pub(crate) name: &'static str,
    /// The seed of all draws.
    pub(crate) seed: String,
    /// Where the webhooks are served, for an API server that calls them.
    pub(crate) webhooks: Option<WebhookSettings>,
    /// Whether the stand-in plays Cluster API for it.
    pub(crate) has_stand_in: bool,
}

/// Webhooks on the loopback interface.
#[derive(Clone, Debug)]
pub(crate) struct WebhookSettings {
    pub(crate) port: u16,
    /// The folder with their certificate and key.
    pub(crate) folder: PathBuf,
}

impl WebhookSettings {
    /// The name of the file with the certificate.
    pub(crate) const CERTIFICATE: &str = "webhook.crt";
    /// The name of the file with the key.
    pub(crate) const KEY: &str = "webhook.key";
}

/// Tasks that run until the process stops. Each of them ends early only because of an error.
pub(crate) struct Tasks {
    stop: CancellationToken,
    running: Vec<(&'static str, JoinHandle<anyhow::Result<()>>)>,
}

impl Tasks {
    /// No tasks yet; those that are added end with `stop`.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            running: Vec::new(),
        }
    }

    /// Starts a manager whose workload clusters are on the loopback interface. Returns the routes of its cloud.
    pub(crate) fn add_manager(
        &mut self,
        client: Client,
        settings: ManagerSettings,
    ) -> anyhow::Result<Router> {
        let ManagerSettings {
            port_range,
            journal,
            name,
            seed,
            webhooks,
            has_stand_in,
        } = settings;
        let address = loopback().to_string();
        let mut options = Options {
            diagnostics_address: String::new(),
            health_address: String::new(),
            advertise_host: Some(address.clone()),
            bind_address: address.clone(),
            workload_ports: port_range.clone(),
            seed,
            journal: journal.display().to_string(),
            identity: format!("nephele-{name}"),
            ..Options::default()
        };
        if let Some(webhooks) = webhooks {
            options.webhook_host = address;
            options.webhook_port = webhooks.port;
            options.webhook_cert_dir = webhooks.folder.display().to_string();
            WebhookSettings::CERTIFICATE.clone_into(&mut options.webhook_cert_name);
            WebhookSettings::KEY.clone_into(&mut options.webhook_key_name);
        }
        // The only manager option of a user that can be wrong.
        let config = Config::new(options).map_err(|error| match error {
            ConfigError::WorkloadPorts(_) => {
                anyhow!("--port-range {port_range:?} is not FIRST-LAST, within 1..=65535 and in this order")
            }
            other => other.into(),
        })?;
        let config = if has_stand_in {
            config.with_stand_in()
        } else {
            config
        };
        let manager = Manager::build(config, client).context("failed to build the manager")?;
        let stop = self.stop.clone();
        let routes = manager.cloud_routes();
        self.add(
            "manager",
            tokio::spawn(async move { Ok(manager.run(stop).await?) }),
        );
        Ok(routes)
    }

    /// Starts the stand-in for Cluster API.
    pub(crate) fn add_standin(&mut self, client: Client, clusters: PlannedClusters) {
        let stop = self.stop.clone();
        let playing = async move {
            nephele_fake_capi::play(client, clusters, Surroundings::real(wall_clock()), stop).await;
            Ok(())
        };
        self.add("stand-in for Cluster API", tokio::spawn(playing));
    }

    /// Starts the page, which shows what this management API and this cloud do. Returns its address, which lets one browser in.
    pub(crate) fn add_page(
        &mut self,
        client: Client,
        routes: Router,
        library: Arc<dyn Library>,
    ) -> anyhow::Result<String> {
        let page = Page::listen(loopback(), Screens::All)
            .context("failed to start the page; --no-page leaves it out")?;
        let url = page.url().to_owned();
        let source = Source {
            client,
            namespace: None,
            journal: routes,
            allowance: Allowance::unlimited(),
        };
        let means = Means { matcher, library };
        let stop = self.stop.clone();
        self.add(
            "page",
            tokio::spawn(async move { Ok(page.serve(source, means, wall_clock(), stop).await?) }),
        );
        Ok(url)
    }

    /// Serves the routes of the cloud by a socket in a folder, for commands that have a kubeconfig of an API server of others.
    pub(crate) fn add_socket(&mut self, folder: &Path, routes: Router) -> anyhow::Result<()> {
        let listener = manager_socket::listen(folder)?;
        let stop = self.stop.clone();
        self.add(
            "socket",
            tokio::spawn(manager_socket::serve(listener, routes, stop)),
        );
        Ok(())
    }

    fn add(&mut self, name: &'static str, task: JoinHandle<anyhow::Result<()>>) {
        self.running.push((name, task));
    }

    /// Waits until a task ends, which is always an error.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        let (name, result) = poll_fn(|context| {
            for (name, task) in &mut self.running {
                if let Poll::Ready(result) = Pin::new(task).poll(context) {
                    return Poll::Ready((*name, result));
                }
            }
            Poll::Pending
        })
        .await;
        let cause = match result {
            Ok(Ok(())) => anyhow!("it returned without an error"),
            Ok(Err(error)) => error,
            Err(error) => error.into(),
        };
        cause.context(format!("the {name} ended early"))
    }

    /// Stops all tasks, the last one first, within a time limit.
    pub(crate) async fn finish(mut self) {
        self.stop.cancel();
        let mut waited_for = "";
        let finished = async {
            while let Some((name, task)) = self.running.pop() {
                waited_for = name;
                if !task.is_finished()
                    && let Ok(Err(error)) = task.await
                {
                    tracing::warn!(error = %nephele_controller::chain(error.as_ref()), "Failed while stopping");
                }
            }
        };
        if timeout(STOP_MAX, finished).await.is_err() {
            tracing::warn!(task = waited_for, "A task did not stop in time");
        }
    }
}
