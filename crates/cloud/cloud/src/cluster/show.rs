//! How a cluster shows what the engine has: it compares the engine's levels with what it shows, and shows the differences.
//! A restart is the case in which everything differs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use nephele_engine::Leaked;
use nephele_etcd::Member;
use nephele_model::{Endpoint, SimTime, Stage, VisibleEffect};
use nephele_pki::IssueError;

use super::{Cluster, Instance, Machine, State};
use crate::projection::{self, Component};

/// What the engine says about the load balancer of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Balancer {
    /// The names of the machines that are in service.
    pub(crate) in_service: BTreeSet<String>,
    /// What is wrong with the cluster itself, by the name of the fault.
    pub(crate) visible_effects: BTreeMap<String, VisibleEffect>,
}

/// What the engine has of a cluster at one instant, as far as it may have changed.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// Instances by name, in the order in which they are shown. None for one that is gone.
    pub(crate) machines: Vec<(String, Option<Instance>)>,
    /// Whether machines that are not among `machines` are gone.
    pub(crate) others_are_gone: bool,
    pub(crate) balancer: Option<Balancer>,
    pub(crate) leaked: Option<Vec<Leaked>>,
}

impl Cluster {
    /// Shows the engine's levels. What is shown already stays as it is.
    pub(crate) fn show(&self, levels: Levels) {
        let Levels {
            machines,
            others_are_gone,
            balancer,
            leaked,
        } = levels;
        // The addresses of a leaked instance stay in use when its machine is gone.
        if let Some(leaked) = leaked {
            self.show_leaked(&leaked);
        }
        if others_are_gone {
            let is_there: BTreeSet<_> = machines.iter().map(|(name, _)| name.as_str()).collect();
            let gone = self
                .machine_names()
                .into_iter()
                .filter(|name| !is_there.contains(name.as_str()));
            gone.for_each(|name| self.show_machine(&name, None));
        }
        for (name, instance) in machines {
            self.show_machine(&name, instance);
        }
        // After the machines that it leads to.
        if let Some(balancer) = balancer {
            self.show_balancer(balancer);
        }
    }

    /// Shows the instance of a machine; None if the machine has none any more. Does nothing for one that was not admitted.
    pub(crate) fn show_machine(&self, name: &str, instance: Option<Instance>) {
        let mut state = self.state.lock();
        let Some(mut instance) = instance else {
            return self.show_gone(&mut state, name);
        };
        self.forget_replaced(&mut state, name, &instance);
        let Some(machine) = state.machines.get_mut(name) else {
            return;
        };
        // Nothing begins on a machine that is being deleted.
        if machine.is_deleting() {
            return;
        }
        let is_deleting = std::mem::take(&mut instance.is_deleting);
        let new: Vec<_> = instance
            .reached
            .iter()
            .filter_map(|(stage, at)| machine.reached(*stage).is_none().then_some((*stage, *at)))
            .collect();
        let are_effects_new = *machine.visible_effects() != instance.visible_effects;
        let before = machine
            .instance
            .as_ref()
            .and_then(|before| before.updated.clone());
        let updated = instance
            .updated
            .clone()
            .filter(|name| before.as_ref() != Some(name));
        machine.spec.hardware = Some(instance.hardware.clone());
        machine.instance = Some(instance);
        let is_updated = updated.is_some_and(|name| machine.finish_update(&name));
        let has_effects = !machine.visible_effects().is_empty();
        for (stage, at) in &new {
            self.show_stage(&state, name, *stage, *at);
        }
        let Some(machine) = state.machines.get_mut(name) else {
            return;
        };
        // Kept objects may show software that the machine ran before, and what was wrong with it.
        let are_kept = self.was_restored && !new.is_empty();
        if is_updated || are_kept {
            self.show_software(machine);
        }
        if let Some((_, at)) = new
            .iter()
            .find(|(stage, _)| *stage == Stage::Node && self.was_restored)
        {
            self.renew_skewed(&machine.spec.node_name(), *at);
        }
        if are_effects_new || are_kept || (has_effects && !new.is_empty()) {
            self.show_visible_effects(machine);
        }
        if is_deleting {
            self.stop(machine);
        }
        if are_effects_new || is_updated {
            self.set_backends(&mut state);
        }
    }

    /// Shows the objects that a machine has because it has reached a stage.
    fn show_stage(&self, state: &State, name: &str, stage: Stage, at: Timestamp) {
        let Some(machine) = state.machines.get(name) else {
            return;
        };
        let spec = &machine.spec;
        match stage {
            Stage::Vm => {}
            Stage::Node => {
                self.make_room_for_node(spec);
                self.project(self.node(machine, &spec.node_name(), at));
                self.count_nodes();
            }
            Stage::Etcd => {
                let url = |port| {
                    vec![format!(
                        "https://{}",
                        Endpoint {
                            host: spec.internal_address().into(),
                            port
                        }
                    )]
                };
                if !spec.runs_etcd() {
                    return;
                }
                if !spec.etcd_member_removed {
                    self.cluster_server.etcd.lock().add_member(Member {
                        id: self.member(name),
                        name: spec.node_name().into_owned(),
                        peer_urls: url(2380),
                        client_urls: url(2379),
                    });
                }
                self.show_pods(machine, &[Component::Etcd], at);
            }
            Stage::ApiServer => {
                let mut components = Component::ALL.to_vec();
                components.retain(|component| *component != Component::Etcd);
                self.show_pods(machine, &components, at);
                self.project_control_plane(state);
            }
        }
    }

