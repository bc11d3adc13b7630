//! The Nodes of a machine: the one that has its name, and a second one while its kubelet has another name because of a fault.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use nephele_apiserver::Object;
use nephele_model::{OtherName, Stage, VisibleEffect};

use super::{
    Cluster, Machine,
    machine::ReplacedNode,
    objects::{lease_key, node_key},
};
use crate::{
    clock::CloudClock,
    projection::{self, Component},
    spec::MachineSpec,
    time_dependent,
};

impl Machine {
    /// The other name of its kubelet, if it has one. Of several, that of the fault that began first decides: a kubelet that
    /// has another name keeps it.
    pub(super) fn other_name(&self) -> Option<&OtherName> {
        self.visible_effects()
            .values()
            .filter_map(|visible_effect| match visible_effect {
                VisibleEffect::OtherName(name) => Some(name),
                _ => None,
            })
            .min_by_key(|name| name.began)
    }

    /// Whether what starts on it at this time comes up under its other name.
    pub(super) fn is_renamed(&self, at: Timestamp, clock: &CloudClock) -> bool {
        let other = self.other_name().zip(self.reached(Stage::Node));
        other.is_some_and(|(name, registered)| time_dependent::created(name, registered, clock) <= at)
    }

    /// The name of its kubelet, by which its pods are named.
    pub(super) fn kubelet(&self) -> Cow<'_, str> {
        self.replaced_node_name()
            .map_or_else(|| self.spec.node_name(), Cow::Borrowed)
    }

    /// The name of its second Node.
    pub(super) fn replaced_node_name(&self) -> Option<&str> {
        self.replaced_node.as_ref().map(|node| node.name.as_str())
    }

    /// What its second Node shows: the kubelet reports for that one.
    pub(super) fn shown_by_replaced_node(&self) -> BTreeMap<String, VisibleEffect> {
        let mut shown = self.shown();
        shown.retain(|_, visible_effect| !matches!(visible_effect, VisibleEffect::OtherName(_)));
        shown
    }
}

impl Cluster {
    /// Lets a machine have a second Node, or no longer. The first Node stays: nothing in a cluster without a cloud
    /// controller deletes the Node of a kubelet that went silent. Neither do its pods go. A Node that belongs to another
    /// machine stays as it is.
    pub(super) fn show_replaced_node(&self, machine: &mut Machine) {
        let clock = &self.cluster_server.shared.cloud_clock;
        let registered = machine.reached(Stage::Node);
        let wanted = machine
            .other_name()
            .zip(registered)
            .map(|(name, registered)| ReplacedNode {
                name: format!("{}{}", machine.spec.node_name(), name.suffix),
                created: time_dependent::created(name, registered, clock),
            });
        if wanted == machine.replaced_node {
            return;
        }
        self.remove_replaced_node(machine);
        let was_renamed = machine.replaced_node.take().is_some();
        // Between two names the kubelet has its first one. A client may have deleted the first Node, or a part of the control
        // plane came up under the other name.
        if let Some(registered) = registered.filter(|_| was_renamed || wanted.is_none()) {
            self.register(machine, &machine.spec.node_name(), registered);
        }
        let Some(wanted) = wanted else {
            return;
        };
        self.register(machine, &wanted.name, wanted.created);
        if !self.has_node(&machine.spec, &wanted.name) {
            return;
        }
        if let Some(skew) = projection::clock_skew(machine.visible_effects()) {
            self.renew(&wanted.name, projection::skewed(self.now(), skew));
        }
        machine.replaced_node = Some(wanted);
    }

    /// Creates a Node of a machine with the pods of its control plane, as its kubelet does under a name.
    pub(super) fn register(&self, machine: &Machine, name: &str, at: Timestamp) {
        let spec = &machine.spec;
        self.project(self.node(machine, name, at));
        if !self.has_node(spec, name) {
            return;
        }
        let clock = &self.cluster_server.shared.cloud_clock;
        // A kubelet that has another name starts nothing under its first one.
        let is_elsewhere = |started| name == spec.node_name() && machine.is_renamed(started, clock);
        for component in Component::ALL {
            let stage = if component == Component::Etcd {
                Stage::Etcd
            } else {
                Stage::ApiServer
            };
            if let Some(started) = machine.reached(stage).filter(|started| !is_elsewhere(*started)) {
                let scope = self.scope(started.max(at));
                self.project(vec![projection::static_pod(&scope, spec, name, component)]);
            }
        }
        self.count_nodes();
    }

