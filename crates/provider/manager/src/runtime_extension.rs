//! The runtime extension: Nephele's answers to the hooks of Cluster API. Every replica serves it, with a certificate
//! that the manager makes and renews. Cluster API copies the authority of that certificate from the Secret into the
//! `ExtensionConfig` (`runtime.cluster.x-k8s.io/inject-ca-from-secret`).
//!
//! A client that reaches the port can make the extension act with the manager's permissions, limited to the watched
//! namespace if there is one. So the extension can require client certificates. Cluster API shows one with
//! `--runtime-extension-client-cert-file` and `--runtime-extension-client-key-file`.

use std::{convert::Infallible, future::pending, io, net::TcpListener, path::PathBuf, sync::Arc};

use hyper_util::service::TowerToHyperService;
use kube::Client;
use nephele_controller::{Clock, Gate, Readiness};
use nephele_listen::{Limits, Peer, Session};
use nephele_runtime_sdk::server::{ExtensionError, Metrics, Recorder, Service};
use nephele_test_extension::Access;
use nephele_webhook::{
    ServedCertificate, TlsPolicy,
    certificate::{Targets, keeper::Keeping},
    keep,
};
use prometheus::Registry;
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    client_authorities::{ClientAuthorities, ClientAuthoritiesError},
    config::RuntimeExtensionConfig,
    tasks::Tasks,
};

/// The tasks, in the order in which they are stopped.
pub(crate) const TASKS: [&str; 2] = ["runtime extension", "runtime extension certificates"];

/// Names of objects in `config/runtime-extension`.
const SERVICE: &str = "nephele-runtime-extension-service";
const SECRET: &str = "nephele-runtime-extension-certificate";

/// Why the extension could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeExtensionError {
    /// A metric is declared twice.
    #[error("failed to register metrics")]
    Metrics(#[source] prometheus::Error),
    /// Callers would refuse the extension.
    #[error("failed to build the extension")]
    Extension(#[source] ExtensionError),
    /// The client authorities cannot be used.
    #[error("failed to use --runtime-extension-client-ca-file")]
    ClientAuthorities(#[source] ClientAuthoritiesError),
    /// Calls cannot be recorded.
    #[error("failed to create the folder {} for recordings", folder.display())]
    Recordings {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The extension with its listener, not yet served.
pub(crate) struct RuntimeExtension {
    listener: TcpListener,
    service: Service,
    keeping: Keeping,
    tls: TlsPolicy,
    /// If set, clients have to show a certificate of one of these.
    client_authorities: Option<ClientAuthorities>,
    certificate_metrics: nephele_webhook::Metrics,
    /// Opened with the first certificate.
    gate: Gate,
}

impl RuntimeExtension {
    /// # Errors
    ///
    /// When the registry has metrics of its names, the client authorities cannot be used, or the folder for
    /// recordings cannot be created.
    pub(crate) fn new(
        listener: TcpListener,
        config: &RuntimeExtensionConfig,
        tls: TlsPolicy,
        access: &Access,
        clock: Clock,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, RuntimeExtensionError> {
        let metrics = Metrics::register(registry).map_err(RuntimeExtensionError::Metrics)?;
        // The webhooks' certificate metrics have the same names, so these metrics are not exported.
        let certificate_metrics = nephele_webhook::Metrics::register(&Registry::new());
        let RuntimeExtensionConfig {
            address: _,
            namespace,
            cluster_api,
            client_authorities,
            recordings,
        } = config;
        let client_authorities = client_authorities
            .clone()
            .map(ClientAuthorities::load)
            .transpose();
        let mut extension = nephele_test_extension::extension(access, clock)
            .for_release(*cluster_api)
            .metrics(metrics)
            .openapi("/openapi/v3");
        if let Some(folder) = recordings {
            let recorder = Recorder::in_folder(folder);
            let failed = |source| RuntimeExtensionError::Recordings {
                folder: folder.clone(),
                source,
            };
            extension = extension.record(recorder.map_err(failed)?);
        }
        let service = extension.build().map_err(RuntimeExtensionError::Extension)?;
        Ok(Self {
            listener,
            service,
            keeping: keeping(namespace),
            tls,
            client_authorities: client_authorities.map_err(RuntimeExtensionError::ClientAuthorities)?,
            certificate_metrics: certificate_metrics.map_err(RuntimeExtensionError::Metrics)?,
            gate: readiness.gate("runtime-extension"),
        })
    }

    /// Starts the tasks.
    pub(crate) fn spawn(self, tasks: &mut Tasks, client: Client, clock: Clock, shutdown: &CancellationToken) {
        let Self {
            listener,
            service,
            keeping,
            tls,
            client_authorities,
            certificate_metrics,
            gate,
        } = self;
        let [server, keeper] = TASKS;
        let certificate = ServedCertificate::none();
        let tls = TlsAcceptor::from(server_config(&certificate, &tls, client_authorities.as_ref()));
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
            let followed = async {
                match client_authorities {
                    Some(authorities) => authorities.follow(shutdown.clone()).await,
                    None => pending().await,
                }
            };
            let kept = keep(
                client,
                keeping,
                certificate.clone(),
                certificate_metrics,
                clock,
                shutdown.clone(),
            );
            tokio::select! {
                () = opened => {}
                () = followed => {}
                () = kept => {}
            }
            Ok::<(), Infallible>(())
        });
    }
}

/// TLS with the served certificate. With client authorities, clients need a certificate of one of them.
fn server_config(
    certificate: &ServedCertificate,
    tls: &TlsPolicy,
    clients: Option<&ClientAuthorities>,
) -> Arc<ServerConfig> {
    let Some(clients) = clients else {
        return certificate.server_config(tls);
    };
    let builder = tls.server().with_client_cert_verifier(Arc::new(clients.clone()));
    let mut config = builder.with_cert_resolver(Arc::new(certificate.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// The certificate is for the name of the Service, and for `localhost`, which callers on this machine use.
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
            include_str!(concat!("../../../../config/runtime-extension/", $name))
        };
    }

    #[test]
    fn what_is_kept_is_named_as_in_the_configuration() {
        let namespace = "nephele-runtime-extension-system";
        let keeping = keeping(namespace);
        assert!(file!("role.yaml").contains(&format!("resourceNames: [{}]", keeping.secret)));
        assert!(file!("service.yaml").contains(&format!("\n  name: {SERVICE}\n")));
        let config = file!("extension_config.yaml");
        let injected = format!(
            "runtime.cluster.x-k8s.io/inject-ca-from-secret: {namespace}/{}\n",
            keeping.secret
        );
        assert!(config.contains(&injected));
        assert!(config.contains(&format!("service: {{namespace: {namespace}, name: {SERVICE}, ")));
        assert_eq!(keeping.dns_names[0], format!("{SERVICE}.{namespace}.svc"));
        assert_eq!(keeping.dns_names.last().map(String::as_str), Some("localhost"));
    }
}
