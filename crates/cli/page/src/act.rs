//! What a viewer can do to what is selected, as plain values. Pure.

use std::{borrow::Cow, time::Duration};

use kube::Resource;
use nephele_api::cloud::v1alpha1::{Fault, FaultBudget, FaultMatch, Scenario, SimulatedCloud};
use nephele_scenario::clock::ClockChange;

use crate::{
    act_error::ActError,
    draft::{fault, lasts},
    objects::Key,
    palette::Target,
};

/// How far the clock jumps.
const JUMP: Duration = Duration::from_secs(60);

/// What can be done to a selected object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doable {
    /// Nothing.
    #[default]
    Nothing,
    /// A Fault can hit it, which matches it by this name.
    Break { target: Target, matched: String },
    /// It is a Fault, which can be deleted.
    Heal,
    /// It has a clock.
    SetClock { is_paused: bool },
    /// It is a Scenario, which can be deleted and, when it has ended, run again.
    Direct { has_ended: bool },
}

/// A permission: a verb and the kind that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    pub(crate) verb: &'static str,
    pub(crate) group: Cow<'static, str>,
    pub(crate) resource: Cow<'static, str>,
}

impl Permission {
    /// That to do something with objects of a kind.
    pub(crate) fn of<K: Resource<DynamicType = ()>>(verb: &'static str) -> Self {
        Self {
            verb,
            group: K::group(&()),
            resource: K::plural(&()),
        }
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}.{}", self.verb, self.resource, self.group)
    }
}

impl Doable {
    /// What the viewer needs for it. None where nothing can be done.
    pub(crate) fn permission(&self) -> Option<Permission> {
        match self {
            Self::Nothing => None,
            Self::Break { .. } => Some(Permission::of::<Fault>("create")),
            Self::Heal => Some(Permission::of::<Fault>("delete")),
            Self::SetClock { .. } => Some(Permission::of::<SimulatedCloud>("patch")),
            Self::Direct { .. } => Some(Permission::of::<Scenario>("delete")),
        }
    }
}

/// What a viewer wants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Create(Box<Fault>),
    Delete(Key),
    SetClock {
        namespace: String,
        change: ClockChange,
    },
    /// Creates a Scenario.
    Run(Box<Scenario>),
    /// Creates what a scenario of the library needs.
    Make(Key),
    /// Deletes a Scenario, and with it its Faults.
    Stop(Key),
    /// Deletes a Scenario, and creates it again as it was.
    RunAgain(Key),
}

/// The act that the fields of a form describe, for an object to which so much can be done.
///
/// # Errors
/// When it is not offered there, or a field cannot be read.
pub(crate) fn wanted(doable: &Doable, key: &Key, fields: &[(String, String)]) -> Result<Act, ActError> {
    let field = |name: &str| field(fields, name);
    match doable {
        Doable::Nothing => Err(ActError::NotOffered),
        Doable::Break { target, matched } => {
            let offer = target.offers().find(|offer| offer.name == field("effect"));
            let offer = offer.ok_or(ActError::NotOffered)?;
            let matches = FaultMatch {
                names: vec![matched.to_owned()],
                ..FaultMatch::default()
            };
            let budget = FaultBudget {
                lasts: lasts(field("for"))?,
                ..FaultBudget::default()
            };
            let fault = fault(offer, &key.namespace, matches, budget)?;
            Ok(Act::Create(Box::new(fault)))
        }
        Doable::Heal => Ok(Act::Delete(key.clone())),
        Doable::Direct { has_ended } => match field("act") {
            "stop" => Ok(Act::Stop(key.clone())),
            "again" if *has_ended => Ok(Act::RunAgain(key.clone())),
            _ => Err(ActError::NotOffered),
        },
        Doable::SetClock { .. } => {
            let mut change = ClockChange {
                cloud: key.name.clone(),
                rate: None,
                paused: None,
                step: None,
                jump: None,
            };
            match field("change") {
                "pause" => change.paused = Some(true),
                "resume" => change.paused = Some(false),
                "step" => change.step = Some(1),
                "jump" => change.jump = Some(JUMP),
                _ => return Err(ActError::NotOffered),
            }
            Ok(Act::SetClock {
                namespace: key.namespace.clone(),
                change,
            })
        }
    }
}

/// The value of a field; empty if it is not there.
pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        fields.iter().map(owned).collect()
    }

    fn worker() -> Doable {
        Doable::Break {
            target: Target::Worker,
            matched: "instance-1".to_owned(),
        }
    }

    #[test]
    fn a_form_makes_a_fault_for_the_selected_machine_alone() {
        let key = Key::new("team", "machine-1");
        let act = wanted(
            &worker(),
            &key,
            &fields(&[("effect", "notReady"), ("for", "90s")]),
        );
        let Ok(Act::Create(fault)) = act else {
            panic!("{act:?}")
        };
        let expected = json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1",
            "kind": "Fault",
            "metadata": { "generateName": "notready-", "namespace": "team" },
            "spec": { "match": { "names": ["instance-1"] }, "effect": { "notReady": {} }, "budget": { "for": "90s" } },
        });
        assert_eq!(serde_json::to_value(*fault).expect("JSON"), expected);
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        let key = Key::new("team", "machine-1");
        let refused = |doable: &Doable, given: &[(&str, &str)]| wanted(doable, &key, &fields(given)).err();
        let not_offered = Some(ActError::NotOffered);
        assert_eq!(refused(&Doable::Nothing, &[("effect", "notReady")]), not_offered);
        assert_eq!(refused(&worker(), &[("effect", "apiServer.down")]), not_offered);
        assert_eq!(refused(&worker(), &[]), not_offered);
        let clock = Doable::SetClock { is_paused: false };
        assert_eq!(refused(&clock, &[("change", "rate")]), not_offered);
        for lasts in ["soon", "-5s", "0s", "99999999999h"] {
            let given = [("effect", "notReady"), ("for", lasts)];
            assert_eq!(refused(&worker(), &given), Some(ActError::Time), "{lasts}");
        }
    }

    #[test]
    fn a_fault_without_a_time_lasts_until_it_is_deleted() {
        let key = Key::new("team", "machine-1");
        let act = wanted(&worker(), &key, &fields(&[("effect", "vanish"), ("for", " ")]));
        let Ok(Act::Create(fault)) = act else {
            panic!("{act:?}")
        };
        assert_eq!(fault.spec.budget, FaultBudget::default());
    }

    #[test]
    fn permissions_name_the_kinds_of_the_api() {
        let told = |doable: Doable| doable.permission().map(|permission| permission.to_string());
        assert_eq!(told(Doable::Nothing), None);
        assert_eq!(told(worker()).as_deref(), Some("create faults.cloud.nephele.dev"));
        assert_eq!(
            told(Doable::Heal).as_deref(),
            Some("delete faults.cloud.nephele.dev")
        );
        assert_eq!(
            told(Doable::SetClock { is_paused: true }).as_deref(),
            Some("patch simulatedclouds.cloud.nephele.dev")
        );
    }
}
