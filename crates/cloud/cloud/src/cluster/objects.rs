//! The objects that a cluster has because it exists and because machines run in it.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use nephele_apiserver::{DeleteOptions, GroupResource, Key, Object, StoreError};
use nephele_model::{Stage, VisibleEffect};
use serde_json::Value;

use super::{Cluster, Machine, State, joining::first_control_plane};
use crate::{
    identity::control_plane_node,
    projection::{self, Component, Projected},
    spec::MachineSpec,
};

impl Cluster {
    /// A Node of a machine, as its kubelet registers it under a name, and its Lease.
    pub(super) fn node(&self, machine: &Machine, name: &str, at: Timestamp) -> Vec<Projected> {
        let mut objects = projection::node(&self.scope(at), &machine.spec, name);
        let node = objects
            .iter_mut()
            .find(|object| object.key.resource.resource == "nodes");
        if let Some(node) = node.filter(|_| machine.has(&VisibleEffect::WrongProviderId)) {
            projection::set_wrong_provider_id(&mut node.value, &machine.spec);
        }
        objects
    }

    /// Whether the Node in the cluster belongs to a former machine of the same name.
    pub(super) fn is_previous(&self, spec: &MachineSpec) -> bool {
        let Some(node) = self.cluster_server.store.get(&node_key(&spec.node_name())) else {
            return true;
        };
        let created = node.value()["metadata"]["creationTimestamp"]
            .as_str()
            .and_then(|at| at.parse().ok());
        let created = created.map_or(i64::MIN, Timestamp::as_second);
        // The creation time of a Node is in whole seconds.
        let is_older = spec.started_at.is_some_and(|at| created < at.as_second());
        !spec.reached.contains_key(&Stage::Node) || is_older
    }

    /// Removes the kept objects of machines that no longer exist. A second Node of a machine counts as one of these: it
    /// returns with the machine, if the machine still has it.
    pub(crate) fn remove_previous_machines(&self) {
        if !self.was_restored {
            return;
        }
        let state = self.state.lock();
        let mut names = BTreeSet::new();
        for (group, resource) in [("", "nodes"), ("coordination.k8s.io", "leases")] {
            let resource = GroupResource::new(group, resource);
            let objects = self.cluster_server.store.list(&resource, None).objects;
            let made = |object: &Arc<Object>| projection::made(&self.spec.id, &object.key(&resource), object);
            names.extend(
                objects
                    .into_iter()
                    .filter(made)
                    .map(|object| object.name.to_string()),
            );
        }
        let persister = &self.cluster_server.shared.persister;
        let there: BTreeSet<_> = state
            .machines
            .values()
            .map(|machine| machine.spec.node_name())
            .collect();
        names.retain(|node| {
            !there.contains(node.as_str()) && !persister.may_have_node(&self.spec.id.namespace, node)
        });
        for name in names {
            tracing::info!(cluster = %self.spec.id, machine = name, "Removed the objects of a machine that is gone");
            self.remove_objects(&name);
        }
    }

    /// Removes the kept objects of a machine that is being deleted and never returned.
    pub(crate) fn remove_previous_machine(&self, name: &str) {
        if self.was_restored && !self.state.lock().machines.contains_key(name) {
            // Its role is not known any more.
            for node in [name, &*control_plane_node(name)] {
                self.remove_objects(node);
            }
        }
    }

    /// Removes the objects of a machine: its Node, its Lease and all pods on it.
    pub(super) fn remove_objects(&self, name: &str) {
        let mut keys = self.cluster_server.store.pods_on(name);
        keys.push(lease_key(name));
        keys.push(Key::new("", "nodes", "", name));
        for key in keys {
            match self
                .cluster_server
                .store
                .delete(self.now(), &key, &DeleteOptions::default())
            {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(cluster = %self.spec.id, ?key, %error, "Failed to remove an object");
                }
            }
        }
        self.count_nodes();
    }

    /// Reports the addons as rolled out whenever they are changed, as their controllers would. Runs until the cluster
    /// is deleted.
    pub(crate) async fn keep_addons(&self) {
        let mut newest = self.cluster_server.store.subscribe();
        let mut seen = [0; 2];
        loop {
            for (key, seen) in projection::addon_keys().iter().zip(&mut seen) {
                let version = self
                    .cluster_server
                    .store
                    .get(key)
                    .map_or(0, |object| object.resource_version);
                if version != *seen {
                    *seen = version;
                    self.edit(key, projection::roll_out);
                }
            }
            tokio::select! {
                () = self.cluster_server.over.cancelled() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Lets the Nodes and the static pods of a machine show the software that it runs.
    pub(super) fn show_software(&self, machine: &Machine) {
        let spec = &machine.spec;
        for name in [Some(&*spec.node_name()), machine.replaced_node_name()]
            .into_iter()
            .flatten()
        {
            if machine.reached(Stage::Node).is_some() {
                self.edit(&node_key(name), |node| projection::change_node(node, spec));
            }
            for component in Component::ALL {
                let key = Key::new("", "pods", "kube-system", &component.pod_name(name));
                self.edit(&key, |pod| projection::change_pod(pod, component, spec));
            }
        }
    }

    /// Projects the objects that the whole control plane shares, once there is an API server. Their creation time is
    /// the cluster's, so that they are the same whichever machine comes first after a restart.
    pub(super) fn project_control_plane(&self, state: &State) {
        let (Some(first), Some(authorities)) = (first_control_plane(state), &state.authorities) else {
            return;
        };
        let scope = self.scope(self.spec.created_at);
        let configuration = first.cluster_configuration().cloned().unwrap_or_default();
        self.project(projection::kubeadm(
            &scope,
            &first.version,
            &configuration,
            &authorities.cluster,
        ));
        self.project(projection::addons(&scope, &first.version, &configuration));
        self.count_nodes();
    }

    pub(super) fn count_nodes(&self) {
        let nodes = self.cluster_server.store.count(&GroupResource::new("", "nodes"));
        self.edit(&projection::addon_keys()[0], |object| {
            projection::count_nodes(object, nodes);
        });
    }

    /// Creates objects that do not exist. Existing ones belong to clients as well, and objects that clients deleted
    /// stay deleted, unless something restores them.
    pub(super) fn project(&self, mut objects: Vec<Projected>) {
        objects.retain(|object| !self.deleted.lock().contains(&object.key));
        self.create(objects);
    }

    /// Creates objects that do not exist.
    pub(super) fn create(&self, objects: Vec<Projected>) {
        for Projected { key, value } in objects {
            match self.cluster_server.store.create(self.now(), &key, value) {
                Ok(_) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(error) => {
                    tracing::error!(cluster = %self.spec.id, ?key, %error, "Failed to project an object");
                }
            }
        }
    }

    /// Changes an object, if it exists.
    pub(super) fn edit(&self, key: &Key, edit: impl FnOnce(&mut Value)) {
        match self.cluster_server.store.modify(self.now(), key, edit) {
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(cluster = %self.spec.id, ?key, %error, "Failed to change an object");
            }
        }
    }
}

pub(super) fn node_key(name: &str) -> Key {
    Key::new("", "nodes", "", name)
}

pub(super) fn lease_key(node: &str) -> Key {
    Key::new("coordination.k8s.io", "leases", "kube-node-lease", node)
}
