//! How a cluster shows what is wrong: with a machine in its Nodes and in etcd, with the cluster itself at its load balancer,
//! its API servers and etcd.

use std::{collections::BTreeMap, time::Duration};

use nephele_etcd::Alarm;
use nephele_model::{EtcdAlarm, LoadBalancerEffect, Stage, VisibleEffect};

use super::{Cluster, Machine, State, objects::node_key};
use crate::{etcd_delay::Lateness, projection, tls};

impl Cluster {
    /// Lets the load balancer, API servers and etcd behave as the faults of the cluster say.
    pub(super) fn show_request_effects(&self, state: &mut State) {
        let request_effect = |(fault, visible_effect): (&String, &VisibleEffect)| match visible_effect {
            VisibleEffect::ApiServer(request_effect) => Some((fault.clone(), request_effect.clone())),
            _ => None,
        };
        self.cluster_server.frontend.set_request_effects(
            state.visible_effects.iter().filter_map(request_effect).collect(),
            &self.cluster_server.store,
        );
        let can_elect = !state
            .visible_effects
            .values()
            .any(|visible_effect| *visible_effect == VisibleEffect::EtcdWithoutLeader);
        self.cluster_server.etcd.lock().set_can_elect(can_elect);
        let lateness = |(fault, visible_effect): (&String, &VisibleEffect)| match *visible_effect {
            VisibleEffect::EtcdSlow {
                base,
                jitter_per_million,
            } => Some((
                fault.clone(),
                Lateness {
                    base,
                    jitter_per_million,
                },
            )),
            _ => None,
        };
        self.cluster_server
            .etcd_latenesses
            .set(state.visible_effects.iter().filter_map(lateness).collect());
        let request_effect = |(fault, visible_effect): (&String, &VisibleEffect)| match visible_effect {
            VisibleEffect::LoadBalancer(request_effect) => Some((fault.clone(), request_effect.clone())),
            _ => None,
        };
        let request_effects: BTreeMap<_, _> =
            state.visible_effects.iter().filter_map(request_effect).collect();
        let is_elsewhere =
            |request_effect: &LoadBalancerEffect| *request_effect == LoadBalancerEffect::WrongBackends;
        if state.foreign_server.is_none() && request_effects.values().any(is_elsewhere) {
            match tls::foreign_server(&self.spec, self.now()) {
                Ok(foreign_server) => state.foreign_server = Some(foreign_server),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(cluster = %self.spec.id, error, "Failed to make a server of another cluster");
                }
            }
        }
        self.cluster_server
            .frontend
            .set_balancer(request_effects, state.foreign_server.clone());
    }

    /// Shows what is wrong with a machine: in its Node, and in etcd. The load balancer follows the engine.
    pub(super) fn show_visible_effects(&self, machine: &mut Machine) {
        if machine.is_deleting() {
            return;
        }
        let now = self.now();
        if machine.flaps() || !machine.silenced.is_empty() {
            machine.silenced = machine.silence(&self.cluster_server.shared.cloud_clock, now).0;
            self.flapping.notify_one();
        }
        let name = machine.spec.id.name.as_str();
        if machine.reached(Stage::Etcd).is_some() {
            let alarms =
                machine
                    .visible_effects()
                    .values()
                    .filter_map(|visible_effect| match visible_effect {
                        VisibleEffect::EtcdAlarm(EtcdAlarm::NoSpace) => Some(Alarm::NoSpace),
                        VisibleEffect::EtcdAlarm(EtcdAlarm::Corrupt) => Some(Alarm::Corrupt),
                        _ => None,
                    });
            let mut etcd = self.cluster_server.etcd.lock();
            etcd.set_running(self.member(name), !machine.is_silent());
            etcd.set_alarms(self.member(name), alarms.collect());
            let is_hidden = machine.has(&VisibleEffect::EtcdMemberHidden);
            etcd.set_hidden(self.member(name), is_hidden);
        }
        if machine.has(&VisibleEffect::Vanished) {
            // As a cloud controller does for a Node without an instance.
            self.remove_nodes(machine);
        } else if machine.reached(Stage::Node).is_some() {
            self.show_provider_id(machine);
            self.show_replaced_node(machine);
            let name = machine.spec.node_name().into_owned();
            let key = node_key(&name);
            let shown = machine.shown();
            self.edit(&key, |node| projection::show_visible_effects(node, &shown, now));
            if let Some(other) = machine.replaced_node_name() {
                let shown = machine.shown_by_replaced_node();
                self.edit(&node_key(other), |node| {
                    projection::show_visible_effects(node, &shown, now);
                });
            }
            let skew = projection::clock_skew(machine.visible_effects());
            if skew != machine.shown_skew {
                machine.shown_skew = skew;
                let at = skew.map_or(now, |skew| projection::skewed(now, skew));
                for name in [Some(&*name), machine.replaced_node_name()].into_iter().flatten() {
                    self.renew(name, at);
                }
            }
        }
    }

    /// Lets the Node have the provider ID of its machine, or that of no machine because of a fault. The provider ID of a
    /// Node cannot be changed. Where it differs, an operator deletes the Node, its pods go with it, and the kubelet registers
    /// again.
    fn show_provider_id(&self, machine: &mut Machine) {
        let spec = &machine.spec;
        let name = spec.node_name().into_owned();
        let (Some(node), Some(at)) = (
            self.cluster_server.store.get(&node_key(&name)),
            machine.reached(Stage::Node),
        ) else {
            return;
        };
        if projection::has_wrong_provider_id(&node.value(), spec)
            == machine.has(&VisibleEffect::WrongProviderId)
        {
            return;
        }
        self.remove_nodes(machine);
        machine.replaced_node = None;
        self.register(machine, &name, at);
    }

    /// Lets kubelets fall silent and report again in turn, as the faults of their machines say. Runs until the cluster is
    /// deleted.
    pub(crate) async fn keep_flapping(&self) {
        loop {
            let next = self.flap();
            let turned = async {
                match next {
                    Some(next) => tokio::time::sleep(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.cluster_server.over.cancelled() => return,
                () = self.flapping.notified() => {}
                () = turned => {}
            }
        }
    }

    /// Shows which kubelets are silent now. Returns how long nothing changes.
    fn flap(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        let now = self.now();
        let mut soonest: Option<Duration> = None;
        for machine in state
            .machines
            .values_mut()
            .filter(|machine| !machine.is_deleting() && machine.flaps())
        {
            let (silenced, next) = machine.silence(&self.cluster_server.shared.cloud_clock, now);
            if silenced != machine.silenced {
                self.show_visible_effects(machine);
            }
            soonest = soonest.into_iter().chain(next).min();
        }
        soonest
    }
}
