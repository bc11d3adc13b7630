//! Certificates of webhooks, and the URLs by which the API server calls them, in place of cert-manager and Services.

use std::path::Path;

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use nephele_pki::Authority;
use serde_json::{Value, json};

use crate::{
    control_plane::{authority, leaf, write},
    manager::Manager,
};

/// The authority of all webhooks of a run.
pub(crate) struct Webhooks {
    authority: Authority,
    now: Timestamp,
}

impl Webhooks {
    pub(crate) fn new(now: Timestamp) -> anyhow::Result<Self> {
        let authority = authority("nephele-webhooks", now)?;
        Ok(Self { authority, now })
    }

    /// Writes the certificate of a manager into a folder, under the names that a Secret would mount.
    pub(crate) fn write_certificate(&self, manager: &Manager, folder: &Path) -> anyhow::Result<()> {
        let mut request = leaf(&manager.label, self.now);
        request.ip_addresses = vec![std::net::Ipv4Addr::LOCALHOST.into()];
        let issued = self
            .authority
            .issue(&request)
            .with_context(|| format!("failed to issue the certificate of {}", manager.label))?;
        write(&folder.join("tls.crt"), &issued.certificate_pem())?;
        write(&folder.join("tls.key"), &issued.key_pem())
    }

    /// Has webhooks and conversions among the objects call the managers by URL, each with its port of webhooks.
    pub(crate) fn lead(&self, objects: &mut [Value], managers: &[(&Manager, u16)]) {
        let services: Vec<(String, String, u16)> = objects
            .iter()
            .filter(|object| object["kind"] == "Service")
            .filter_map(|service| {
                let (_, port) = managers
                    .iter()
                    .find(|(manager, _)| manager.is_selected_by(service))?;
                let text = |field: &str| service["metadata"][field].as_str().map(str::to_owned);
                Some((text("namespace")?, text("name")?, *port))
            })
            .collect();
        let authority = BASE64_STANDARD.encode(self.authority.certificate_pem());
        let lead = |client: &mut Value| {
            let service = &client["service"];
            let found = services
                .iter()
                .find(|(namespace, name, _)| service["namespace"] == *namespace && service["name"] == *name);
            if let Some((_, _, port)) = found {
                let path = service["path"].as_str().unwrap_or_default();
                *client = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority});
            }
        };
        for object in objects {
            match object["kind"].as_str() {
                Some("CustomResourceDefinition") => {
                    object
                        .pointer_mut("/spec/conversion/webhook/clientConfig")
                        .map(lead);
                }
                Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
                    let webhooks = object["webhooks"].as_array_mut().into_iter().flatten();
                    webhooks.for_each(|webhook| lead(&mut webhook["clientConfig"]));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_and_conversions_of_a_process_have_its_url() {
        let deployment = json!({
            "metadata": {"name": "m", "namespace": "n"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{}]}}},
        });
        let manager = Manager::read(&deployment).expect("a Deployment");
        let service = |name: &str| json!({"service": {"namespace": "n", "name": name, "path": "/p"}});
        let of_kind =
            |kind: &str, name: &str| json!({"kind": kind, "webhooks": [{"clientConfig": service(name)}]});
        let mut objects = vec![
            json!({"kind": "Service", "metadata": {"namespace": "n", "name": "s"}, "spec": {"selector": {"a": "b"}}}),
            of_kind("MutatingWebhookConfiguration", "s"),
            of_kind("ValidatingWebhookConfiguration", "other"),
            json!({
                "kind": "CustomResourceDefinition",
                "spec": {"conversion": {"webhook": {"clientConfig": service("s")}}},
            }),
        ];
        let now = "2026-03-04T05:06:07Z".parse().expect("a time");
        let webhooks = Webhooks::new(now).expect("an authority");
        webhooks.lead(&mut objects, &[(&manager, 7)]);
        let clients = [
            &objects[1]["webhooks"][0]["clientConfig"],
            &objects[3]["spec"]["conversion"]["webhook"]["clientConfig"],
        ];
        for client in clients {
            assert_eq!(client["url"], "https://127.0.0.1:7/p");
            assert!(client["service"].is_null() && client["caBundle"].is_string());
        }
        assert_eq!(objects[2], of_kind("ValidatingWebhookConfiguration", "other"));
    }
}
