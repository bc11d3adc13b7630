//! The webhooks of pools: served by every replica, with certificates that the manager keeps or somebody else does.

use std::{convert::Infallible, future::pending, net::TcpListener};

use kube::Client;
use nephele_kit::{Clock, Gate, Readiness};
use nephele_webhook::{
    Metrics, ServedCertificate, Webhook,
    certificate::{Targets, folder::Folder, keeper::Keeping},
    follow_folder, keep, serve,
};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

/// The tasks, in the order in which they end.
pub(crate) const TASKS: [&str; 2] = ["webhook server", "webhook certificates"];

/// Names of what is in `config/webhook`.
const SECRET: &str = "capi-ipam-in-cluster-webhook-certificate";
const VALIDATING: &str = "capi-ipam-in-cluster-validating-webhook-configuration";
const MUTATING: &str = "capi-ipam-in-cluster-mutating-webhook-configuration";

/// Where certificates come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Certificates {
    /// Files that somebody else renews, and has trusted.
    Folder(Folder),
    /// Our own.
    Kept {
        /// The manager's namespace, in which the Secret and the Service are.
        namespace: String,
        /// The Service that API servers call.
        service: String,
    },
}

/// Webhooks that are listened for and not yet served.
pub(crate) struct Webhooks {
    listener: TcpListener,
    certificates: Certificates,
    metrics: Metrics,
    /// Opened with the first certificate.
    gate: Gate,
}

impl Webhooks {
    /// # Errors
    ///
    /// When the registry has metrics of their names.
    pub(crate) fn new(
        listener: TcpListener,
        certificates: Certificates,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, prometheus::Error> {
        let metrics = Metrics::register(registry)?;
        Ok(Self { listener, certificates, metrics, gate: readiness.gate("webhook") })
    }

    /// Starts the tasks.
    pub(crate) fn spawn(self, tasks: &mut Tasks, client: Client, clock: Clock, shutdown: &CancellationToken) {
        let Self { listener, certificates, metrics, gate } = self;
        let [server, keeper] = TASKS;
        let webhook = nephele_ipam_controller::webhook::register(Webhook::new(), &client);
        let certificate = ServedCertificate::none();
        let serving = serve(webhook, listener, certificate.clone(), metrics.clone(), shutdown.clone());
        tasks.spawn(server, serving);
        let opened = {
            let certificate = certificate.clone();
            async move {
                certificate.until_set().await;
                gate.open();
                pending::<()>().await;
            }
        };
        let shutdown = shutdown.clone();
        let kept = async move {
            match certificates {
                Certificates::Folder(folder) => follow_folder(folder, certificate, shutdown).await,
                Certificates::Kept { namespace, service } => {
                    keep(client, keeping(namespace, &service), certificate, metrics, clock, shutdown).await;
                }
            }
        };
        tasks.spawn(keeper, async move {
            tokio::select! {
                () = opened => {}
                () = kept => {}
            }
            Ok::<(), Infallible>(())
        });
    }
}

fn keeping(namespace: String, service: &str) -> Keeping {
    let definitions = nephele_api::ipam::crds().into_iter();
    let convertible = definitions.filter(|definition| definition.spec.conversion.is_some());
    Keeping {
        dns_names: Keeping::names_of_service(service, &namespace),
        namespace,
        secret: SECRET.to_owned(),
        targets: Targets {
            definitions: convertible.filter_map(|definition| definition.metadata.name).collect(),
            validating: vec![VALIDATING.to_owned()],
            mutating: vec![MUTATING.to_owned()],
        },
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::ipam::PoolKind;
    use nephele_ipam_controller::webhook::path;

    use super::*;

    /// A file of `config/webhook`.
    macro_rules! file {
        ($name:literal) => {
            include_str!(concat!("../../../config/webhook/", $name))
        };
    }

    #[test]
    fn what_is_kept_is_named_as_in_the_configuration() {
        let keeping =
            keeping("capi-ipam-in-cluster-system".to_owned(), "capi-ipam-in-cluster-webhook-service");
        let role = file!("role.yaml");
        assert!(role.contains(&format!("resourceNames: [{}]", keeping.secret)), "{}", keeping.secret);
        let mut definitions = keeping.targets.definitions.clone();
        definitions.reverse();
        assert!(role.contains(&format!("resourceNames: [{}]", definitions.join(", "))), "{definitions:?}");
        for (names, text) in [
            (&keeping.targets.validating, file!("validating.yaml")),
            (&keeping.targets.mutating, file!("mutating.yaml")),
        ] {
            for name in names {
                assert!(text.contains(&format!("\n  name: {name}\n")), "{name}");
                assert!(role.contains(&format!("resourceNames: [{name}]")), "{name}");
            }
        }
    }

    #[test]
    fn every_path_that_is_configured_has_a_handler() {
        let paths = |text: &str| -> Vec<String> {
            let after = text.split("path: ").skip(1);
            after.map(|rest| rest.split('}').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(paths(file!("validating.yaml")), PoolKind::ALL.map(|kind| path("validate", kind)));
        let mutating = PoolKind::ALL.into_iter().filter(|kind| kind.has_prefixes());
        let mutating: Vec<_> = mutating.map(|kind| path("mutate", kind)).collect();
        assert_eq!(paths(file!("mutating.yaml")), mutating);
    }
}
