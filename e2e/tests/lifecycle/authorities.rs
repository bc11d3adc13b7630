//! Invalid certificate authorities.

use base64::{Engine, prelude::BASE64_STANDARD};
use nephele_e2e::{Look, Scope, Shape, management::kinds, state, until, wait::LIMIT};
use serde_json::json;

#[tokio::test]
async fn broken_authority_is_told_by_a_condition_and_harms_no_other() -> anyhow::Result<()> {
    let scope = Scope::new("authority").await?;
    let garbage = BASE64_STANDARD.encode("this is no certificate");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {
            "name": "broken-ca", "namespace": scope.namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "broken"},
        },
        "data": {"tls.crt": garbage, "tls.key": garbage},
    });
    scope.management.apply(&scope.namespace, &[secret]).await?;
    let broken = scope.plain("broken", Shape::new(1, 0)).await?;
    until(
        "the InMemoryCluster to say that the authority is broken",
        LIMIT,
        async || {
            let infrastructure = broken.object(kinds::IN_MEMORY_CLUSTER, "broken").await?;
            let condition = state::condition(&infrastructure, "CertificateAuthoritiesAvailable");
            let told = condition.is_some_and(|condition| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["status"] == "False"
                    && condition["reason"] == "InvalidCertificateAuthority"
                    && message.contains("certificate")
            });
            Ok(Look::when(told, || state::line(&infrastructure)))
        },
    )
    .await?;

    let sound = scope.plain("sound", Shape::new(1, 0)).await?;
    sound.settled(1, 0).await?;
    // The Secret belongs to the user, so it is not deleted with the cluster.
    scope
        .management
        .delete(kinds::CLUSTER, &scope.namespace, "broken")
        .await?;
    scope
        .management
        .delete(kinds::SECRET, &scope.namespace, "broken-ca")
        .await?;
    scope.finish().await
}
