//! An account for a run that may use one path, or what that has about one namespace, and nothing else. Controllers ask the
//! API server about the token of each caller, and accept no client certificates.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus},
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, Resource as _,
    api::{DeleteParams, PostParams},
};
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use serde::de::DeserializeOwned;
use serde_json::json;

/// A token is valid for longer than the run, and at least for the shortest time that Kubernetes allows.
const LONGER: Duration = Duration::from_secs(600);

/// What an account is for.
#[derive(Clone, Debug)]
pub(crate) struct AccountFor<'a> {
    /// Its name, and that of its role and binding.
    pub(crate) name: String,
    /// A label of all three.
    pub(crate) label: (&'a str, &'a str),
    /// The path that it may use.
    pub(crate) path: &'a str,
    /// How it may use the path, such as `get`.
    pub(crate) verbs: &'a [&'a str],
    /// The only namespace about which it asks, where it is enough to get the InMemoryClusters there.
    pub(crate) namespace: Option<&'a str>,
    /// How long it is needed.
    pub(crate) time_limit: Duration,
}

/// The account, with a token.
pub(crate) struct Account {
    client: Client,
    namespace: String,
    name: String,
    reach: Reach,
    pub(crate) token: String,
}

/// What the role of an account allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// To use the path, by a ClusterRole.
    Path,
    /// To get the InMemoryClusters of its namespace, by a Role.
    Namespace,
}

impl Account {
    /// Creates it, with a token for an audience, or for the API server if there is none. Whoever may edit a namespace gets
    /// tokens of the accounts there. So one that may use the path is in the manager's namespace. One for a namespace may read
    /// there only, and whoever works there can create it. Where that is refused, and in a namespace that is gone, it is one
    /// that may use the path.
    ///
    /// # Errors
    /// When a request fails. What was created until then is removed.
    pub(crate) async fn create(
        client: &Client,
        manager: &str,
        audience: Option<&str>,
        wanted: AccountFor<'_>,
    ) -> anyhow::Result<Self> {
        let Some(namespace) = wanted.namespace else {
            return Self::create_in(client, (manager, Reach::Path), audience, &wanted).await;
        };
        match Self::create_in(client, (namespace, Reach::Namespace), audience, &wanted).await {
            Ok(account) => Ok(account),
            Err(error) => Self::create_in(client, (manager, Reach::Path), audience, &wanted)
                .await
                .map_err(|_| error),
        }
    }

    async fn create_in(
        client: &Client,
        (namespace, reach): (&str, Reach),
        audience: Option<&str>,
        wanted: &AccountFor<'_>,
    ) -> anyhow::Result<Self> {
        let mut account = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: wanted.name.clone(),
            reach,
            token: String::new(),
        };
        match account.open(audience, wanted).await {
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
        let what = match self.reach {
            Reach::Path => {
                let path = wanted.path;
                match narrower(path) {
                    Some(way) if wanted.namespace.is_none() => {
                        format!("failed to create an account that may use {path} ({way})")
                    }
                    _ => format!("failed to create an account that may use {path}"),
                }
            }
            Reach::Namespace => format!(
                "failed to create an account that may use {} for namespace {}",
                wanted.path, self.namespace
            ),
        };
        self.grant(wanted).await.map_err(answer).context(what)?;
        self.request_token(audience, wanted.time_limit).await
    }

