//! Certificates of webhooks, and the URLs by which the API server calls them, in place of cert-manager and Services.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
};

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use nephele_pki::{Authority, Leaf};
use serde_json::{Value, json};

use crate::{
    control_plane::{authority, leaf, write},
    manager::Manager,
    ports::ADDRESS,
};

/// The authority of webhooks that an API server on this machine calls by URL.
pub struct WebhookAuthority {
    authority: Authority,
    now: Timestamp,
}

impl WebhookAuthority {
    /// A new one.
    ///
    /// # Errors
    /// When there is no entropy.
    pub fn new(now: Timestamp) -> anyhow::Result<Self> {
        let authority = authority("nephele-webhooks", now)?;
        Ok(Self { authority, now })
    }

    /// A certificate for webhooks at an address, with its key.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn issue(&self, name: &str, address: IpAddr) -> anyhow::Result<Leaf> {
        let mut request = leaf(name, self.now);
        request.ip_addresses = vec![address];
        let issued = self.authority.issue(&request);
        issued.with_context(|| format!("failed to issue the certificate of {name}"))
    }

    /// Lets the client of a webhook or a conversion call an address, in place of a Service.
    pub fn lead(&self, client: &mut Value, address: SocketAddr) {
        let path = client["service"]["path"].as_str().unwrap_or_default();
        let url = format!("https://{address}{path}");
        let authority = BASE64_STANDARD.encode(self.authority.certificate_pem());
        *client = json!({"url": url, "caBundle": authority});
    }
}

/// Writes the certificate of a manager into a folder, under the names that a Secret would mount.
pub(crate) fn write_certificate(
    authority: &WebhookAuthority,
    manager: &Manager,
    folder: &Path,
) -> anyhow::Result<()> {
    let issued = authority.issue(&manager.label, ADDRESS)?;
    write(&folder.join("tls.crt"), &issued.certificate_pem())?;
    write(&folder.join("tls.key"), &issued.key_pem())
}

/// Has webhooks and conversions among the objects call the managers by URL, each where it serves its webhooks.
pub(crate) fn lead(authority: &WebhookAuthority, objects: &mut [Value], managers: &[(&Manager, SocketAddr)]) {
    let services: Vec<(String, String, SocketAddr)> = objects
        .iter()
        .filter(|object| object["kind"] == "Service")
        .filter_map(|service| {
            let (_, address) = managers
                .iter()
                .find(|(manager, _)| manager.is_selected_by(service))?;
            let text = |field: &str| service["metadata"][field].as_str().map(str::to_owned);
            Some((text("namespace")?, text("name")?, *address))
        })
        .collect();
    let lead = |client: &mut Value| {
        let service = &client["service"];
        let found = services
            .iter()
            .find(|(namespace, name, _)| service["namespace"] == *namespace && service["name"] == *name);
        if let Some((_, _, address)) = found {
            authority.lead(client, *address);
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
        let authority = WebhookAuthority::new(now).expect("an authority");
        let address = "127.0.0.1:7".parse().expect("an address");
        lead(&authority, &mut objects, &[(&manager, address)]);
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