    /// Shows the pods of components that started at a time: on the Node that its kubelet reported for then, and on the one
    /// that it reports for now. A second Node that is not shown yet comes with its pods.
    fn show_pods(&self, machine: &Machine, components: &[Component], at: Timestamp) {
        let first = machine.spec.node_name();
        let first =
            Some(&*first).filter(|_| !machine.is_renamed(at, &self.cluster_server.shared.cloud_clock));
        for node in [first, machine.replaced_node_name()].into_iter().flatten() {
            let pod = |component| projection::static_pod(&self.scope(at), &machine.spec, node, component);
            self.project(components.iter().map(|component| pod(*component)).collect());
        }
    }

    /// Stops a machine that is being deleted. Its software stops at once; its Node stays until the machine is gone.
    fn stop(&self, machine: &mut Machine) {
        if let Some(instance) = &mut machine.instance {
            instance.is_deleting = true;
        }
        if machine.reached(Stage::Etcd).is_some() {
            // The etcd member is down. It stays a member while its machine exists, because etcd was not asked to
            // remove it.
            self.cluster_server
                .etcd
                .lock()
                .set_running(self.member(&machine.spec.id.name), false);
        }
    }

    /// Forgets the instance of a machine if another one has taken its place. What the first one showed is gone.
    fn forget_replaced(&self, state: &mut State, name: &str, by: &Instance) {
        let State {
            machines,
            credentials,
            ..
        } = state;
        let Some(machine) = machines.get_mut(name) else {
            return;
        };
        let Some(replaced) = machine.instance.take_if(|instance| !instance.is_same(by)) else {
            return;
        };
        if let Some(credentials) = credentials {
            credentials.forget(name);
        }
        machine.silenced.clear();
        if !replaced.reached.is_empty() {
            self.cluster_server.etcd.lock().forget_member(self.member(name));
            if !self.cluster_server.over.is_cancelled() {
                self.remove_nodes(machine);
            }
            machine.replaced_node = None;
        }
    }

    /// Forgets a machine that is gone. Its objects in the cluster are removed, as a cloud controller and the pod garbage
    /// collector would do.
    ///
    /// An etcd member that was not removed goes with its machine. A real etcd would list it forever as down. Here the
    /// members must be those that the management objects show, so that a restart changes nothing.
    fn show_gone(&self, state: &mut State, name: &str) {
        if let Some(credentials) = &mut state.credentials {
            credentials.forget(name);
        }
        state.allocations.release(name);
        let Some(machine) = state.machines.remove(name) else {
            return;
        };
        self.cluster_server.etcd.lock().forget_member(self.member(name));
        let has_objects = machine
            .instance
            .as_ref()
            .is_some_and(|instance| instance.is_deleting || !instance.reached.is_empty());
        // The objects of a deleted cluster are forgotten as a whole.
        if has_objects && !self.cluster_server.over.is_cancelled() {
            self.remove_nodes(&machine);
        }
    }

    /// Lets the front lead to the backends in service, and the parts of the cluster behave as its faults say.
    pub(crate) fn show_balancer(&self, balancer: Balancer) {
        let Balancer {
            in_service,
            visible_effects,
        } = balancer;
        let mut state = self.state.lock();
        if state.visible_effects != visible_effects {
            state.visible_effects = visible_effects;
            self.show_request_effects(&mut state);
        }
        if state.backends != in_service {
            state.backends = in_service;
            self.set_backends(&mut state);
        }
    }

    /// Keeps the addresses of the cluster's leaked instances in use, and of no others.
    fn show_leaked(&self, leaked: &[Leaked]) {
        let mut state = self.state.lock();
        let is_there = |(name, since): &(String, SimTime)| {
            leaked
                .iter()
                .any(|leaked| leaked.id.name == *name && leaked.since == *since)
        };
        let gone: Vec<_> = state
            .allocations
            .leaked()
            .filter(|key| !is_there(key))
            .cloned()
            .collect();
        gone.iter()
            .for_each(|(name, since)| state.allocations.release_leaked(name, *since));
        for Leaked {
            id, since, addresses, ..
        } in leaked
        {
            state.allocations.leak(&id.name, *since, addresses);
        }
    }

    /// Gives the front the backends in service, with the certificates that expire early, and the version of the newest
    /// one.
    pub(super) fn set_backends(&self, state: &mut State) {
        let State {
            machines,
            backends,
            credentials,
            ..
        } = state;
        let clock = &self.cluster_server.shared.cloud_clock;
        let certificates = backends.iter().map(|name| {
            let machine = machines.get(name)?;
            let started = machine.reached(Stage::ApiServer)?;
            let expiry = machine.expiry(clock)?;
            let issued =
                credentials.as_mut()?.api_server(&self.spec, &machine.spec, started, Some(expiry));
            let failed = |error: &IssueError| {
                let error = error as &dyn std::error::Error;
                tracing::warn!(cluster = %self.spec.id, machine = name, error, "Failed to issue a certificate");
            };
            issued.inspect_err(failed).ok()
        });
        let certificates: Arc<[_]> = certificates.collect();
        let newest = backends
            .iter()
            .filter_map(|name| machines.get(name))
            .max_by_key(|machine| (machine.reached(Stage::ApiServer), &machine.spec.id.name))
            .map_or("", |machine| machine.spec.version.as_str());
        self.cluster_server.frontend.set_backends(certificates, newest);
    }
}
