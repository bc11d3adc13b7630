//! The kubeconfigs that we write.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext, Preferences,
};

/// How the user of a kubeconfig proves who it is.
#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    /// A client certificate and its key, both PEM.
    Certificate {
        /// The certificate, or its chain.
        certificate: &'a str,
        /// The key of the certificate.
        key: &'a str,
    },
    /// A bearer token.
    Token(&'a str),
}

/// A kubeconfig with one cluster, one user and the context `<user>@<cluster>`, as `util/kubeconfig` of Cluster API makes
/// them. The authority of the API server is PEM.
#[must_use]
pub fn kubeconfig(
    cluster: &str,
    user: &str,
    server: &str,
    authority: &str,
    credentials: Credentials<'_>,
) -> Kubeconfig {
    let context = format!("{user}@{cluster}");
    let proof = match credentials {
        Credentials::Certificate { certificate, key } => AuthInfo {
            client_certificate_data: Some(BASE64.encode(certificate)),
            client_key_data: Some(BASE64.encode(key).into()),
            ..AuthInfo::default()
        },
        Credentials::Token(token) => AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        },
    };
    let reached = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: Some(BASE64.encode(authority)),
        ..Cluster::default()
    };
    let meant = Context {
        cluster: cluster.to_owned(),
        user: Some(user.to_owned()),
        ..Context::default()
    };
    Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        preferences: Some(Preferences::default()),
        clusters: vec![NamedCluster {
            name: cluster.to_owned(),
            cluster: Some(reached),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: user.to_owned(),
            auth_info: Some(proof),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: context.clone(),
            context: Some(meant),
            ..NamedContext::default()
        }],
        current_context: Some(context),
        ..Kubeconfig::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kubeconfigs_have_the_fields_that_cluster_api_writes() {
        let of = |credentials| {
            serde_json::to_value(kubeconfig(
                "demo",
                "admin",
                "https://10.0.0.7:20000",
                "CA",
                credentials,
            ))
            .expect("it is JSON")
        };
        let expected = |user| {
            json!({
                "apiVersion": "v1",
                "kind": "Config",
                "preferences": {},
                "clusters": [{
                    "name": "demo",
                    "cluster": { "server": "https://10.0.0.7:20000", "certificate-authority-data": "Q0E=" },
                }],
                "users": [{ "name": "admin", "user": user }],
                "contexts": [{ "name": "admin@demo", "context": { "cluster": "demo", "user": "admin" } }],
                "current-context": "admin@demo",
            })
        };
        let certificate = json!({ "client-certificate-data": "Qw==", "client-key-data": "Sw==" });
        assert_eq!(
            of(Credentials::Certificate {
                certificate: "C",
                key: "K"
            }),
            expected(certificate)
        );
        assert_eq!(
            of(Credentials::Token("secret")),
            expected(json!({ "token": "secret" }))
        );
    }
}
