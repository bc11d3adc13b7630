//! What a kubeadm configuration says that others see. Pure.

use std::collections::BTreeMap;

use nephele_apiserver::is_label;
use serde_json::Value;

use super::bounds::BOUNDS;

/// The most labels, and the most taints, that a machine is given.
const LIST_MAX: usize = 64;
/// The longest name of an image repository or tag, and the longest URL of a member of etcd.
const TEXT_MAX: usize = 512;
/// The most members of an external etcd.
const ENDPOINTS_MAX: usize = 16;

/// What the kubeadm configuration of a machine says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kubeadm {
    /// The labels that its Node registers with. Those that a kubelet refuses are left out.
    pub node_labels: BTreeMap<String, String>,
    /// The taints that its Node registers with. `None` for those of its role.
    pub taints: Option<Vec<Taint>>,
    /// What it says about the cluster: only the machine that kubeadm initializes a cluster on has that. Other control plane
    /// machines take it from the cluster.
    pub cluster: Option<KubeadmCluster>,
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    pub effect: String,
}

/// What a kubeadm configuration says about a cluster. Empty texts stand for defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeadmCluster {
    pub image_repository: String,
    /// Where the image of CoreDNS comes from.
    pub dns_image_repository: String,
    /// The tag of the image of CoreDNS.
    pub dns_image_tag: String,
    /// Where the image of etcd comes from.
    pub etcd_image_repository: String,
    /// The tag of the image of etcd.
    pub etcd_image_tag: String,
    /// The URLs of an etcd that the user runs elsewhere. Then machines have no member.
    pub external_etcd: Vec<String>,
    /// Whether kubeadm does not install kube-proxy.
    pub skips_proxy: bool,
    /// Whether kubeadm does not install CoreDNS.
    pub skips_dns: bool,
}

/// kubeadm's default for [`KubeadmCluster::image_repository`].
const REPOSITORY: &str = "registry.k8s.io";

impl KubeadmCluster {
    /// The repository of images (kubeadm, `GetGenericImage`).
    pub(crate) fn repository(&self) -> &str {
        or(&self.image_repository, REPOSITORY)
    }

    /// The image of CoreDNS (kubeadm, `GetDNSImage`).
    pub(crate) fn dns_image(&self, default_tag: &str) -> String {
        let repository = or(&self.dns_image_repository, self.repository());
        let folder = if repository == REPOSITORY { "/coredns" } else { "" };
        format!(
            "{repository}{folder}/coredns:{}",
            or(&self.dns_image_tag, default_tag)
        )
    }

    /// The image of etcd with a tag (kubeadm, `GetEtcdImage`).
    pub(crate) fn etcd_image(&self, tag: &str) -> String {
        format!(
            "{}/etcd:{tag}",
            or(&self.etcd_image_repository, self.repository())
        )
    }

    /// What a `ClusterConfiguration` says.
    fn of(document: &Value) -> Self {
        let text = |pointer: &str| bounded(document.pointer(pointer).and_then(Value::as_str));
        let is_true = |pointer: &str| document.pointer(pointer) == Some(&Value::Bool(true));
        let endpoints = document
            .pointer("/etcd/external/endpoints")
            .and_then(Value::as_array);
        let endpoints = endpoints
            .into_iter()
            .flatten()
            .map(|endpoint| bounded(endpoint.as_str()));
        let repository = text("/imageRepository");
        Self {
            image_repository: if repository == REPOSITORY {
                String::new()
            } else {
                repository
            },
            dns_image_repository: text("/dns/imageRepository"),
            dns_image_tag: text("/dns/imageTag"),
            etcd_image_repository: text("/etcd/local/imageRepository"),
            etcd_image_tag: text("/etcd/local/imageTag"),
            external_etcd: endpoints
                .filter(|endpoint| !endpoint.is_empty())
                .take(ENDPOINTS_MAX)
                .collect(),
            skips_proxy: is_true("/proxy/disabled"),
            skips_dns: is_true("/dns/disabled"),
        }
    }

    /// What the ConfigMap `kubeadm-config` of a cluster says.
    pub(crate) fn published(text: &str) -> Option<Self> {
        Some(Self::of(&nephele_yaml::read_one(text, &BOUNDS).ok()?))
    }

