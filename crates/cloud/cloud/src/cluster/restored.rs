//! What reappears when a client deletes or empties it, because something in a real cluster restores it: the API server its
//! namespaces and its own Service, a controller the default service accounts, and the kubelet of a Node that exists its
//! Lease, its mirror pods and its status. Nothing restores the ConfigMaps and roles of kubeadm, the addons, or a Node.

use std::{collections::BTreeSet, time::Duration};

use nephele_apiserver::{ChangeKind, GroupResource, Key};
use nephele_model::{Stage, VisibleEffect};

use super::{
    Cluster, Machine,
    objects::{lease_key, node_key},
    of_kubelet,
};
use crate::projection::{self, Component, Projected};

/// How long clients see that something is gone: whatever restores it looks every few seconds. So clients that wait for a
/// deletion see it, and clients that delete again and again cause a write in this time at most.
const PAUSE: Duration = Duration::from_secs(2);

/// What clients changed since the last look, as far as it is restored.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missed {
    /// An object that each cluster has.
    base: bool,
    /// The Nodes whose kubelets miss something.
    nodes: BTreeSet<String>,
}

impl Machine {
    /// Whether its kubelet looks after its objects.
    fn has_kubelet(&self) -> bool {
        let is_silent = self.is_silent() || !self.silenced.is_empty();
        !is_silent && !self.has(&VisibleEffect::NotReady) && self.reached(Stage::Node).is_some()
    }
}

impl Cluster {
    /// Restores what clients deleted or emptied. Runs until the cluster is deleted.
    pub(crate) async fn keep_restored(&self) {
        let mut newest = self.cluster_server.store.subscribe();
        let mut seen = 0;
        let mut left = BTreeSet::new();
        loop {
            let version = *newest.borrow_and_update();
            let mut missed = self.missed(seen);
            missed.nodes.append(&mut left);
            if missed != Missed::default() {
                left = self.restore(&missed, seen);
            }
            seen = version;
            let changed = async {
                let changed = newest.changed().await;
                tokio::time::sleep(PAUSE).await;
                changed
            };
            tokio::select! {
                () = self.cluster_server.over.cancelled() => return,
                changed = changed => if changed.is_err() { return },
            }
        }
    }

    /// What is missed since a version of the store. Everything, if the store does not know any more.
    fn missed(&self, since: u64) -> Missed {
        let changes = |group: &str, resource: &str| {
            self.cluster_server
                .store
                .changes_since(since, &GroupResource::new(group, resource), usize::MAX)
        };
        let look = || {
            let mut missed = Missed::default();
            for resource in ["namespaces", "serviceaccounts", "services"] {
                let gone = changes("", resource)?;
                missed.base |= gone.iter().any(|change| change.kind == ChangeKind::Deleted);
            }
            for change in changes("coordination.k8s.io", "leases")? {
                if change.kind == ChangeKind::Deleted && *change.object.namespace == *"kube-node-lease" {
                    missed.nodes.insert(change.object.name.to_string());
                }
            }
            for change in changes("", "pods")? {
                let node = |component: Component| {
                    let name = change.object.name.strip_prefix(component.name())?;
                    name.strip_prefix('-').map(str::to_owned)
                };
                if change.kind == ChangeKind::Deleted && *change.object.namespace == *"kube-system" {
                    missed.nodes.extend(Component::ALL.into_iter().filter_map(node));
                }
            }
            for change in changes("", "nodes")? {
                if change.kind == ChangeKind::Modified && !projection::has_status(&change.object.value()) {
                    missed.nodes.insert(change.object.name.to_string());
                }
            }
            Ok::<_, nephele_apiserver::Expired>(missed)
        };
        look().unwrap_or_else(|_| {
            let state = self.state.lock();
            let nodes = state
                .machines
                .values()
                .map(|machine| machine.kubelet().into_owned())
                .collect();
            Missed { base: true, nodes }
        })
    }

    /// Returns the Nodes whose kubelets do not run: each looks after its objects when it runs again, which its Node shows.
    fn restore(&self, missed: &Missed, since: u64) -> BTreeSet<String> {
        if missed.base {
            self.create(
                projection::base(&self.scope(self.now()))
                    .into_iter()
                    .map(as_new)
                    .collect(),
            );
        }
        let state = self.state.lock();
        let mut left = BTreeSet::new();
        for node in &missed.nodes {
            match of_kubelet(&state.machines, node) {
                Some(machine) if machine.has_kubelet() => self.restore_node(machine, node, since),
                Some(machine) if !machine.is_deleting() => drop(left.insert(node.clone())),
                Some(_) | None => {}
            }
        }
        left
    }

