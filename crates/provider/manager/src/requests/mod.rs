//! Refuses requests with parts that no request of the manager has, counts the others by RBAC verb and resource, and records
//! requests of the manager's own making that no role allows.
//!
//! ```text
//!  everything in the manager ──▶ guard ──▶ own, for_callers, for_steps ──▶ client ──▶ API server
//!                                   │ Call: verb, group, resource
//!                                   ├──▶ nephele_management_requests_total, labels from a fixed set
//!                                   └──▶ own, known: Permissions ──▶ a readiness gate and a log line for each that is missing
//! ```
//!
//! What a request says that a user, a tenant or an unknown caller has caused neither closes a gate nor makes a label: else
//! whoever writes an object could take the webhooks of all tenants away.

mod call;
mod known;
mod permissions;

use http::{Request, Response, StatusCode};
use kube::{Client, client::Body};
use nephele_controller::{KnownResource, Readiness, guarded, registered};
use prometheus::{IntCounterVec, Opts, Registry};
use serde_json::Value;

use self::{call::Call, permissions::Permissions};

/// The most characters of an API server's message that a log line repeats.
const ANSWER_MAX: usize = 512;

/// Counts requests and records those that are not permitted. Cheap to clone; all clones share the state.
#[derive(Clone)]
pub(crate) struct Requests {
    counts: IntCounterVec,
    permissions: Permissions,
}

impl Requests {
    /// # Errors
    ///
    /// When the registry already has such a counter.
    pub(crate) fn new(registry: &Registry, readiness: &Readiness) -> Result<Self, prometheus::Error> {
        let options = Opts::new(
            "nephele_management_requests_total",
            "Requests to the management API by verb and resource, and whether a role permits them.",
        );
        let counts = IntCounterVec::new(options, &["verb", "group", "resource", "permitted"])?;
        let permissions = Permissions::new(readiness.clone());
        Ok(Self {
            counts: registered(registry, counts)?,
            permissions,
        })
    }

    /// The client for requests that the manager makes by itself: a missing permission keeps it from being ready.
    pub(crate) fn own(&self, client: Client) -> Client {
        self.observed(client, Maker::Manager, known::is_known)
    }

    /// The client for requests that callers cause: a refusal is theirs to read, and changes no readiness.
    pub(crate) fn for_callers(&self, client: Client) -> Client {
        self.observed(client, Maker::Other, known::is_known)
    }

    /// The client for the steps of Scenarios, which may be about further kinds.
    pub(crate) fn for_steps(&self, client: Client) -> Client {
        self.observed(client, Maker::Other, known::is_of_steps)
    }

    fn observed(&self, client: Client, maker: Maker, is_known: KnownResource) -> Client {
        let namespace = client.default_namespace().to_owned();
        let valid_until = *client.valid_until();
        let requests = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            let requests = requests.clone();
            async move {
                let call = Call::of(request.method(), request.uri());
                let response = client.send(request).await?;
                match call {
                    Some(call) => requests.answered(call, maker, response).await,
                    None => Ok(response),
                }
            }
        });
        guarded(
            Client::new(service, namespace).with_valid_until(valid_until),
            is_known,
        )
    }

    async fn answered(
        &self,
        call: Call,
        maker: Maker,
        response: Response<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        let (response, refusal) = if response.status() == StatusCode::FORBIDDEN {
            let (head, body) = response.into_parts();
            let body = body.collect_bytes().await?;
            let refusal = refusal(&body);
            (Response::from_parts(head, Body::from(body)), refusal)
        } else {
            (response, None)
        };
        let permitted = if refusal.is_none() { "true" } else { "false" };
        let (group, resource) = known::labels(&call);
        self.counts
            .with_label_values(&[call.verb, group, resource, permitted])
            .inc();
        if maker == Maker::Manager && known::is_own(&call) {
            match refusal {
                Some(message) => self.permissions.refused(call, &message),
                None => self.permissions.permitted(&call),
            }
        }
        Ok(response)
    }
}

/// Who causes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Manager,
    Other,
}

