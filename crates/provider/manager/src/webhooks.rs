//! The webhooks: conversion of every kind with more than one version, and admission of templates and pools. Every
//! replica serves them. The manager makes and renews their certificate, or reads it from files.

use std::{convert::Infallible, future::pending, net::TcpListener};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use nephele_api::{infrastructure, ipam};
use nephele_controller::{Clock, Gate, Readiness};
use nephele_webhook::{
    Metrics, ServedCertificate, TlsPolicy, Webhook,
    certificate::{Targets, folder::Folder, keeper::Keeping},
    follow_folder, keep, serve,
};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::{roles::Roles, tasks::Tasks};

/// The tasks, in the order in which they are stopped.
pub(crate) const TASKS: [&str; 2] = ["webhook server", "webhook certificates"];

/// The objects installed with the webhooks of a role.
struct Surroundings {
    service: &'static str,
    secret: &'static str,
    definitions: fn() -> Vec<CustomResourceDefinition>,
    validating: &'static [&'static str],
    mutating: &'static [&'static str],
}

/// Names of objects in `config/webhook-infrastructure`.
const INFRASTRUCTURE: Surroundings = Surroundings {
    service: "nephele-webhook-service",
    secret: "nephele-webhook-certificate",
    definitions: infrastructure::crds,
    validating: &["nephele-validating-webhook-configuration"],
    mutating: &["nephele-mutating-webhook-configuration"],
};

/// Names of objects in `config/webhook`.
const IPAM: Surroundings = Surroundings {
    service: "capi-ipam-in-cluster-webhook-service",
    secret: "capi-ipam-in-cluster-webhook-certificate",
    definitions: ipam::crds,
    validating: &["capi-ipam-in-cluster-validating-webhook-configuration"],
    mutating: &["capi-ipam-in-cluster-mutating-webhook-configuration"],
};

/// The source of the certificates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Certificates {
    /// Files that another program renews. That program also distributes the authority.
    Folder(Folder),
    /// Made and renewed by the manager.
    Kept {
        /// The manager's namespace, in which the Secret and the Services are.
        namespace: String,
        /// The Service that API servers call, instead of one Service for each role.
        service: Option<String>,
    },
}

/// Webhooks with a listener, not yet served.
pub(crate) struct Webhooks {
    roles: Roles,
    listener: TcpListener,
    certificates: Certificates,
    tls: TlsPolicy,
    metrics: Metrics,
    /// Opened with the first certificate.
    gate: Gate,
}