    /// Whether the Node of this name is one of the machine.
    fn has_node(&self, machine: &MachineSpec, name: &str) -> bool {
        let node = self.cluster_server.store.get(&node_key(name));
        node.is_some_and(|node| projection::is_node_of(&node.value(), machine))
    }

    /// Removes the Node with the name of a machine if it is the second one of another machine. One that a client created
    /// stays.
    pub(super) fn make_room_for_node(&self, machine: &MachineSpec) {
        let key = node_key(&machine.node_name());
        let is_projected = |node: &Arc<Object>| projection::made(&self.spec.id, &key, node);
        if self
            .cluster_server
            .store
            .get(&key)
            .as_ref()
            .is_some_and(is_projected)
            && !self.has_node(machine, &key.name)
        {
            self.remove_objects(&key.name);
        }
    }

    /// Removes the Nodes of a machine, with everything on them.
    pub(super) fn remove_nodes(&self, machine: &Machine) {
        self.remove_objects(&machine.spec.node_name());
        self.remove_replaced_node(machine);
    }

    fn remove_replaced_node(&self, machine: &Machine) {
        let is_foreign = |name: &str| {
            let node = self.cluster_server.store.get(&node_key(name));
            node.is_some_and(|node| !projection::is_node_of(&node.value(), &machine.spec))
        };
        // Without the Node, its pods may be there.
        if let Some(name) = machine.replaced_node_name().filter(|name| !is_foreign(name)) {
            self.remove_objects(name);
        }
    }

    /// Renews the heartbeats and the Lease of a Node.
    pub(super) fn renew(&self, node: &str, at: Timestamp) {
        self.edit(&node_key(node), |node| projection::renew_heartbeats(node, at));
        self.edit(&lease_key(node), |lease| projection::renew_lease(lease, at));
    }

