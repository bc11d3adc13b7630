//! Kubeconfig files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

/// A kubeconfig with one cluster, one user and the context `<user>@<cluster>`, as YAML; certificates and key are PEM.
#[must_use]
pub fn kubeconfig(
    cluster: &str,
    user: &str,
    server: &str,
    authority: &str,
    client_certificate: &str,
    client_key: &str,
) -> String {
    let context = format!("{user}@{cluster}");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": cluster,
            "cluster": {"server": server, "certificate-authority-data": BASE64.encode(authority)},
        }],
        "users": [{
            "name": user,
            "user": {
                "client-certificate-data": BASE64.encode(client_certificate),
                "client-key-data": BASE64.encode(client_key),
            },
        }],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "preferences": {},
    });
    serde_yaml_ng::to_string(&config).expect("JSON is always YAML")
}