    /// Creates the account, its role and its binding.
    async fn grant(&self, wanted: &AccountFor<'_>) -> kube::Result<()> {
        let Self {
            client,
            namespace,
            name,
            reach,
            ..
        } = self;
        let (label, value) = wanted.label;
        let metadata = json!({"name": name, "labels": {label: value}});
        let binding = |kind: &str| {
            json!({
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
            })
        };
        let params = PostParams::default();
        self.accounts()
            .create(&params, &object(json!({"metadata": metadata}))?)
            .await?;
        match reach {
            Reach::Path => {
                let rules = json!([{"nonResourceURLs": [wanted.path], "verbs": wanted.verbs}]);
                let role: ClusterRole = object(json!({"metadata": metadata, "rules": rules}))?;
                let binding: ClusterRoleBinding = object(binding("ClusterRole"))?;
                Api::all(client.clone()).create(&params, &role).await?;
                Api::all(client.clone()).create(&params, &binding).await?;
            }
            Reach::Namespace => {
                let rules = json!([{
                    "apiGroups": [InMemoryCluster::group(&())],
                    "resources": [InMemoryCluster::plural(&())],
                    "verbs": ["get"],
                }]);
                let role: Role = object(json!({"metadata": metadata, "rules": rules}))?;
                let binding: RoleBinding = object(binding("Role"))?;
                let (roles, bindings) = self.of_namespace();
                roles.create(&params, &role).await?;
                bindings.create(&params, &binding).await?;
            }
        }
        Ok(())
    }

    async fn request_token(&self, audience: Option<&str>, time_limit: Duration) -> anyhow::Result<String> {
        let valid = time_limit + LONGER;
        let token = request_token(&self.accounts(), &self.name, audience, valid).await;
        let token = token.map_err(answer).context("failed to request a token")?;
        token
            .and_then(|status| status.token)
            .context("failed to request a token: the answer has none")
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn of_namespace(&self) -> (Api<Role>, Api<RoleBinding>) {
        let namespace = &self.namespace;
        (
            Api::namespaced(self.client.clone(), namespace),
            Api::namespaced(self.client.clone(), namespace),
        )
    }

    /// Removes it, and with it the token.
    ///
    /// # Errors
    /// When a part of it is left, with its name.
    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        let Self {
            client, name, reach, ..
        } = self;
        let params = DeleteParams::default();
        let removed = match reach {
            Reach::Path => [
                Api::<ClusterRoleBinding>::all(client.clone())
                    .delete(name, &params)
                    .await
                    .map(drop),
                Api::<ClusterRole>::all(client.clone())
                    .delete(name, &params)
                    .await
                    .map(drop),
                self.accounts().delete(name, &params).await.map(drop),
            ],
            Reach::Namespace => {
                let (roles, bindings) = self.of_namespace();
                [
                    bindings.delete(name, &params).await.map(drop),
                    roles.delete(name, &params).await.map(drop),
                    self.accounts().delete(name, &params).await.map(drop),
                ]
            }
        };
        let kinds = match reach {
            Reach::Path => "ClusterRole and its ClusterRoleBinding",
            Reach::Namespace => "Role and its RoleBinding",
        };
        for result in removed {
            match result {
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
                result => result
                    .map_err(answer)
                    .with_context(|| format!("failed to remove the account {name}, its {kinds}"))?,
            }
        }
        Ok(())
    }
}

fn object<K: DeserializeOwned>(value: serde_json::Value) -> kube::Result<K> {
    serde_json::from_value(value).map_err(kube::Error::SerdeError)
}

/// What to ask for instead where a path may not be used, if it has an answer about one namespace.
pub(super) fn narrower(path: &str) -> Option<&'static str> {
    (path == "/journal").then_some(
        "-n NAMESPACE asks for one namespace, where the permission to get inmemoryclusters is enough",
    )
}

/// A token of a service account that is valid for this long, if the API server allows it, for an audience or for the API server
/// itself. None if the answer has none.
pub(crate) async fn request_token(
    accounts: &Api<ServiceAccount>,
    name: &str,
    audience: Option<&str>,
    valid: Duration,
) -> kube::Result<Option<TokenRequestStatus>> {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: audience.map(|audience| vec![audience.to_owned()]),
            expiration_seconds: Some(i64::try_from(valid.as_secs()).unwrap_or(i64::MAX)),
            bound_object_ref: None,
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await?;
    Ok(answer.status)
}

/// An answer of the API server without the debug output that kube adds to it.
fn answer(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => other.into(),
    }
}
