//! The ConfigMap of a Cluster with the extension's answers: those to give, and those that were given.

use nephele_e2e::{Bare, Look, Management, Scope, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

/// clusterctl's name of the extension.
pub(crate) const LABEL: &str = "runtime-extension-nephele";
/// The ExtensionConfig of the extension.
pub(crate) const EXTENSION_CONFIG: &str = "nephele";

/// A response that makes Cluster API call again after a second.
pub(crate) const BLOCKS: &str =
    r#"{"Status": "Success", "RetryAfterSeconds": 1, "Message": "held by the test"}"#;
/// A response that lets Cluster API continue.
pub(crate) const PASSES: &str = r#"{"Status": "Success"}"#;

pub(crate) struct Script {
    management: Management,
    namespace: String,
    name: String,
}

impl Script {
    pub(crate) fn of(scope: &Scope, cluster: &str) -> Self {
        Self {
            management: scope.management.clone(),
            namespace: scope.namespace.clone(),
            name: format!("{cluster}-{EXTENSION_CONFIG}-test-extension-hookresponses"),
        }
    }

    /// Sets the answer to a call.
    pub(crate) async fn say(&self, call: &str, response: &str) -> anyhow::Result<()> {
        let data = json!({ format!("{call}-preloadedResponse"): response });
        if self
            .management
            .find(kinds::CONFIG_MAP, &self.namespace, &self.name)
            .await?
            .is_some()
        {
            let patch = json!({"data": data});
            return self
                .management
                .patch(kinds::CONFIG_MAP, &self.namespace, &self.name, &patch)
                .await;
        }
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}, "data": data,
        });
        self.management.apply(&self.namespace, &[object]).await
    }

    /// The last answer to a call, if the call came.
    pub(crate) async fn record(&self, call: &str) -> anyhow::Result<Option<String>> {
        let found = self
            .management
            .find(kinds::CONFIG_MAP, &self.namespace, &self.name)
            .await?;
        let record = found.map(|mut found| found["data"][format!("{call}-actualResponseStatus")].take());
        Ok(record.and_then(|record| record.as_str().map(str::to_owned)))
    }

    /// Waits until this is the last answer to a call.
    pub(crate) async fn answered(&self, call: &str, record: &str) -> anyhow::Result<()> {
        until(
            &format!("{call} to be answered with {record:?}"),
            LIMIT,
            async || {
                let last = self.record(call).await?;
                Ok(Look::when(last.as_deref() == Some(record), || {
                    format!("{last:?}")
                }))
            },
        )
        .await
    }
}

/// Waits until Cluster API has discovered the extension, and returns the names of its handlers.
pub(crate) async fn registered(bare: &Bare) -> anyhow::Result<Vec<String>> {
    until("the extension to be discovered", LIMIT, async || {
        let config = bare
            .management
            .get(kinds::EXTENSION_CONFIG, "", EXTENSION_CONFIG)
            .await?;
        if !state::is(&config, "Discovered", "True") {
            return Ok(Look::NotYet(state::line(&config)));
        }
        let handlers = config["status"]["handlers"].as_array().into_iter().flatten();
        let name = |handler: &Value| handler["name"].as_str().unwrap_or_default().to_owned();
        let names: Vec<_> = handlers.map(name).collect();
        // Cluster API writes the conditions in a request of its own, before the rest of the status.
        Ok(if names.is_empty() {
            Look::NotYet("no handlers yet".to_owned())
        } else {
            Look::Done(names)
        })
    })
    .await
}
