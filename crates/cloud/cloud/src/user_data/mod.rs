//! The user data that a machine boots with: what a bootstrap provider gives to the cloud. Only the kubeadm configuration in it
//! is read; all else, such as keys and commands, is dropped. Pure, but for the thread that [`read_user_data`] may use.

mod bounds;
mod kubeadm;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use bounds::{BOUNDS, MAX};
pub use kubeadm::{Kubeadm, KubeadmCluster, Taint};
use nephele_apiserver::percent_decode;
use nephele_budget::{Parse, parsed_size};
use nephele_poll_time::apart_if_large;
use serde_json::Value;

/// Where bootstrap providers put the configuration of kubeadm (cluster-api, `bootstrap/kubeadm/pkg/cloudinit` and
/// `bootstrap/kubeadm/pkg/ignition`).
const CONFIGURATIONS: [&str; 3] = [
    "/run/kubeadm/kubeadm.yaml",
    "/run/kubeadm/kubeadm-join-config.yaml",
    "/etc/kubeadm.yml",
];

/// The kubeadm configuration in user data: a cloud-config, or Ignition as JSON. `None` when there is none, or when it is in a
/// form that is not known, longer than 1 MiB or larger than 8 MiB when parsed. The caller bounds how many are read at a time.
pub async fn read_user_data(data: Vec<u8>) -> Option<Kubeadm> {
    if data.len() > MAX {
        return None;
    }
    apart_if_large(data.len(), move || read(&data)).await
}

fn read(data: &[u8]) -> Option<Kubeadm> {
    let text = std::str::from_utf8(data).ok()?;
    let configuration = if text.trim_start().starts_with('{') {
        of_ignition(text)
    } else {
        of_cloud_config(text)
    };
    kubeadm::read(&configuration?)
}

fn is_configuration(file: &Value) -> bool {
    file["path"]
        .as_str()
        .is_some_and(|path| CONFIGURATIONS.contains(&path))
}

/// The configuration in a cloud-config (cloud-init, module "Write Files"). Templates of Jinja in it are in quotes.
fn of_cloud_config(text: &str) -> Option<String> {
    let value = nephele_yaml::read_one(text, &BOUNDS).ok()?;
    let file = value["write_files"]
        .as_array()?
        .iter()
        .find(|file| is_configuration(file))?;
    let content = file["content"].as_str()?;
    match file["encoding"].as_str() {
        None | Some("" | "text/plain") => Some(content.to_owned()),
        Some("b64" | "base64") => decode(content),
        Some(_) => None,
    }
}

/// The configuration in an Ignition configuration, whose files are URLs of the scheme `data` (RFC 2397).
fn of_ignition(text: &str) -> Option<String> {
    if parsed_size(text.as_bytes(), Parse::Values) > BOUNDS.memory {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let file = value["storage"]["files"]
        .as_array()?
        .iter()
        .find(|file| is_configuration(file))?;
    let contents = &file["contents"];
    if contents["compression"]
        .as_str()
        .is_some_and(|compression| !compression.is_empty())
    {
        return None;
    }
    let (kind, data) = contents["source"]
        .as_str()?
        .strip_prefix("data:")?
        .split_once(',')?;
    let text = percent_decode(data)?;
    if kind.ends_with(";base64") {
        decode(&text)
    } else {
        Some(text)
    }
}

fn decode(text: &str) -> Option<String> {
    let packed: String = text.split_ascii_whitespace().collect();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(packed).ok()?).ok()
}
