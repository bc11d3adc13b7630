//! Counts the manager's requests to the management API by RBAC verb and resource, and records requests that no role
//! allows.
//!
//! ```text
//!  everything in the manager ──▶ observed(client) ──▶ client ──▶ API server
//!                                   │ Call: verb, group, resource
//!                                   ├──▶ nephele_management_requests_total
//!                                   └──▶ Permissions ──▶ a readiness gate and a log line for each that is missing
//! ```

mod call;
mod permissions;

use http::{Request, Response, StatusCode};
use kube::{Client, client::Body};
use nephele_kit::{Readiness, registered};
use prometheus::{IntCounterVec, Opts, Registry};
use serde_json::Value;

use self::{call::Call, permissions::Permissions};

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
        Ok(Self { counts: registered(registry, counts)?, permissions })
    }

    /// Returns the client with its requests observed.
    pub(crate) fn observed(&self, client: Client) -> Client {
        let (namespace, valid_until) = (client.default_namespace().to_owned(), *client.valid_until());
        let requests = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, requests) = (client.clone(), requests.clone());
            async move {
                let call = Call::of(request.method(), request.uri());
                let response = client.send(request).await?;
                match call {
                    Some(call) => requests.answered(call, response).await,
                    None => Ok(response),
                }
            }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }

    async fn answered(&self, call: Call, response: Response<Body>) -> Result<Response<Body>, kube::Error> {
        let (response, refusal) = if response.status() == StatusCode::FORBIDDEN {
            let (head, body) = response.into_parts();
            let body = body.collect_bytes().await?;
            let refusal = refusal(&body);
            (Response::from_parts(head, Body::from(body)), refusal)
        } else {
            (response, None)
        };
        let permitted = if refusal.is_none() { "true" } else { "false" };
        self.counts.with_label_values(&[call.verb, &call.group, &call.resource, permitted]).inc();
        match refusal {
            Some(message) => self.permissions.refused(call, &message),
            None => self.permissions.permitted(&call),
        }
        Ok(response)
    }
}

/// The API server's message when no role allows a request. It is the same for all authorizers (kubernetes,
/// staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go). `None` for requests that a quota, an
/// admission plugin or the deletion of a namespace forbids: no role would change that.
fn refusal(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let message = status["message"].as_str()?;
    let (_, said) = message.split_once("User \"")?;
    said.contains("\" cannot ").then(|| message.to_owned())
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
        assert_eq!(refused(by_rbac).as_deref(), Some(by_rbac));
        for otherwise in [
            "secrets \"a\" is forbidden: unable to create new content in namespace b because it is being terminated",
            "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1",
            "",
        ] {
            assert_eq!(refused(otherwise), None, "{otherwise}");
        }
        assert_eq!(refusal(b"<html>a proxy's own page</html>"), None);
    }
}
