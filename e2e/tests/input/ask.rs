//! Dry runs.

use anyhow::{Context, anyhow, bail};
use kube::Client;
use nephele_e2e::Scope;
use serde_json::{Value, json};

use crate::input::{schema::Kind, wrong::Case};

/// How often a status update is tried while there are conflicts.
const ATTEMPTS: usize = 20;

/// Sends requests to the API server, in a namespace.
pub(crate) struct Asker {
    client: Client,
    namespace: String,
}

impl Asker {
    pub(crate) fn new(scope: &Scope) -> Self {
        Self {
            client: scope.management.client(),
            namespace: scope.namespace.clone(),
        }
    }

    /// The case's id, and why its spec is refused; `None` if it is accepted.
    pub(crate) async fn spec(&self, case: &Case<'_>) -> anyhow::Result<(String, Option<String>)> {
        Ok((case.id(), self.create(case.kind, &case.value).await?))
    }

    /// The case's id, and why its status is refused; `None` if it is accepted. The object has to exist.
    pub(crate) async fn status(&self, case: &Case<'_>) -> anyhow::Result<(String, Option<String>)> {
        for _ in 0..ATTEMPTS {
            let mut object = self.object(case.kind).await?;
            object["status"] = case.value.clone();
            let path = format!("{}/status?dryRun=All", self.path(case.kind, true));
            match self.send("PUT", &path, &object).await? {
                Some((409, _)) => {}
                refused => return Ok((case.id(), refused.map(|(_, message)| message))),
            }
        }
        bail!("{} is always written by another client", case.kind)
    }

    /// Why an object with this spec is refused; `None` if it would be created.
    pub(crate) async fn create(&self, kind: &Kind, spec: &Value) -> anyhow::Result<Option<String>> {
        let path = format!("{}?dryRun=All&fieldValidation=Strict", self.path(kind, false));
        let refused = self.send("POST", &path, &self.named(kind, spec)).await?;
        Ok(refused.map(|(_, message)| message))
    }

    /// Creates an object with this spec, without a dry run.
    pub(crate) async fn make(&self, kind: &Kind, spec: &Value) -> anyhow::Result<()> {
        match self
            .send("POST", &self.path(kind, false), &self.named(kind, spec))
            .await?
        {
            None | Some((409, _)) => Ok(()),
            Some((code, message)) => bail!("{kind} is refused: {code} {message}"),
        }
    }

    /// Deletes the object.
    pub(crate) async fn remove(&self, kind: &Kind) -> anyhow::Result<()> {
        match self.send("DELETE", &self.path(kind, true), &json!({})).await? {
            None | Some((404, _)) => Ok(()),
            Some((code, message)) => bail!("{kind} is not deleted: {code} {message}"),
        }
    }

    /// Why a merge patch is refused, by a dry run; `None` if it is accepted.
    pub(crate) async fn change(&self, kind: &Kind, patch: &Value) -> anyhow::Result<Option<String>> {
        let path = format!("{}?dryRun=All", self.path(kind, true));
        let refused = self.send("PATCH", &path, patch).await?;
        Ok(refused.map(|(_, message)| message))
    }

    /// Applies a merge patch, without a dry run.
    pub(crate) async fn patch(&self, kind: &Kind, patch: &Value) -> anyhow::Result<()> {
        match self.send("PATCH", &self.path(kind, true), patch).await? {
            None => Ok(()),
            Some((code, message)) => bail!("{kind} is not patched: {code} {message}"),
        }
    }

    pub(crate) async fn object(&self, kind: &Kind) -> anyhow::Result<Value> {
        let request = http::Request::get(self.path(kind, true)).body(Vec::new())?;
        let text = self
            .client
            .request_text(request)
            .await
            .with_context(|| format!("failed to get {kind}"))?;
        Ok(serde_json::from_str(&text)?)
    }

    fn named(&self, kind: &Kind, spec: &Value) -> Value {
        json!({
            "apiVersion": kind.api_version(), "kind": kind.name,
            "metadata": {"name": self.name()}, "spec": spec,
        })
    }

    /// Cluster-scoped objects differ by name only.
    fn name(&self) -> &str {
        &self.namespace
    }

    fn path(&self, kind: &Kind, is_object: bool) -> String {
        let namespace = match kind.namespaced {
            true => format!("/namespaces/{}", self.namespace),
            false => String::new(),
        };
        let object = if is_object {
            format!("/{}", self.name())
        } else {
            String::new()
        };
        format!("/apis/{}{namespace}/{}{object}", kind.api_version(), kind.plural)
    }

    /// Code and message of a refusal.
    async fn send(&self, verb: &str, path: &str, body: &Value) -> anyhow::Result<Option<(u16, String)>> {
        let content = if verb == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(verb)
            .uri(path)
            .header("content-type", content);
        match self
            .client
            .request_text(request.body(serde_json::to_vec(body)?)?)
            .await
        {
            Ok(_) => Ok(None),
            // A refusal by a conversion webhook is an internal error.
            Err(kube::Error::Api(status)) if (400..=500).contains(&status.code) => {
                Ok(Some((status.code, status.message)))
            }
            Err(error) => Err(anyhow!(error).context(format!("failed to {verb} {path}"))),
        }
    }
}