    /// Restores what the kubelet of a Node looks after. It does nothing for a Node that is gone or is deleted, and looks
    /// at the status of one that has changed only.
    fn restore_node(&self, machine: &Machine, name: &str, since: u64) {
        let store = &self.cluster_server.store;
        let Some(node) = store.get(&node_key(name)).filter(|node| !node.is_deleting()) else {
            return;
        };
        let has_started = |component: &Component| {
            let stage = if *component == Component::Etcd {
                Stage::Etcd
            } else {
                Stage::ApiServer
            };
            machine.reached(stage).is_some()
                && (stage != Stage::Etcd || machine.spec.runs_etcd())
                && store
                    .get(&Key::new("", "pods", "kube-system", &component.pod_name(name)))
                    .is_none()
        };
        let pods: Vec<_> = Component::ALL.into_iter().filter(has_started).collect();
        let has_lease = store.get(&lease_key(name)).is_some();
        if pods.is_empty() && has_lease && node.resource_version <= since {
            return;
        }
        let value = node.value();
        if !projection::is_node_of(&value, &machine.spec) {
            return;
        }
        let now = self.now();
        let mut missing: Vec<_> = pods
            .into_iter()
            .map(|component| {
                let mut pod = projection::static_pod(&self.scope(now), &machine.spec, name, component);
                // A Node that a client made has a uid of its own.
                pod.value["metadata"]["ownerReferences"][0]["uid"] = (*node.uid).into();
                pod
            })
            .collect();
        let has_status = projection::has_status(&value);
        if !has_lease || !has_status {
            let (leases, nodes): (Vec<_>, Vec<_>) = self
                .node(machine, name, now)
                .into_iter()
                .partition(|object| object.key == lease_key(name));
            missing.extend(leases);
            let shown = if name == machine.spec.node_name() {
                machine.shown()
            } else {
                machine.shown_by_replaced_node()
            };
            for reported in nodes.iter().filter(|_| !has_status) {
                self.edit(&node_key(name), |node| {
                    projection::fill_status(node, &reported.value["status"]);
                    projection::show_visible_effects(node, &shown, now);
                });
            }
        }
        self.create(missing.into_iter().map(as_new).collect());
    }
}