impl Webhooks {
    /// # Errors
    ///
    /// When the registry has metrics of their names.
    pub(crate) fn new(
        roles: Roles,
        listener: TcpListener,
        certificates: Certificates,
        tls: TlsPolicy,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, prometheus::Error> {
        let metrics = Metrics::register(registry)?;
        Ok(Self {
            roles,
            listener,
            certificates,
            tls,
            metrics,
            gate: readiness.gate("webhook"),
        })
    }

    /// Starts the tasks. `client` is for the certificates, `callers` for what reviews ask for.
    pub(crate) fn spawn(
        self,
        tasks: &mut Tasks,
        client: Client,
        callers: &Client,
        clock: Clock,
        shutdown: &CancellationToken,
    ) {
        let Self {
            roles,
            listener,
            certificates,
            tls,
            metrics,
            gate,
        } = self;
        let [server, keeper] = TASKS;
        let webhook = handlers(roles, callers);
        let certificate = ServedCertificate::none();
        let serving = serve(
            webhook,
            listener,
            certificate.clone(),
            tls,
            metrics.clone(),
            shutdown.clone(),
        );
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
                Certificates::Folder(folder) => follow_folder(folder, certificate, metrics, shutdown).await,
                Certificates::Kept { namespace, service } => {
                    let keeping = keeping(roles, namespace, service.as_deref());
                    keep(client, keeping, certificate, metrics, clock, shutdown).await;
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

fn handlers(roles: Roles, client: &Client) -> Webhook {
    let mut webhook = Webhook::new();
    if roles.infrastructure {
        webhook = nephele_infra_controller::admission::register(webhook)
            .convert(infrastructure::GROUP, infrastructure::conversion::convert);
    }
    if roles.ipam {
        webhook = nephele_ipam_controller::webhook::register(webhook, client);
    }
    webhook
}

/// The certificate of all roles: one for all their Services, in the Secret of the first role.
fn keeping(roles: Roles, namespace: String, service: Option<&str>) -> Keeping {
    let surroundings: Vec<Surroundings> = [(roles.infrastructure, INFRASTRUCTURE), (roles.ipam, IPAM)]
        .into_iter()
        .filter_map(|(is_ours, surroundings)| is_ours.then_some(surroundings))
        .collect();
    let services = match service {
        Some(service) => vec![service],
        None => surroundings.iter().map(|role| role.service).collect(),
    };
    let definitions = surroundings.iter().flat_map(|role| (role.definitions)());
    let convertible = definitions.filter(|definition| definition.spec.conversion.is_some());
    let owned = |names: fn(&Surroundings) -> &'static [&'static str]| -> Vec<String> {
        surroundings
            .iter()
            .flat_map(names)
            .map(|&name| name.to_owned())
            .collect()
    };
    Keeping {
        dns_names: services
            .iter()
            .flat_map(|service| Keeping::names_of_service(service, &namespace))
            .collect(),
        namespace,
        secret: surroundings
            .first()
            .expect("webhooks are served for a role with kinds")
            .secret
            .to_owned(),
        targets: Targets {
            definitions: convertible
                .filter_map(|definition| definition.metadata.name)
                .collect(),
            validating: owned(|role| role.validating),
            mutating: owned(|role| role.mutating),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use http::Request;
    use kube::client::Body;
    use nephele_api::ipam::PoolKind;
    use nephele_infra_controller::admission::{TemplateKind, cluster_path, filled_in_paths};
    use nephele_ipam_controller::webhook::path;
    use nephele_testkit::{CUT, ManagementApi, hostile_texts, texts_of, with_text};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::requests::Requests;

    /// A file of `config`.
    macro_rules! file {
        ($name:literal) => {
            include_str!(concat!("../../../../config/", $name))
        };
    }

    const ROLES: Roles = Roles {
        infrastructure: true,
        ipam: true,
        runtime_extension: false,
    };

    #[test]
    fn what_is_kept_for_pools_is_named_as_in_the_configuration() {
        let roles = Roles {
            infrastructure: false,
            ..ROLES
        };
        let keeping = keeping(roles, "capi-ipam-in-cluster-system".to_owned(), None);
        let role = file!("webhook/role.yaml");
        assert!(
            role.contains(&format!("resourceNames: [{}]", keeping.secret)),
            "{}",
            keeping.secret
        );
        let mut definitions = keeping.targets.definitions.clone();
        definitions.reverse();
        assert!(
            role.contains(&format!("resourceNames: [{}]", definitions.join(", "))),
            "{definitions:?}"
        );
        for (names, text) in [
            (&keeping.targets.validating, file!("webhook/validating.yaml")),
            (&keeping.targets.mutating, file!("webhook/mutating.yaml")),
        ] {
            for name in names {
                assert!(text.contains(&format!("\n  name: {name}\n")), "{name}");
                assert!(role.contains(&format!("resourceNames: [{name}]")), "{name}");
            }
        }
        assert!(file!("webhook/service.yaml").contains(&format!("\n  name: {}\n", IPAM.service)));
        assert_eq!(
            keeping.dns_names[0],
            format!("{}.capi-ipam-in-cluster-system.svc", IPAM.service)
        );
    }

    #[test]
    fn what_is_kept_for_the_infrastructure_is_named_as_in_the_configuration() {
        let roles = Roles { ipam: false, ..ROLES };
        let keeping = keeping(roles, "nephele-system".to_owned(), None);
        let role = file!("webhook-infrastructure/role.yaml");
        assert!(
            role.contains(&format!("resourceNames: [{}]", keeping.secret)),
            "{}",
            keeping.secret
        );
        let definitions = keeping.targets.definitions.join("\n      - ");
        assert!(
            role.contains(&format!("resourceNames:\n      - {definitions}\n    verbs")),
            "{definitions}"
        );
        for (names, text) in [
            (
                &keeping.targets.validating,
                file!("webhook-infrastructure/validating.yaml"),
            ),
            (
                &keeping.targets.mutating,
                file!("webhook-infrastructure/mutating.yaml"),
            ),
        ] {
            let [name] = names.as_slice() else {
                panic!("{:?}", keeping.targets)
            };
            assert!(text.contains(&format!("\n  name: {name}\n")), "{name}");
            assert!(role.contains(&format!("resourceNames: [{name}]")), "{name}");
        }
        let service = file!("webhook-infrastructure/service.yaml");
        assert!(service.contains(&format!("\n  name: {}\n", INFRASTRUCTURE.service)));
        assert_eq!(
            keeping.dns_names[0],
            format!("{}.nephele-system.svc", INFRASTRUCTURE.service)
        );
    }

    #[test]
    fn both_roles_share_a_certificate_for_both_of_their_services_or_for_the_one_that_is_given() {
        let both = keeping(ROLES, "here".to_owned(), None);
        assert_eq!(both.secret, INFRASTRUCTURE.secret);
        let names: Vec<_> = both
            .dns_names
            .iter()
            .filter(|name| name.ends_with(".svc"))
            .collect();
        assert_eq!(
            names,
            [
                "nephele-webhook-service.here.svc",
                "capi-ipam-in-cluster-webhook-service.here.svc"
            ]
        );
        assert_eq!(
            (both.targets.definitions.len(), both.targets.validating.len()),
            (8, 2)
        );
        let given = keeping(ROLES, "here".to_owned(), Some("other"));
        assert_eq!(given.dns_names, ["other.here.svc", "other.here", "other"]);
        assert_eq!(given.targets, both.targets);
    }

    /// A missing permission makes the pod not ready. Else it would take admission and conversion away from everybody.
    #[test]
    fn api_servers_reach_webhooks_while_the_pod_is_not_ready() {
        for service in [
            file!("webhook/service.yaml"),
            file!("webhook-infrastructure/service.yaml"),
        ] {
            assert!(
                service.contains("\n  publishNotReadyAddresses: true\n"),
                "{service}"
            );
        }
    }

    #[test]
    fn every_path_that_is_configured_has_a_handler() {
        let paths = |text: &str| -> Vec<String> {
            let after = text.split("path: ").skip(1);
            after
                .map(|rest| rest.split('}').next().unwrap_or_default().to_owned())
                .collect()
        };
        let mut infrastructure = vec![cluster_path()];
        infrastructure.extend(TemplateKind::ALL.map(TemplateKind::path));
        assert_eq!(
            paths(file!("webhook-infrastructure/validating.yaml")),
            infrastructure
        );
        let (filled_in, fields): (Vec<_>, Vec<_>) = filled_in_paths().unzip();
        let mutating = file!("webhook-infrastructure/mutating.yaml");
        assert_eq!(paths(mutating), filled_in);
        for field in fields.into_iter().flatten() {
            assert!(
                mutating.contains(&format!("!has(object.spec.{field})")),
                "nothing looks whether {field} is there"
            );
        }
        assert_eq!(
            paths(file!("webhook/validating.yaml")),
            PoolKind::ALL.map(|kind| path("validate", kind))
        );
        let mutating = PoolKind::ALL.into_iter().filter(|kind| kind.has_prefixes());
        let mutating: Vec<_> = mutating.map(|kind| path("mutate", kind)).collect();
        assert_eq!(paths(file!("webhook/mutating.yaml")), mutating);
    }

    /// A review as an API server sends it, of an object that fits the path.
    fn review(path: &str, operation: &str) -> Value {
        let pool = json!({ "addresses": ["10.0.0.10-10.0.0.20"], "prefix": 24, "gateway": "10.0.0.1" });
        let changed = json!({ "addresses": ["10.0.0.10"], "prefix": 24, "gateway": "10.0.0.1" });
        let (old, new) = match path.contains("ippool") {
            true => (pool, changed),
            false if path.contains("prefixpool") => (
                json!({ "prefixes": ["fd00::/62"] }),
                json!({ "prefixes": ["fd00::/63"] }),
            ),
            false => (
                json!({ "template": { "spec": { "instanceType": "small" } }, "cloudRef": { "name": "default" } }),
                json!({ "template": { "spec": { "instanceType": "large" } }, "cloudRef": { "name": "north" } }),
            ),
        };
        let object = |spec: &Value| {
            json!({ "apiVersion": "a.io/v1", "kind": "A", "spec": spec,
                "metadata": { "name": "x", "namespace": "default", "uid": "u", "labels": { "a": "b" },
                    "ownerReferences": [{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "o", "uid": "u" }] } })
        };
        let mut review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "r", "operation": operation, "name": "x", "namespace": "default", "subResource": "",
                "kind": { "group": "a.io", "version": "v1", "kind": "A" },
                "resource": { "group": "a.io", "version": "v1", "resource": "as" },
                "userInfo": { "username": "alice", "groups": ["all"] }, "dryRun": false,
            },
        });
        if operation != "DELETE" {
            review["request"]["object"] = object(&new);
        }
        if operation != "CREATE" {
            review["request"]["oldObject"] = object(&old);
        }
        review
    }

    /// Each text of each review in turn is hostile, for each webhook.
    #[tokio::test]
    async fn no_text_of_a_review_becomes_another_request_changes_readiness_or_makes_a_label() {
        let registry = Registry::new();
        let readiness = Readiness::default();
        let requests = Requests::new(&registry, &readiness).expect("a new registry");
        let asked = Arc::new(Mutex::new(Vec::<String>::new()));
        let server = ManagementApi::start().server().clone();
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            let uri = request.uri().clone();
            noted.lock().push(uri.to_string());
            async move {
                // No role allows anything outside of the namespace.
                if uri.path().contains("/namespaces/") && !uri.path().contains("/namespaces/default/") {
                    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                        "code": 403, "message": "b is forbidden: User \"me\" cannot get resource \"b\"" });
                    let response = http::Response::builder()
                        .status(403)
                        .header("content-type", "application/json");
                    return Ok::<_, Infallible>(
                        response
                            .body(axum::body::Body::from(status.to_string()))
                            .expect("a response"),
                    );
                }
                Ok(server.handle(request.map(axum::body::Body::new)).await)
            }
        });
        let client = requests.for_callers(Client::new(service, "default"));
        let webhook = handlers(ROLES, &client);
        let mut calls = 0;
        let mut denied = 0;
        for path in webhook.paths().filter(|path| *path != "/convert") {
            for operation in ["CREATE", "UPDATE", "DELETE"] {
                let review = review(path, operation);
                for place in texts_of(&review) {
                    for text in hostile_texts() {
                        let body = serde_json::to_vec(&with_text(&review, &place, &text)).expect("JSON");
                        let (_, answer) = webhook.answer(path, body).await.expect("a handler");
                        calls += 1;
                        denied += u32::from(answer.contains("\"allowed\":false"));
                        assert!(!answer.contains("panicked"), "{path} {place} {text:?}: {answer}");
                        for uri in std::mem::take(&mut *asked.lock()) {
                            let uri: http::Uri = uri.parse().expect("a URI");
                            nephele_controller::check_request(&http::Method::GET, &uri, |_, resource| {
                                resource.ends_with("pools") || resource == "ipaddresses"
                            })
                            .unwrap_or_else(|error| panic!("{path} {operation} {place} {text:?}: {error}"));
                            assert!(
                                !uri.path().contains(CUT),
                                "{path} {operation} {place} {text:?}: {uri}"
                            );
                        }
                    }
                }
            }
        }
        assert!(calls > 1000 && denied > 200, "{calls} calls, {denied} denied");
        assert_eq!(readiness.states(), []);
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text");
        let samples = text
            .lines()
            .filter(|line| line.starts_with("nephele_management_requests_total"))
            .count();
        assert!(samples < 20, "{text}");
    }
}