/// The part of the API server's message when no role allows a request. It is the same for all authorizers (kubernetes,
/// staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go). `None` for requests that a quota, an
/// admission plugin or the deletion of a namespace forbids: no role would change that. Without what comes before, which may
/// have the name of an object in it.
fn refusal(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let message = status["message"].as_str()?;
    let (_, said) = message.split_once("User \"")?;
    let said = said.contains("\" cannot ").then(|| format!("User \"{said}"))?;
    Some(said.chars().take(ANSWER_MAX).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_role_would_change_is_a_missing_permission() {
        let refused = |message: &str| refusal(json!({ "message": message }).to_string().as_bytes());
        let by_rbac = "secrets is forbidden: User \"system:serviceaccount:nephele-system:nephele-manager\" cannot list \
                       resource \"secrets\" in API group \"\" at the cluster scope";
        assert_eq!(
            refused(by_rbac).as_deref(),
            by_rbac.strip_prefix("secrets is forbidden: ")
        );
        assert_eq!(
            refused(&format!("{by_rbac}{}", "!".repeat(65_536))).map(|said| said.len()),
            Some(ANSWER_MAX)
        );
        for otherwise in [
            "secrets \"a\" is forbidden: unable to create new content in namespace b because it is being terminated",
            "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1",
            "",
        ] {
            assert_eq!(refused(otherwise), None, "{otherwise}");
        }
        assert_eq!(refusal(b"<html>a proxy's own page</html>"), None);
    }

    /// A client of an API server that allows nothing, behind each of the observers.
    async fn refused_everywhere(
        path: &str,
        observed: impl Fn(&Requests, Client) -> Client,
    ) -> (Vec<String>, Vec<String>) {
        let registry = Registry::new();
        let readiness = Readiness::default();
        let requests = Requests::new(&registry, &readiness).expect("a new registry");
        let service = tower::service_fn(|_: Request<Body>| async {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "x is forbidden: User \"me\" cannot get resource \"x\"" });
            let response = Response::builder()
                .status(403)
                .header("content-type", "application/json");
            Ok::<_, std::convert::Infallible>(
                response
                    .body(Body::from(status.to_string().into_bytes()))
                    .expect("a response"),
            )
        });
        let client = observed(&requests, Client::new(service, "default"));
        let request = Request::get(path).body(Vec::new()).expect("a request");
        client.request_text(request).await.expect_err("it is refused");
        let families = registry.gather();
        let labels = families
            .iter()
            .flat_map(prometheus::proto::MetricFamily::get_metric)
            .map(|metric| {
                let values: Vec<_> = metric
                    .get_label()
                    .iter()
                    .map(|label| label.value().to_owned())
                    .collect();
                values.join(" ")
            });
        (readiness.waiting(), labels.collect())
    }

    #[tokio::test]
    async fn only_what_the_manager_asks_for_by_itself_keeps_it_from_being_ready() {
        let own = "/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/n/ipaddresses";
        let gate = "permission to list ipaddresses.ipam.cluster.x-k8s.io".to_owned();
        let labels = vec!["ipam.cluster.x-k8s.io false ipaddresses list".to_owned()];
        assert_eq!(
            refused_everywhere(own, Requests::own).await,
            (vec![gate], labels.clone())
        );
        assert_eq!(
            refused_everywhere(own, Requests::for_callers).await,
            (vec![], labels.clone())
        );
        assert_eq!(
            refused_everywhere(own, Requests::for_steps).await,
            (vec![], labels)
        );
        // A name that was to be a namespace.
        let unknown = "/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/a/b/ipaddresses";
        for observed in [Requests::own, Requests::for_callers] {
            assert_eq!(refused_everywhere(unknown, observed).await, (vec![], vec![]));
        }
        // A kind of another provider, for which an administrator may give steps a role.
        let other = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/n/talosconfigs/t";
        let shared = vec!["other false other get".to_owned()];
        assert_eq!(
            refused_everywhere(other, Requests::for_steps).await,
            (vec![], shared)
        );
        // No role has it, so it is not a permission that is missing.
        let written =
            "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/n/kubeadmcontrolplanetemplates/t";
        let labels = vec!["controlplane.cluster.x-k8s.io false kubeadmcontrolplanetemplates get".to_owned()];
        assert_eq!(refused_everywhere(written, Requests::own).await, (vec![], labels));
    }
}
