//! What the engine has to know of what a fault does.

use std::collections::BTreeMap;
use std::time::Duration;

use nephele_engine::{Affliction, Market, Notice, ResourceKind};
use nephele_model::{Stage, Symptom};

/// What the engine has to know of a symptom.
#[must_use]
pub fn affliction_of(symptom: &Symptom) -> Affliction {
    // Nothing more happens on a machine that has vanished.
    let held = if *symptom == Symptom::Vanished { &Stage::ALL } else { symptom.held_stages() };
    let holds = held.iter().map(|stage| stage.name()).collect();
    let of = match symptom {
        // The load balancer stands for what is behind it.
        Symptom::ApiServer(_)
        | Symptom::EtcdWithoutLeader
        | Symptom::EtcdSlow { .. }
        | Symptom::LoadBalancer(_) => ResourceKind::LoadBalancer,
        _ => ResourceKind::Instance,
    };
    let among = match symptom {
        // Workers have no etcd member and no API server.
        Symptom::Held(_) | Symptom::BootstrapFailed(_) => {
            symptom.held_stages().first().map(|stage| stage.name())
        }
        Symptom::EtcdAlarm(_) | Symptom::EtcdMemberHidden => Some(Stage::Etcd.name()),
        Symptom::Certificate(_) => Some(Stage::ApiServer.name()),
        _ => None,
    };
    // The provider ID of a Node cannot be changed.
    let before = (*symptom == Symptom::WrongProviderId).then(|| Stage::Node.name());
    // A machine that never had another name has one Node only.
    let is_of_name = matches!(symptom, Symptom::Rebooting { .. } | Symptom::OtherName(_));
    let after = is_of_name.then(|| Stage::Node.name());
    let notice =
        |lasts: Duration, then: Symptom| Some(Box::new(Notice { lasts, then: affliction_of(&then) }));
    Affliction {
        of,
        among,
        before,
        after,
        symptom: serde_json::to_string(symptom).expect("no map, no foreign type"),
        holds,
        is_down: symptom.is_silence(),
        is_final: *symptom == Symptom::Vanished,
        market: matches!(symptom, Symptom::SpotReclaim(_)).then_some(Market::Spot),
        notice: match symptom {
            Symptom::SpotReclaim(lasts) => notice(*lasts, Symptom::Vanished),
            Symptom::Rebooting { down_for, name } => notice(*down_for, Symptom::OtherName(name.clone())),
            _ => None,
        },
    }
}

/// The symptom of an affliction that was made by [`affliction_of`].
pub(crate) fn symptom_of(affliction: &Affliction) -> Option<Symptom> {
    serde_json::from_str(&affliction.symptom).ok()
}

/// The symptoms of afflictions, by the name of the fault.
pub(crate) fn symptoms(afflictions: &BTreeMap<String, Affliction>) -> BTreeMap<String, Symptom> {
    let symptom = |(fault, affliction): (&String, &_)| Some((fault.clone(), symptom_of(affliction)?));
    afflictions.iter().filter_map(symptom).collect()
}

#[cfg(test)]
mod tests {
    use nephele_model::{
        ApiServerTrouble, ApiServerTroubleKind, BootstrapPhase, ClockSkew, EarlyExpiry, EtcdAlarm, Flap,
        LoadBalancerTrouble, NodeCondition, OtherName, SimTime,
    };

    use super::*;

    #[test]
    fn every_symptom_reads_back() {
        let condition = NodeCondition {
            kind: "DiskPressure".into(),
            status: "True".into(),
            reason: "Full".into(),
            message: "\"quoted\"".into(),
        };
        let down = ApiServerTrouble {
            verbs: vec!["list".into()],
            resources: vec!["nodes".into()],
            kind: ApiServerTroubleKind::Down,
        };
        let others = [
            Symptom::NotReady,
            Symptom::Frozen,
            Symptom::Vanished,
            Symptom::SpotReclaim(Duration::from_secs(90)),
            Symptom::NodeCondition(condition),
            Symptom::ApiServer(down),
            Symptom::EtcdAlarm(EtcdAlarm::Corrupt),
            Symptom::EtcdWithoutLeader,
            Symptom::EtcdSlow { base: Duration::from_secs(2), jitter_per_million: 5 },
            Symptom::EtcdMemberHidden,
            Symptom::Certificate(EarlyExpiry::new(Duration::from_secs(72 * 3600))),
            Symptom::LoadBalancer(LoadBalancerTrouble::NoBackends),
            Symptom::LoadBalancer(LoadBalancerTrouble::WrongBackends),
            Symptom::LoadBalancer(LoadBalancerTrouble::Reset {
                after: Duration::from_secs(5),
                per_million: 1,
            }),
            Symptom::ClockSkew(ClockSkew::Ahead(Duration::from_secs(300))),
            Symptom::ClockSkew(ClockSkew::Behind(Duration::from_millis(1))),
            Symptom::WrongProviderId,
            Symptom::Flapping(Flap::new(Duration::from_secs(10), Duration::from_secs(30))),
            Symptom::Rebooting { down_for: Duration::from_secs(30), name: OtherName::new("-2") },
            Symptom::OtherName(OtherName::new("-2")),
        ];
        let held = Stage::ALL.map(Symptom::Held).into_iter();
        let failed = BootstrapPhase::ALL.map(Symptom::BootstrapFailed);
        for symptom in held.chain(failed).chain(others) {
            let begun = symptom.clone().begun(SimTime::from_millis(1_500));
            for symptom in [symptom, begun] {
                assert_eq!(symptom_of(&affliction_of(&symptom)), Some(symptom));
            }
        }
    }

    #[test]
    fn an_instance_that_reboots_comes_up_with_the_name_of_when_its_fault_began() {
        let down_for = Duration::from_secs(30);
        let reboots = Symptom::Rebooting { down_for, name: OtherName::new("-2") };
        let affliction = affliction_of(&reboots.begun(SimTime::from_millis(1_500)));
        let then = affliction.notice.map(|notice| (notice.lasts, symptom_of(&notice.then)));
        let name = OtherName::new("-2").begun(SimTime::from_millis(1_500));
        assert_eq!(then, Some((down_for, Some(Symptom::OtherName(name)))));
        assert_eq!((affliction.is_down, affliction.after), (true, Some(Stage::Node.name())));
    }
}
