//! What is known about the Clusters. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt as _, runtime::watcher::Event};
use nephele_api::{conditions, core::Cluster};
use nephele_fake_capi::{AVAILABLE, TOPOLOGY_RECONCILED};

use crate::watched::Watched;

/// Namespace and name of a Cluster.
pub(super) type ClusterKey = (String, String);

/// A change of a followed object.
pub(super) enum Followed {
    Cluster(Box<Event<Cluster>>),
    Secret(Box<Event<Secret>>),
}

/// The Clusters, and the kubeconfigs in their Secrets.
#[derive(Debug, Default)]
pub(super) struct State {
    clusters: Watched<ClusterKey, Cluster>,
    kubeconfigs: Watched<ClusterKey, String>,
}

impl State {
    pub(super) fn apply(&mut self, change: Followed) {
        match change {
            Followed::Cluster(event) => self.clusters.apply(*event, |cluster| {
                let key = (cluster.namespace()?, cluster.name_any());
                Some((key, cluster))
            }),
            Followed::Secret(event) => self.kubeconfigs.apply(*event, |secret| kubeconfig(&secret)),
        }
    }

    pub(super) fn is_available(&self, key: &ClusterKey) -> bool {
        self.condition(key, AVAILABLE)
            .is_some_and(|(status, _)| status == conditions::TRUE)
    }

    /// The kubeconfigs of the clusters whose API servers are up, or were.
    pub(super) fn kubeconfigs(&self) -> BTreeMap<&ClusterKey, &String> {
        let is_up = |key: &ClusterKey| {
            self.clusters
                .known
                .get(key)
                .is_some_and(Cluster::is_control_plane_initialized)
        };
        self.kubeconfigs
            .known
            .iter()
            .filter(|(key, _)| is_up(key))
            .collect()
    }

    /// A topology among those of the wanted clusters that cannot be used.
    pub(super) fn mistake(&self, wanted: &[ClusterKey]) -> Option<String> {
        wanted.iter().find_map(|key| {
            let (status, message) = self.condition(key, TOPOLOGY_RECONCILED)?;
            let (namespace, name) = key;
            (status == conditions::FALSE).then(|| {
                format!("Cluster {namespace}/{name} cannot be created: {message}; correct it in its file")
            })
        })
    }

    /// The wanted clusters that are not available, with the reasons.
    pub(super) fn what_is_missing(&self, wanted: &[ClusterKey]) -> String {
        let missing = wanted.iter().filter(|key| !self.is_available(key)).map(|key| {
            let (namespace, name) = key;
            let reason = match self.condition(key, AVAILABLE) {
                Some((_, message)) => message,
                None if self.clusters.known.contains_key(key) => {
                    "nothing plays it; it needs spec.topology for the stand-in, or a running Cluster API"
                }
                None => "it does not exist any more",
            };
            format!("Cluster {namespace}/{name}: {reason}")
        });
        missing.collect::<Vec<_>>().join("; ")
    }

    /// Status and message of a condition.
    fn condition(&self, key: &ClusterKey, kind: &str) -> Option<(&str, &str)> {
        let status = self.clusters.known.get(key)?.status.as_ref()?;
        let condition = conditions::find(&status.conditions, kind)?;
        Some((condition.status.as_str(), condition.message.as_str()))
    }
}

/// The kubeconfig in a Secret, by Cluster.
fn kubeconfig(secret: &Secret) -> Option<(ClusterKey, String)> {
    let cluster = secret.name_any().strip_suffix("-kubeconfig")?.to_owned();
    let value = secret.data.as_ref()?.get("value")?;
    let text = String::from_utf8(value.0.clone()).ok()?;
    Some(((secret.namespace()?, cluster), text))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> ClusterKey {
        ("team".to_owned(), name.to_owned())
    }

    fn cluster(name: &str, conditions: &[(&str, &str)]) -> Cluster {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| {
                json!({"type": kind, "status": status, "reason": "R", "message": "why",
                       "lastTransitionTime": "2026-03-04T05:06:07Z"})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": {"conditions": conditions},
        }))
        .expect("a Cluster")
    }

    fn secret(name: &str) -> Secret {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.namespace = Some("team".to_owned());
        secret.data = Some(BTreeMap::from([(
            "value".to_owned(),
            ByteString(b"text".to_vec()),
        )]));
        secret
    }

    fn known(clusters: Vec<Cluster>, secrets: Vec<Secret>) -> State {
        let mut state = State::default();
        for cluster in clusters {
            state.apply(Followed::Cluster(Box::new(Event::Apply(cluster))));
        }
        for secret in secrets {
            state.apply(Followed::Secret(Box::new(Event::Apply(secret))));
        }
        state
    }

    #[test]
    fn file_belongs_to_a_cluster_that_exists_and_whose_api_server_is_up() {
        let up = [("ControlPlaneInitialized", "True")];
        let secrets = || {
            vec![
                secret("a-kubeconfig"),
                secret("b-kubeconfig"),
                secret("c-kubeconfig"),
                secret("a-ca"),
            ]
        };
        let state = known(vec![cluster("a", &up), cluster("b", &[])], secrets());
        assert_eq!(
            state.kubeconfigs(),
            BTreeMap::from([(&key("a"), &"text".to_owned())])
        );
    }

    #[test]
    fn watch_that_starts_again_forgets_what_is_gone_only_when_it_knows_all() {
        let mut state = known(vec![cluster("a", &[]), cluster("b", &[])], Vec::new());
        state.apply(Followed::Cluster(Box::new(Event::Init)));
        state.apply(Followed::Cluster(Box::new(Event::InitApply(cluster(
            "b",
            &[(AVAILABLE, "True")],
        )))));
        assert_eq!(state.clusters.known.len(), 2);
        state.apply(Followed::Cluster(Box::new(Event::InitDone)));
        assert_eq!(state.clusters.known.keys().collect::<Vec<_>>(), [&key("b")]);
        state.apply(Followed::Cluster(Box::new(Event::Delete(cluster("b", &[])))));
        assert!(state.clusters.known.is_empty());
    }

    #[test]
    fn what_is_missing_says_why() {
        let state = known(
            vec![cluster("a", &[(AVAILABLE, "False")]), cluster("b", &[])],
            Vec::new(),
        );
        let missing = state.what_is_missing(&[key("a"), key("b"), key("c")]);
        assert_eq!(
            missing,
            "Cluster team/a: why; Cluster team/b: nothing plays it; it needs spec.topology for the stand-in, or a \
             running Cluster API; Cluster team/c: it does not exist any more"
        );
        let state = known(vec![cluster("a", &[(AVAILABLE, "True")])], Vec::new());
        assert_eq!(state.what_is_missing(&[key("a")]), "");
    }

    #[test]
    fn topology_that_cannot_be_used_is_a_mistake() {
        let of = |status| {
            known(vec![cluster("a", &[(TOPOLOGY_RECONCILED, status)])], Vec::new()).mistake(&[key("a")])
        };
        assert_eq!(of("True"), None);
        assert_eq!(
            of("False").expect("a mistake"),
            "Cluster team/a cannot be created: why; correct it in its file"
        );
    }
}
