//! The runtime extension: Nephele's answers to the hooks of Cluster API, served by every replica with a certificate that
//! the manager keeps. Cluster API copies its authority from the Secret into the `ExtensionConfig`
//! (`runtime.cluster.x-k8s.io/inject-ca-from-secret`).

use std::{convert::Infallible, future::pending, io, net::TcpListener, path::PathBuf};

use hyper_util::service::TowerToHyperService;
use kube::Client;
use nephele_kit::{Clock, Gate, Readiness};
use nephele_listen::{Limits, Peer, Session};
use nephele_runtime_sdk::server::{ExtensionError, Metrics, Recorder, Service};
use nephele_webhook::{
    ServedCertificate, TlsPolicy,
    certificate::{Targets, keeper::Keeping},
    keep,
};
use prometheus::Registry;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{config::RuntimeExtensionConfig, tasks::Tasks};

/// The tasks, in the order in which they end.
pub(crate) const TASKS: [&str; 2] = ["runtime extension", "runtime extension certificates"];

/// Names of what is in `config/runtime-extension`.
const SERVICE: &str = "nephele-runtime-extension-service";
const SECRET: &str = "nephele-runtime-extension-certificate";

/// Why there is no extension.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeExtensionError {
    /// A metric is declared twice.
    #[error("failed to register metrics")]
    Metrics(#[source] prometheus::Error),
    /// Callers would refuse it.
    #[error("failed to make the extension")]
    Extension(#[source] ExtensionError),
    /// Calls cannot be kept.
    #[error("failed to make {}, for recordings", folder.display())]
    Recordings {
        /// Where they were to be kept.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The extension, listened for and not yet served.
pub(crate) struct RuntimeExtension {
    listener: TcpListener,
    service: Service,
    keeping: Keeping,
    tls: TlsPolicy,
    certificate_metrics: nephele_webhook::Metrics,
    /// Opened with the first certificate.
    gate: Gate,
}

impl RuntimeExtension {
    /// # Errors
    ///
    /// When the registry has metrics of its names, or the folder for recordings cannot be made.
    pub(crate) fn new(
        listener: TcpListener,
        config: &RuntimeExtensionConfig,
        tls: TlsPolicy,
        client: &Client,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, RuntimeExtensionError> {
        let metrics = Metrics::register(registry).map_err(RuntimeExtensionError::Metrics)?;
        // Those of the webhooks have their names; these are seen by nobody.
        let certificate_metrics = nephele_webhook::Metrics::register(&Registry::new());
        let RuntimeExtensionConfig { address: _, namespace, cluster_api, recordings } = config;
        let mut extension = nephele_hooks::extension(client)
            .for_release(*cluster_api)
            .metrics(metrics)
            .openapi("/openapi/v3");
        if let Some(folder) = recordings {
            let recorder = Recorder::in_folder(folder);
            let failed = |source| RuntimeExtensionError::Recordings { folder: folder.clone(), source };
            extension = extension.record(recorder.map_err(failed)?);
        }
        let service = extension.build().map_err(RuntimeExtensionError::Extension)?;
        Ok(Self {
            listener,
            service,
            keeping: keeping(namespace),
            tls,
            certificate_metrics: certificate_metrics.map_err(RuntimeExtensionError::Metrics)?,
            gate: readiness.gate("runtime-extension"),
        })
    }

    /// Starts the tasks.
    pub(crate) fn spawn(self, tasks: &mut Tasks, client: Client, clock: Clock, shutdown: &CancellationToken) {
        let Self { listener, service, keeping, tls, certificate_metrics, gate } = self;
        let [server, keeper] = TASKS;
        let certificate = ServedCertificate::none();
        let tls = TlsAcceptor::from(certificate.server_config(&tls));
        let router = TowerToHyperService::new(service.router());
        let session = move |_: Peer<'_>| Session::unauthenticated(router.clone());
        let tls = move || Some(tls.clone());
        tasks.spawn(
            server,
            nephele_listen::serve(listener, tls, Limits::default(), session, shutdown.clone()),
        );
        let shutdown = shutdown.clone();
        tasks.spawn(keeper, async move {
            let opened = async {
                certificate.until_set().await;
                gate.open();
                pending::<()>().await;
            };
            let kept = keep(client, keeping, certificate.clone(), certificate_metrics, clock, shutdown);
            tokio::select! {
                () = opened => {}
                () = kept => {}
            }
            Ok::<(), Infallible>(())
        });
    }
}

/// What is kept: a certificate for the Service, and for who reaches the process on this machine.
fn keeping(namespace: &str) -> Keeping {
    let mut dns_names = Keeping::names_of_service(SERVICE, namespace);
    dns_names.push("localhost".to_owned());
    Keeping {
        namespace: namespace.to_owned(),
        secret: SECRET.to_owned(),
        dns_names,
        targets: Targets::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of `config/runtime-extension`.
    macro_rules! file {
        ($name:literal) => {
            include_str!(concat!("../../../config/runtime-extension/", $name))
        };
    }

    #[test]
    fn what_is_kept_is_named_as_in_the_configuration() {
        let namespace = "nephele-runtime-extension-system";
        let keeping = keeping(namespace);
        assert!(file!("role.yaml").contains(&format!("resourceNames: [{}]", keeping.secret)));
        assert!(file!("service.yaml").contains(&format!("\n  name: {SERVICE}\n")));
        let config = file!("extension_config.yaml");
        let injected =
            format!("runtime.cluster.x-k8s.io/inject-ca-from-secret: {namespace}/{}\n", keeping.secret);
        assert!(config.contains(&injected));
        assert!(config.contains(&format!("service: {{namespace: {namespace}, name: {SERVICE}, ")));
        assert_eq!(keeping.dns_names[0], format!("{SERVICE}.{namespace}.svc"));
        assert_eq!(keeping.dns_names.last().map(String::as_str), Some("localhost"));
    }
}