    /// Renews a kept Node whose Lease was renewed by a clock that was off: after now, or before the Node registered.
    /// The fault may have been deleted before this process started.
    pub(super) fn renew_skewed(&self, node: &str, registered: Timestamp) {
        let now = self.now();
        let lease = self.cluster_server.store.get(&lease_key(node));
        let renewed = lease.and_then(|lease| projection::renewed(&lease.value()));
        // A Lease shows times in whole microseconds.
        let possible = registered.as_microsecond()..=now.as_microsecond();
        if renewed.is_some_and(|renewed| !possible.contains(&renewed.as_microsecond())) {
            self.renew(node, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nephele_apiserver::GroupResource;
    use serde_json::Value;

    use super::*;
    use crate::cluster::tests::{cluster_following, control_plane, driver};

    fn cluster() -> Cluster {
        cluster_following(&driver())
    }

    fn come_up(cluster: &Cluster, name: &str, stages: &[Stage]) {
        cluster.admit(control_plane(cluster, name));
        stages.iter().for_each(|stage| cluster.reach(name, &[*stage]));
    }

    #[test]
    fn a_kept_node_with_any_time_of_registration_is_renewed_or_left() {
        let cluster = cluster();
        come_up(&cluster, "one", &[Stage::Node]);
        for registered in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            cluster.renew_skewed("one", registered);
        }
    }

    fn rename(cluster: &Cluster, name: &str) {
        cluster.affect(name, "f", VisibleEffect::OtherName(OtherName::new("-2")));
    }

    fn values(cluster: &Cluster, group: &str, resource: &str) -> Vec<Value> {
        let objects = cluster
            .cluster_server
            .store
            .list(&GroupResource::new(group, resource), None)
            .objects;
        objects.iter().map(|object| object.value()).collect()
    }

    fn text(value: &Value) -> String {
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Name, provider ID and status of the condition Ready of each Node.
    fn nodes(cluster: &Cluster) -> BTreeSet<[String; 3]> {
        let line = |node: Value| {
            let conditions = node["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let ready = conditions
                .iter()
                .find(|condition| condition["type"] == "Ready")
                .expect("a condition");
            [
                &node["metadata"]["name"],
                &node["spec"]["providerID"],
                &ready["status"],
            ]
            .map(text)
        };
        values(cluster, "", "nodes").into_iter().map(line).collect()
    }

    fn names(cluster: &Cluster, group: &str, resource: &str) -> BTreeSet<String> {
        values(cluster, group, resource)
            .iter()
            .map(|object| text(&object["metadata"]["name"]))
            .collect()
    }

    fn lines<const N: usize, const M: usize>(lines: [[&str; N]; M]) -> BTreeSet<[String; N]> {
        lines.into_iter().map(|line| line.map(str::to_owned)).collect()
    }

    #[test]
    fn kubelet_with_another_name_reports_for_a_second_node_until_it_is_healed() {
        let cluster = cluster();
        come_up(&cluster, "a", &[Stage::Node, Stage::Etcd]);
        let one = lines([["a", "in-memory://a", "True"]]);
        assert_eq!(nodes(&cluster), one);
        rename(&cluster, "a");
        let two = lines([
            ["a", "in-memory://a", "Unknown"],
            ["a-2", "in-memory://a", "True"],
        ]);
        assert_eq!(nodes(&cluster), two);
        let leases = names(&cluster, "coordination.k8s.io", "leases");
        assert_eq!(leases, ["a", "a-2"].map(str::to_owned).into());
        // What comes up now, comes up under the other name.
        cluster.reach("a", &[Stage::ApiServer]);
        let components = |names: &[&str]| -> BTreeSet<String> {
            let pods = |name: &&str| {
                ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(|c| format!("{c}-{name}"))
            };
            names.iter().flat_map(pods).collect()
        };
        let mut expected = components(&["a-2"]);
        expected.extend(["etcd-a", "etcd-a-2"].map(str::to_owned));
        assert_eq!(names(&cluster, "", "pods"), expected);
        // What else is wrong shows in the second Node.
        cluster.affect("a", "g", VisibleEffect::NotReady);
        assert!(nodes(&cluster).iter().all(|[_, _, ready]| ready == "Unknown"));
        cluster.clear("a", "g");
        assert_eq!(nodes(&cluster), two);

        cluster.clear("a", "f");
        assert_eq!(nodes(&cluster), one);
        let mut expected = components(&["a"]);
        expected.insert("etcd-a".to_owned());
        assert_eq!(names(&cluster, "", "pods"), expected);
        assert_eq!(
            names(&cluster, "coordination.k8s.io", "leases"),
            ["a".to_owned()].into()
        );
    }

    #[test]
    fn both_nodes_go_with_their_machine() {
        let cluster = cluster();
        for name in ["a", "b"] {
            come_up(&cluster, name, &Stage::ALL);
            rename(&cluster, name);
        }
        cluster.begin_deletion("a");
        assert_eq!(nodes(&cluster).len(), 4);
        cluster.show_machine("a", None);
        assert_eq!(
            nodes(&cluster),
            lines([
                ["b", "in-memory://b", "Unknown"],
                ["b-2", "in-memory://b", "True"]
            ])
        );
        cluster.affect("b", "g", VisibleEffect::Vanished);
        assert_eq!(nodes(&cluster), BTreeSet::new());
        assert_eq!(names(&cluster, "", "pods"), BTreeSet::new());
    }

    #[test]
    fn second_node_gives_way_to_that_of_a_machine_of_its_name() {
        let cluster = cluster();
        come_up(&cluster, "a", &[Stage::Node]);
        rename(&cluster, "a");
        come_up(&cluster, "a-2", &[Stage::Node]);
        let seen = lines([
            ["a", "in-memory://a", "Unknown"],
            ["a-2", "in-memory://a-2", "True"],
        ]);
        assert_eq!(nodes(&cluster), seen);
        cluster.clear("a", "f");
        assert_eq!(
            nodes(&cluster),
            lines([["a", "in-memory://a", "True"], ["a-2", "in-memory://a-2", "True"]])
        );
    }
}
