//! What the engine has to know of what a fault does.

use std::collections::BTreeMap;
use std::time::Duration;

use nephele_engine::{Affliction, Notice};
use nephele_model::{Market, ResourceKind, SimTime, Stage, Symptom};

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
        symptom: symptom.clone(),
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

/// The affliction of a fault that began at this time: its symptom knows it, and what comes after its notice.
pub(crate) fn begun(affliction: Affliction, began: SimTime) -> Affliction {
    let notice = affliction.notice.map(|notice| Notice { then: begun(notice.then, began), ..*notice });
    Affliction { symptom: affliction.symptom.begun(began), notice: notice.map(Box::new), ..affliction }
}

/// The symptoms of afflictions, by the name of the fault.
pub(crate) fn symptoms(afflictions: &BTreeMap<String, Affliction>) -> BTreeMap<String, Symptom> {
    let symptom = |(fault, affliction): (&String, &Affliction)| (fault.clone(), affliction.symptom.clone());
    afflictions.iter().map(symptom).collect()
}

#[cfg(test)]
mod tests {
    use nephele_model::{EarlyExpiry, Flap, OtherName};

    use super::*;

    #[test]
    fn an_instance_that_reboots_comes_up_with_the_name_of_when_its_fault_began() {
        let began = SimTime::from_millis(1_500);
        let down_for = Duration::from_secs(30);
        let reboots = Symptom::Rebooting { down_for, name: OtherName::new("-2") };
        let affliction = begun(affliction_of(&reboots), began);
        let then = affliction.notice.map(|notice| (notice.lasts, notice.then.symptom));
        assert_eq!(then, Some((down_for, Symptom::OtherName(OtherName::new("-2").begun(began)))));
        assert_eq!((affliction.is_down, affliction.after), (true, Some(Stage::Node.name())));
    }

    #[test]
    fn a_fault_that_began_differs_only_in_when() {
        let began = SimTime::from_millis(1_500);
        let second = Duration::from_secs(1);
        let symptoms = [
            Symptom::Certificate(EarlyExpiry::new(second)),
            Symptom::Flapping(Flap::new(second, second)),
            Symptom::Rebooting { down_for: second, name: OtherName::new("-2") },
            Symptom::SpotReclaim(second),
        ];
        for symptom in symptoms {
            assert_eq!(begun(affliction_of(&symptom), began), affliction_of(&symptom.begun(began)));
        }
    }
}
