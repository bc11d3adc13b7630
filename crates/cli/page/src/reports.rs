//! What stands beside the grid: clouds, what waits, what leaked, and Faults. Pure.

use nephele_api::{
    cloud::v1alpha1::{Fault, LeakedInstance, LeakedLoadBalancer, SimulatedCloud},
    conditions::{find, types},
};
use nephele_model::GoDuration;

use crate::{
    effect::effect_name,
    machine_view::{MachineView, State, waits_for},
    objects::Key,
};

/// A `SimulatedCloud`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudView {
    /// How much time passes in the cloud for each second.
    pub rate: String,
    pub is_paused: bool,
    /// In milliseconds since 1970: when the clock last changed, and the time of the cloud then.
    pub since: i64,
    pub time: i64,
    /// What its machines cost in an hour of its time, and in all.
    pub per_hour: String,
    pub total: String,
    pub limits: Vec<Limit>,
    pub waiting: i64,
    pub leaked: i64,
    /// It changes when a detail changes that the card does not show.
    pub revision: String,
}

/// A quota or a stock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub name: String,
    pub used: i64,
    pub limit: i64,
    pub waiting: i64,
}

impl CloudView {
    pub(crate) fn new(cloud: &SimulatedCloud) -> Self {
        let status = cloud.status.clone().unwrap_or_default();
        let clock = status.clock.unwrap_or_default();
        let cost = status.cost;
        let limits = status.usage.iter().map(|usage| Limit {
            name: usage.name.clone(),
            used: usage.used,
            limit: usage.limit,
            waiting: usage.waiting,
        });
        let milliseconds =
            |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime| time.0.as_millisecond();
        Self {
            rate: clock
                .rate
                .map_or_else(|| "1".to_owned(), |rate| rate.as_str().to_owned()),
            is_paused: clock.paused == Some(true),
            since: clock.since.as_ref().map(milliseconds).unwrap_or_default(),
            time: clock.time.as_ref().map(milliseconds).unwrap_or_default(),
            per_hour: cost
                .as_ref()
                .map(|cost| cost.per_hour.as_str().to_owned())
                .unwrap_or_default(),
            total: cost
                .as_ref()
                .map(|cost| cost.total.as_str().to_owned())
                .unwrap_or_default(),
            limits: limits.collect(),
            waiting: status.waiting.unwrap_or_default(),
            leaked: status.leaked.unwrap_or_default(),
            revision: cloud.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// How fast the clock runs, in words.
    #[must_use]
    pub fn clock(&self) -> String {
        match (self.is_paused, self.rate.as_str()) {
            (true, _) => "paused".to_owned(),
            (false, "1") => "real time".to_owned(),
            (false, rate) => format!("× {rate}"),
        }
    }
}

/// A machine that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Quota, stock, address, rate or hook.
    pub what_for: &'static str,
    pub message: String,
}

impl Wait {
    pub(crate) fn of(machine: &MachineView) -> Option<Self> {
        if machine.state != State::Waiting {
            return None;
        }
        let what_for = waits_for(&machine.reason)?;
        let message = match machine.message.is_empty() {
            true => machine.reason.clone(),
            false => machine.message.clone(),
        };
        Some(Self { what_for, message })
    }
}

/// What exists and has no owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leak {
    /// What it is, with its name.
    pub what: String,
    /// Of which cluster it was, and where it is.
    pub place: String,
    /// The Fault that made it leak.
    pub fault: String,
}

impl Leak {
    pub(crate) fn of_cloud(cloud: &SimulatedCloud) -> Vec<(String, Self)> {
        let key = Key::of(&cloud.metadata);
        let status = cloud.status.as_ref();
        let instances = status.map(|status| status.leaked_instances.as_slice());
        let balancers = status.map(|status| status.leaked_load_balancers.as_slice());
        Self::all(
            &format!("cloud/{key}"),
            instances.unwrap_or_default(),
            balancers.unwrap_or_default(),
            None,
        )
    }

    /// What leaked of the built-in cloud is in the status of the Fault.
    pub(crate) fn of_fault(fault: &Fault) -> Vec<(String, Self)> {
        let key = Key::of(&fault.metadata);
        let status = fault.status.as_ref();
        let instances = status.map(|status| status.leaked_instances.as_slice());
        let balancers = status.map(|status| status.leaked_load_balancers.as_slice());
        Self::all(
            &format!("fault/{key}"),
            instances.unwrap_or_default(),
            balancers.unwrap_or_default(),
            Some(&key.name),
        )
    }

    /// The number of the leak makes its key: two instances of one machine can leak.
    fn all(
        owner: &str,
        instances: &[LeakedInstance],
        balancers: &[LeakedLoadBalancer],
        fault: Option<&str>,
    ) -> Vec<(String, Self)> {
        let of = |named: &str| fault.unwrap_or(named).to_owned();
        let instances = instances.iter().enumerate().map(|(number, leaked)| {
            let place = match leaked.zone.as_str() {
                "" => leaked.cluster.clone(),
                zone => format!("{}, zone {zone}", leaked.cluster),
            };
            let leak = Self {
                what: format!("instance {}", leaked.name),
                place,
                fault: of(&leaked.fault),
            };
            (format!("{owner}/instance/{number:03}/{}", leaked.name), leak)
        });
        let balancers = balancers.iter().enumerate().map(|(number, leaked)| {
            let port = leaked.port.map(|port| format!(" on port {port}"));
            let leak = Self {
                what: format!("load balancer{}", port.unwrap_or_default()),
                place: leaked.cluster.clone(),
                fault: of(&leaked.fault),
            };
            (format!("{owner}/balancer/{number:03}/{}", leaked.cluster), leak)
        });
        instances.chain(balancers).collect()
    }
}

/// A Fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultView {
    pub effect: String,
    pub phase: String,
    pub hits: i64,
    /// When it ends by itself, in milliseconds since 1970, if it is in force.
    pub ends: Option<i64>,
    /// How many machines and clusters it affects now.
    pub affected: usize,
    /// Why it cannot be used, if so.
    pub message: String,
    /// It changes when a detail changes that the line does not show.
    pub revision: String,
}

impl FaultView {
    pub(crate) fn new(fault: &Fault) -> Self {
        let status = fault.status.clone().unwrap_or_default();
        let ready = find(&status.conditions, types::READY);
        let began = status.start_time.as_ref().map(|time| time.0.as_millisecond());
        let lasts = fault.spec.budget.lasts.as_ref().map(GoDuration::get);
        let lasts = lasts.and_then(|lasts| i64::try_from(lasts.as_millis()).ok());
        let ends = began
            .zip(lasts)
            .and_then(|(began, lasts)| began.checked_add(lasts))
            .filter(|_| status.phase == "Active");
        Self {
            effect: fault.spec.effect.as_ref().map(effect_name).unwrap_or_default(),
            phase: status.phase,
            hits: status.hits.unwrap_or_default(),
            ends,
            affected: status.affected.len(),
            message: ready
                .filter(|ready| ready.status != nephele_api::conditions::TRUE)
                .map(|ready| ready.message.clone())
                .unwrap_or_default(),
            revision: fault.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// What it has done, in words.
    #[must_use]
    pub fn doings(&self) -> String {
        let hits = if self.hits == 1 { "hit" } else { "hits" };
        match self.affected {
            0 => format!("{} {hits}", self.hits),
            affected => format!("{} {hits}, {affected} affected", self.hits),
        }
    }
}
