//! What the engine has to know of what a fault does.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{ActiveEffect, Notice};
use nephele_model::{Market, ResourceKind, SimTime, Stage, VisibleEffect};

/// What the engine has to know of a visible effect.
#[must_use]
pub fn active_effect_of(visible_effect: &VisibleEffect) -> ActiveEffect {
    // Nothing more happens on a machine that has vanished.
    let held = if *visible_effect == VisibleEffect::Vanished {
        &Stage::ALL
    } else {
        visible_effect.held_stages()
    };
    let holds = held.iter().map(|stage| stage.name()).collect();
    let of = match visible_effect {
        // The load balancer stands for what is behind it.
        VisibleEffect::ApiServer(_)
        | VisibleEffect::EtcdWithoutLeader
        | VisibleEffect::EtcdSlow { .. }
        | VisibleEffect::LoadBalancer(_) => ResourceKind::LoadBalancer,
        _ => ResourceKind::Instance,
    };
    let among = match visible_effect {
        // Workers have no etcd member and no API server.
        VisibleEffect::Held(_) | VisibleEffect::BootstrapFailed(_) => {
            visible_effect.held_stages().first().map(|stage| stage.name())
        }
        VisibleEffect::EtcdAlarm(_) | VisibleEffect::EtcdMemberHidden => Some(Stage::Etcd.name()),
        VisibleEffect::Certificate(_) => Some(Stage::ApiServer.name()),
        _ => None,
    };
    // The provider ID of a Node cannot be changed.
    let before = (*visible_effect == VisibleEffect::WrongProviderId).then(|| Stage::Node.name());
    // A machine that never had another name has one Node only.
    let is_of_name = matches!(
        visible_effect,
        VisibleEffect::Rebooting { .. } | VisibleEffect::OtherName(_)
    );
    let after = is_of_name.then(|| Stage::Node.name());
    let notice = |lasts: Duration, then: VisibleEffect| {
        Some(Box::new(Notice {
            lasts,
            then: active_effect_of(&then),
        }))
    };
    ActiveEffect {
        of,
        among,
        before,
        after,
        visible_effect: visible_effect.clone(),
        holds,
        is_down: visible_effect.is_silence(),
        is_final: *visible_effect == VisibleEffect::Vanished,
        market: matches!(visible_effect, VisibleEffect::SpotReclaim(_)).then_some(Market::Spot),
        notice: match visible_effect {
            VisibleEffect::SpotReclaim(lasts) => notice(*lasts, VisibleEffect::Vanished),
            VisibleEffect::Rebooting { down_for, name } => {
                notice(*down_for, VisibleEffect::OtherName(name.clone()))
            }
            _ => None,
        },
    }
}

/// The active effect of a fault that began at this time: its visible effect knows it, and what comes after its notice.
pub(crate) fn begun(active_effect: ActiveEffect, began: SimTime) -> ActiveEffect {
    let notice = active_effect.notice.map(|notice| Notice {
        then: begun(notice.then, began),
        ..*notice
    });
    ActiveEffect {
        visible_effect: active_effect.visible_effect.begun(began),
        notice: notice.map(Box::new),
        ..active_effect
    }
}

/// The visible effects of active effects, by the name of the fault.
pub(crate) fn visible_effects(
    active_effects: &BTreeMap<String, ActiveEffect>,
) -> BTreeMap<String, VisibleEffect> {
    let visible_effect = |(fault, active_effect): (&String, &ActiveEffect)| {
        (fault.clone(), active_effect.visible_effect.clone())
    };
    active_effects.iter().map(visible_effect).collect()
}

#[cfg(test)]
mod tests {
    use nephele_model::{EarlyExpiry, Flap, OtherName};

    use super::*;

    #[test]
    fn an_instance_that_reboots_comes_up_with_the_name_of_when_its_fault_began() {
        let began = SimTime::from_millis(1_500);
        let down_for = Duration::from_secs(30);
        let reboots = VisibleEffect::Rebooting {
            down_for,
            name: OtherName::new("-2"),
        };
        let active_effect = begun(active_effect_of(&reboots), began);
        let then = active_effect
            .notice
            .map(|notice| (notice.lasts, notice.then.visible_effect));
        assert_eq!(
            then,
            Some((
                down_for,
                VisibleEffect::OtherName(OtherName::new("-2").begun(began))
            ))
        );
        assert_eq!(
            (active_effect.is_down, active_effect.after),
            (true, Some(Stage::Node.name()))
        );
    }

    #[test]
    fn a_fault_that_began_differs_only_in_when() {
        let began = SimTime::from_millis(1_500);
        let second = Duration::from_secs(1);
        let visible_effects = [
            VisibleEffect::Certificate(EarlyExpiry::new(second)),
            VisibleEffect::Flapping(Flap::new(second, second)),
            VisibleEffect::Rebooting {
                down_for: second,
                name: OtherName::new("-2"),
            },
            VisibleEffect::SpotReclaim(second),
        ];
        for visible_effect in visible_effects {
            assert_eq!(
                begun(active_effect_of(&visible_effect), began),
                active_effect_of(&visible_effect.begun(began))
            );
        }
    }
}