    fn skip(&mut self, phases: &Value) {
        for phase in phases.as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.skips_proxy |= matches!(phase, "addon" | "addon/kube-proxy");
            self.skips_dns |= matches!(phase, "addon" | "addon/coredns");
        }
    }
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// A text, if it is not too long to be kept.
fn bounded(text: Option<&str>) -> String {
    text.filter(|text| text.len() <= TEXT_MAX)
        .unwrap_or_default()
        .to_owned()
}

/// Reads the documents of kubeadm in a text. `None` when there is none.
pub(super) fn read(text: &str) -> Option<Kubeadm> {
    let mut found: Option<Kubeadm> = None;
    let mut skipped = Value::Null;
    for (_, mut document) in nephele_yaml::read_all(text, &BOUNDS).ok()? {
        if !document["apiVersion"]
            .as_str()
            .is_some_and(|version| version.starts_with("kubeadm.k8s.io/"))
        {
            continue;
        }
        match document["kind"].as_str() {
            Some("ClusterConfiguration") => {
                found.get_or_insert_default().cluster = Some(KubeadmCluster::of(&document));
            }
            Some("InitConfiguration" | "JoinConfiguration") => {
                let registration = &document["nodeRegistration"];
                let found = found.get_or_insert_default();
                found.node_labels = labels(&argument(registration, "node-labels").unwrap_or_default());
                let of_kubelet = argument(registration, "register-with-taints");
                found.taints = of_kubelet
                    .map(|text| written_taints(&text))
                    .or_else(|| taints(&registration["taints"]));
                skipped = document["skipPhases"].take();
            }
            Some(_) | None => {}
        }
    }
    if let Some(cluster) = found.as_mut().and_then(|found| found.cluster.as_mut()) {
        cluster.skip(&skipped);
    }
    found
}

/// The last value of an argument of the kubelet: v1beta4 has a list, earlier versions have an object.
fn argument(registration: &Value, name: &str) -> Option<String> {
    let arguments = &registration["kubeletExtraArgs"];
    let value = match arguments.as_array() {
        Some(list) => &list.iter().rev().find(|argument| argument["name"] == name)?["value"],
        None => &arguments[name],
    };
    value.as_str().map(str::to_owned)
}

/// `taints: []` is a list without taints, and no list means those of the role.
fn taints(listed: &Value) -> Option<Vec<Taint>> {
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let read = |taint: &Value| Taint {
        key: text(taint, "key"),
        value: text(taint, "value"),
        effect: text(taint, "effect"),
    };
    Some(
        listed
            .as_array()?
            .iter()
            .map(read)
            .filter(is_taint)
            .take(LIST_MAX)
            .collect(),
    )
}

/// `key=value:effect,…`, where `=value` may be absent.
fn written_taints(text: &str) -> Vec<Taint> {
    let read = |taint: &str| {
        let (name, effect) = taint.rsplit_once(':')?;
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        Some(Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        })
    };
    text.split(',')
        .filter_map(read)
        .filter(is_taint)
        .take(LIST_MAX)
        .collect()
}

fn is_taint(taint: &Taint) -> bool {
    let Taint { key, value, effect } = taint;
    is_label(key, value) && ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect.as_str())
}

/// `key=value,…`
fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text
        .split(',')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs = pairs.map(|(key, value)| (key.trim(), value.trim()));
    let taken = pairs
        .filter(|(key, value)| is_label(key, value) && is_taken(key))
        .take(LIST_MAX);
    taken
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Whether a kubelet registers with a label of this name (`kubelet/pkg/apis/well_known_labels.go`, `IsKubeletLabel`).
fn is_taken(key: &str) -> bool {
    const KNOWN: [&str; 11] = [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "kubernetes.io/os",
        "kubernetes.io/arch",
    ];
    let Some((prefix, _)) = key.split_once('/') else {
        return true;
    };
    let is_in = |domain: &str| {
        prefix == domain
            || prefix
                .strip_suffix(domain)
                .is_some_and(|before| before.ends_with('.'))
    };
    let is_reserved = is_in("kubernetes.io") || is_in("k8s.io");
    !is_reserved || is_in("kubelet.kubernetes.io") || is_in("node.kubernetes.io") || KNOWN.contains(&key)
}
