//! Lets `CloudExtensionConfig` objects register extensions.

use nephele_api::cloud::{GROUP, v1alpha1::VERSION};
use nephele_runtime_sdk::{
    client::{
        ClientConfig, LabelSelector,
        extension_config::{Condition, ExtensionConfigSpec, ExtensionKind, HandlerStatus, Metadata, Status},
    },
    hooks::Settings,
};
use serde::Deserialize;

/// A `CloudExtensionConfig` as the Runtime SDK sees it. Its fields are those of Cluster API's kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Registered {
    metadata: Metadata,
    spec: ExtensionConfigSpec,
    status: RegisteredStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RegisteredStatus {
    conditions: Vec<Condition>,
    handlers: Vec<HandlerStatus>,
}

impl ExtensionKind for Registered {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "CloudExtensionConfig";
    const PLURAL: &'static str = "cloudextensionconfigs";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn client_config(&self) -> ClientConfig {
        self.spec.client_config.clone()
    }

    /// Without a selector, all namespaces are selected. In Kubernetes, a missing selector selects nothing, but Cluster
    /// API's webhook sets an empty one.
    fn namespace_selector(&self) -> Option<LabelSelector> {
        Some(self.spec.namespace_selector.clone().unwrap_or_default())
    }

    fn settings(&self) -> Settings {
        self.spec.settings.clone()
    }

    fn status(&self) -> Status {
        Status {
            conditions: self.status.conditions.clone(),
            handlers: self.status.handlers.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use nephele_api::cloud::v1alpha1::{
        CloudExtensionConfig, CloudExtensionConfigSpec, ExtensionClientConfig, ExtensionService,
    };
    use nephele_runtime_sdk::{
        client::{Registration, ServiceReference},
        wire::Bytes,
    };

    use super::*;

    /// The kind in the management API and the one that the Runtime SDK reads have the same fields.
    #[test]
    fn an_object_registers_what_it_says() {
        assert_eq!(CloudExtensionConfig::kind(&()), Registered::KIND);
        assert_eq!(CloudExtensionConfig::plural(&()), Registered::PLURAL);
        assert_eq!(
            CloudExtensionConfig::api_version(&()),
            format!("{GROUP}/{VERSION}")
        );
        let mut object = CloudExtensionConfig::new(
            "quota",
            CloudExtensionConfigSpec {
                client_config: ExtensionClientConfig {
                    url: String::new(),
                    service: Some(ExtensionService {
                        namespace: "ns".into(),
                        name: "svc".into(),
                        path: "/cloud".into(),
                        port: Some(8443),
                    }),
                    ca_bundle: Some(k8s_openapi_bytes(b"pem")),
                },
                namespace_selector: Some(serde_json::json!({ "matchLabels": { "tier": "gold" } })),
                settings: [("most".to_owned(), "3".to_owned())].into(),
            },
        );
        object.metadata.resource_version = Some("7".into());
        let read = |object: &CloudExtensionConfig| -> Registered {
            serde_json::from_value(serde_json::to_value(object).expect("JSON")).expect("the same kind")
        };
        let expected = Registration {
            name: "quota".into(),
            resource_version: "7".into(),
            client_config: ClientConfig {
                url: String::new(),
                service: Some(ServiceReference {
                    namespace: "ns".into(),
                    name: "svc".into(),
                    path: "/cloud".into(),
                    port: Some(8443),
                }),
                ca_bundle: Bytes(b"pem".to_vec()),
            },
            namespace_selector: Some(LabelSelector {
                match_labels: [("tier".to_owned(), "gold".to_owned())].into(),
                ..LabelSelector::default()
            }),
            settings: [("most".to_owned(), "3".to_owned())].into(),
            handlers: vec![],
        };
        assert_eq!(read(&object).registration(vec![]), expected);
        object.spec.namespace_selector = None;
        let everywhere = Registration {
            namespace_selector: Some(LabelSelector::default()),
            ..expected
        };
        assert_eq!(read(&object).registration(vec![]), everywhere);
    }

    fn k8s_openapi_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> T {
        let written = serde_json::to_value(Bytes(bytes.to_vec())).expect("base64");
        serde_json::from_value(written).expect("base64")
    }
}
