//! An account for a run that may use one path and nothing else. Controllers ask the API server about the token of each
//! caller, and accept no client certificates.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

/// A token is valid for longer than the run, and at least for the shortest time that Kubernetes allows.
const LONGER: Duration = Duration::from_secs(600);

/// What an account is for.
#[derive(Clone, Debug)]
pub(crate) struct AccountFor<'a> {
    /// Its name, and that of its ClusterRole and ClusterRoleBinding.
    pub(crate) name: String,
    /// A label of all three.
    pub(crate) label: (&'a str, &'a str),
    /// The path that it may use.
    pub(crate) path: &'a str,
    /// How it may use the path, such as `get`.
    pub(crate) verbs: &'a [&'a str],
    /// How long it is needed.
    pub(crate) time_limit: Duration,
}

/// The account, with a token.
pub(crate) struct Account {
    client: Client,
    namespace: String,
    name: String,
    pub(crate) token: String,
}

impl Account {
    /// Creates it in a namespace, with a token for an audience, or for the API server if there is none. Whoever may edit a
    /// namespace gets tokens of the accounts there, so it has to be the manager's.
    ///
    /// # Errors
    /// When a request fails. What was created until then is removed.
    pub(crate) async fn create(
        client: &Client,
        namespace: &str,
        audience: Option<&str>,
        wanted: AccountFor<'_>,
    ) -> anyhow::Result<Self> {
        let mut account = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: wanted.name.clone(),
            token: String::new(),
        };
        match account.open(audience, &wanted).await {
            Ok(token) => {
                account.token = token;
                Ok(account)
            }
            Err(error) => match account.remove().await {
                Ok(()) => Err(error),
                Err(left) => Err(anyhow!(
                    "{}; {}",
                    nephele_controller::chain(error.as_ref()),
                    nephele_controller::chain(left.as_ref())
                )),
            },
        }
    }

    async fn open(&self, audience: Option<&str>, wanted: &AccountFor<'_>) -> anyhow::Result<String> {
        let Self {
            client,
            namespace,
            name,
            ..
        } = self;
        let AccountFor {
            label: (label, value),
            path,
            verbs,
            time_limit,
            ..
        } = wanted;
        let metadata = json!({"name": name, "labels": {*label: value}});
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": metadata, "rules": [{"nonResourceURLs": [path], "verbs": verbs}],
        }))?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        }))?;
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": metadata}))?;
        let params = PostParams::default();
        let what = format!("failed to create an account that may use {path}");
        self.accounts()
            .create(&params, &account)
            .await
            .map_err(answer)
            .context(what.clone())?;
        Api::all(client.clone())
            .create(&params, &role)
            .await
            .map_err(answer)
            .context(what.clone())?;
        Api::all(client.clone())
            .create(&params, &binding)
            .await
            .map_err(answer)
            .context(what)?;
        let seconds = i64::try_from((*time_limit + LONGER).as_secs()).unwrap_or(i64::MAX);
        let audiences = audience.map(|audience| vec![audience.to_owned()]);
        let spec = TokenRequestSpec {
            audiences,
            expiration_seconds: Some(seconds),
            bound_object_ref: None,
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let token = self
            .accounts()
            .create_token_request(name, &params, &request)
            .await;
        let token = token.map_err(answer).context("failed to request a token")?;
        token
            .status
            .and_then(|status| status.token)
            .context("failed to request a token: the answer has none")
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Removes it, and with it the token.
    ///
    /// # Errors
    /// When a part of it is left, with its name.
    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        let Self { client, name, .. } = self;
        let params = DeleteParams::default();
        let removed = [
            Api::<ClusterRoleBinding>::all(client.clone())
                .delete(name, &params)
                .await
                .map(drop),
            Api::<ClusterRole>::all(client.clone())
                .delete(name, &params)
                .await
                .map(drop),
            self.accounts().delete(name, &params).await.map(drop),
        ];
        for result in removed {
            match result {
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
                result => result.map_err(answer).with_context(|| {
                    format!("failed to remove the account {name}, its ClusterRole and its ClusterRoleBinding")
                })?,
            }
        }
        Ok(())
    }
}

/// An answer of the API server without the debug output that kube adds to it.
fn answer(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => other.into(),
    }
}