/// An object that is restored is another one than before: clients that wait until the old one is gone look at the uid.
fn as_new(mut object: Projected) -> Projected {
    if let Some(metadata) = object.value["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    object
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nephele_apiserver::DeleteOptions;
    use serde_json::{Value, json};

    use super::{
        super::tests::{cluster_following, control_plane, driver},
        *,
    };

    fn running() -> Arc<Cluster> {
        let cluster = Arc::new(cluster_following(&driver()));
        cluster.admit(control_plane(&cluster, "cp"));
        for stage in [Stage::Node, Stage::Etcd, Stage::ApiServer] {
            cluster.reach("cp", &[stage]);
        }
        cluster
    }

    fn keys() -> [Key; 5] {
        [
            Key::new("", "services", "default", "kubernetes"),
            Key::new("", "serviceaccounts", "kube-system", "default"),
            Key::new("", "pods", "kube-system", "kube-apiserver-cp"),
            Key::new("", "pods", "kube-system", "etcd-cp"),
            lease_key("cp"),
        ]
    }

    fn delete(cluster: &Cluster, key: &Key) {
        cluster
            .cluster_server
            .store
            .delete(cluster.now(), key, &DeleteOptions::default())
            .expect("it is there");
    }

    fn there(cluster: &Cluster) -> Vec<bool> {
        keys()
            .iter()
            .map(|key| cluster.cluster_server.store.get(key).is_some())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_real_cluster_restores_returns_as_another_object() {
        let cluster = running();
        let persister = cluster.clone();
        let kept = tokio::spawn(async move { persister.keep_restored().await });
        tokio::time::sleep(3 * PAUSE).await;
        let uids = |cluster: &Cluster| {
            keys().map(|key| {
                cluster
                    .cluster_server
                    .store
                    .get(&key)
                    .expect("it is there")
                    .uid
                    .to_string()
            })
        };
        let before = uids(&cluster);
        keys().iter().for_each(|key| delete(&cluster, key));
        tokio::time::sleep(PAUSE / 2).await;
        assert_eq!(there(&cluster), [false; 5], "clients see that they are gone");
        tokio::time::sleep(PAUSE).await;
        let after = uids(&cluster);
        assert!(
            before.iter().zip(&after).all(|(before, after)| before != after),
            "{before:?} {after:?}"
        );
        let node = cluster
            .cluster_server
            .store
            .get(&node_key("cp"))
            .expect("it is there");
        let pod = cluster
            .cluster_server
            .store
            .get(&keys()[2])
            .expect("it is there")
            .value();
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], *node.uid);
        // Nothing is written when nothing is missing.
        let version = cluster.cluster_server.store.resource_version();
        tokio::time::sleep(10 * PAUSE).await;
        assert_eq!(cluster.cluster_server.store.resource_version(), version);
        cluster.cluster_server.over.cancel();
        kept.await.expect("it ends with the cluster");
    }

    #[tokio::test(start_paused = true)]
    async fn kubelet_that_runs_again_restores_what_went_meanwhile() {
        let cluster = running();
        let persister = cluster.clone();
        let kept = tokio::spawn(async move { persister.keep_restored().await });
        cluster.affect("cp", "fault", VisibleEffect::Frozen);
        tokio::time::sleep(3 * PAUSE).await;
        keys()[2..].iter().for_each(|key| delete(&cluster, key));
        tokio::time::sleep(3 * PAUSE).await;
        assert_eq!(there(&cluster), [true, true, false, false, false]);
        cluster.clear("cp", "fault");
        tokio::time::sleep(3 * PAUSE).await;
        assert_eq!(there(&cluster), [true; 5]);
        cluster.cluster_server.over.cancel();
        kept.await.expect("it ends with the cluster");
    }

    #[test]
    fn what_nothing_restores_stays_away() {
        let cluster = running();
        let since = cluster.cluster_server.store.resource_version();
        delete(&cluster, &node_key("cp"));
        keys()[2..].iter().for_each(|key| {
            let _ = cluster
                .cluster_server
                .store
                .delete(cluster.now(), key, &DeleteOptions::default());
        });
        cluster.restore(&cluster.missed(since), since);
        assert_eq!(
            there(&cluster),
            [true, true, false, false, false],
            "there is no Node"
        );
        assert_eq!(
            cluster
                .cluster_server
                .store
                .get(&node_key("cp"))
                .map(|node| node.name.clone()),
            None
        );
    }

    #[test]
    fn kubelet_that_does_not_run_restores_nothing() {
        for visible_effect in [VisibleEffect::Frozen, VisibleEffect::NotReady] {
            let cluster = running();
            let since = cluster.cluster_server.store.resource_version();
            cluster.affect("cp", "fault", visible_effect);
            keys()[2..].iter().for_each(|key| delete(&cluster, key));
            cluster.restore(&cluster.missed(since), since);
            assert_eq!(there(&cluster), [true, true, false, false, false]);
        }
        let cluster = running();
        let since = cluster.cluster_server.store.resource_version();
        keys()[2..].iter().for_each(|key| delete(&cluster, key));
        cluster.begin_deletion("cp");
        cluster.restore(&cluster.missed(since), since);
        assert_eq!(there(&cluster), [true, true, false, false, false]);
    }

    #[test]
    fn status_of_a_node_is_filled_again() {
        let cluster = running();
        let before = cluster
            .cluster_server
            .store
            .get(&node_key("cp"))
            .expect("it is there")
            .value();
        for emptied in [
            json!({}),
            Value::Null,
            json!({"conditions": [{"type": "Own", "status": "True"}]}),
        ] {
            let since = cluster.cluster_server.store.resource_version();
            cluster.edit(&node_key("cp"), |node| node["status"] = emptied.clone());
            cluster.restore(&cluster.missed(since), since);
            let mut after = cluster
                .cluster_server
                .store
                .get(&node_key("cp"))
                .expect("it is there")
                .value();
            let conditions = after["status"]["conditions"].as_array_mut().expect("a list");
            let own = conditions
                .iter()
                .filter(|condition| condition["type"] == "Own")
                .count();
            assert_eq!(
                own,
                emptied["conditions"].as_array().map_or(0, Vec::len),
                "those of clients stay"
            );
            conditions.retain(|condition| condition["type"] != "Own");
            assert_eq!(after["status"], before["status"], "{emptied}");
        }
    }

    #[test]
    fn everything_is_looked_at_when_the_store_has_forgotten() {
        let cluster = running();
        keys().iter().for_each(|key| delete(&cluster, key));
        for round in 0..600 {
            cluster.edit(&node_key("cp"), |node| {
                node["metadata"]["labels"]["round"] = round.to_string().into();
            });
        }
        cluster.restore(&cluster.missed(1), 1);
        assert_eq!(there(&cluster), [true; 5]);
    }
}
