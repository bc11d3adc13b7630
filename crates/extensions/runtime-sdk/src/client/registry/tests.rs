use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::{
    client::{CircuitSettings, OnError},
    hooks::{AfterClusterUpgrade, BeforeClusterUpgrade, Hook},
};

fn handler<H: Hook>(name: &str) -> Handler {
    Handler {
        name: name.into(),
        hook: H::id(),
        timeout: Duration::from_secs(10),
        on_error: OnError::Fail,
    }
}

fn registration(name: &str, handlers: Vec<Handler>) -> Registration {
    Registration {
        name: name.into(),
        resource_version: "1".into(),
        client_config: ClientConfig {
            url: "https://localhost".into(),
            ..ClientConfig::default()
        },
        namespace_selector: Some(LabelSelector::default()),
        settings: Settings::new(),
        handlers,
    }
}

fn first() -> Registration {
    registration(
        "ext1",
        vec![
            handler::<BeforeClusterUpgrade>("foo"),
            handler::<BeforeClusterUpgrade>("bar"),
            handler::<AfterClusterUpgrade>("baz"),
        ],
    )
}

fn second() -> Registration {
    registration("ext2", vec![handler::<AfterClusterUpgrade>("qux")])
}

fn names(registry: &Registry) -> [Vec<String>; 2] {
    [BeforeClusterUpgrade::id(), AfterClusterUpgrade::id()].map(|hook| registry.handlers(&hook).unwrap())
}

/// REG-01.
#[test]
fn a_cold_registry_does_nothing() {
    let registry = Registry::new();
    assert!(!registry.is_ready());
    assert!(matches!(registry.add(first()), Err(RegistryError::NotReady)));
    assert!(matches!(registry.remove("ext1"), Err(RegistryError::NotReady)));
    assert!(matches!(
        registry.handlers(&BeforeClusterUpgrade::id()),
        Err(RegistryError::NotReady)
    ));
    assert!(matches!(
        registry.handler("foo.ext1"),
        Err(RegistryError::NotReady)
    ));
}

/// REG-02.
#[test]
fn it_is_warmed_up_once() {
    let registry = Registry::of([]).unwrap();
    assert!(registry.is_ready());
    let again = registry.warm_up([Candidate::from(first())], WarmUp::Isolated);
    assert!(matches!(again, Err(RegistryError::Ready)));
    assert!(registry.is_ready());
    assert_eq!(names(&registry), [[""; 0]; 2]);
}

/// REG-03.
#[test]
fn an_extension_without_handlers_can_come_and_go() {
    let registry = Registry::of([]).unwrap();
    registry.add(registration("empty", vec![])).unwrap();
    assert_eq!(names(&registry), [[""; 0]; 2]);
    registry.remove("empty").unwrap();
    registry.remove("empty").unwrap();
}

/// REG-04, REG-05.
#[test]
fn handlers_are_listed_by_hook_in_order_of_their_names() {
    let registry = Registry::of([first()]).unwrap();
    assert_eq!(names(&registry), [vec!["bar.ext1", "foo.ext1"], vec!["baz.ext1"]]);
    assert_eq!(
        registry.handler("foo.ext1").unwrap(),
        handler::<BeforeClusterUpgrade>("foo")
    );
    assert_eq!(
        registry.handler("baz.ext1").unwrap(),
        handler::<AfterClusterUpgrade>("baz")
    );
    registry.add(second()).unwrap();
    assert_eq!(
        names(&registry),
        [vec!["bar.ext1", "foo.ext1"], vec!["baz.ext1", "qux.ext2"]]
    );
}

/// REG-06, REG-07.
#[test]
fn what_is_removed_takes_its_handlers_along() {
    let registry = Registry::of([first(), second()]).unwrap();
    registry.remove("ext1").unwrap();
    assert_eq!(names(&registry), [vec![], vec!["qux.ext2"]]);
    assert!(matches!(registry.handler("foo.ext1"), Err(RegistryError::Unknown(name)) if name == "foo.ext1"));
}

#[test]
fn handlers_of_any_version_are_listed() {
    let mut newer = handler::<AfterClusterUpgrade>("newer");
    newer.hook.version = "v2".into();
    let registry = Registry::of([registration("e", vec![newer])]).unwrap();
    assert_eq!(
        registry.handlers(&AfterClusterUpgrade::id()).unwrap(),
        ["newer.e"]
    );
}

#[test]
fn what_replaces_a_registration_replaces_all_of_it() {
    let registry = Registry::of([first()]).unwrap();
    registry
        .add(registration("ext1", vec![handler::<AfterClusterUpgrade>("foo")]))
        .unwrap();
    assert_eq!(names(&registry), [vec![], vec!["foo.ext1"]]);
}

/// Upstream removes the existing registration before it checks the new one.
#[test]
fn what_cannot_be_registered_leaves_what_was_there() {
    let registry = Registry::of([first()]).unwrap();
    let before = names(&registry);
    let operator = crate::client::LabelSelectorRequirement {
        key: "a".into(),
        operator: "Is".into(),
        values: vec!["b".into()],
    };
    let selector = LabelSelector {
        match_expressions: vec![operator],
        ..LabelSelector::default()
    };
    for bad in [
        Registration {
            client_config: ClientConfig::default(),
            ..first()
        },
        Registration {
            namespace_selector: Some(selector),
            ..first()
        },
        Registration {
            handlers: vec![handler::<BeforeClusterUpgrade>("a.b")],
            ..first()
        },
        Registration {
            handlers: vec![handler::<BeforeClusterUpgrade>("a"); 2],
            ..first()
        },
    ] {
        assert!(matches!(
            registry.add(bad),
            Err(RegistryError::Registration { .. })
        ));
        assert_eq!(names(&registry), before);
    }
    let dotted = Registration {
        name: "a.b".into(),
        ..first()
    };
    assert!(matches!(
        registry.add(dotted),
        Err(RegistryError::Registration {
            source: RegistrationError::Name(_),
            ..
        })
    ));
}

fn dead(name: &str, last_known: Option<Registration>) -> Candidate {
    Candidate {
        name: name.into(),
        found: Err(format!("{name} is dead")),
        last_known,
    }
}

#[test]
fn a_dead_extension_keeps_no_other_out() {
    let registry = Registry::new();
    let candidates = [first().into(), dead("dead", None), dead("ext2", Some(second()))];
    let report = registry.warm_up(candidates, WarmUp::Isolated).unwrap();
    let expected = WarmedUp {
        registered: ["ext1".to_owned()].into(),
        last_known: [("ext2".to_owned(), "ext2 is dead".to_owned())].into(),
        unavailable: [("dead".to_owned(), "dead is dead".to_owned())].into(),
    };
    assert_eq!(report, expected);
    assert_eq!(
        names(&registry),
        [vec!["bar.ext1", "foo.ext1"], vec!["baz.ext1", "qux.ext2"]]
    );
    let error = registry.handler("any.dead").unwrap_err();
    assert_eq!(
        error.to_string(),
        "extension \"dead\" is not available: dead is dead"
    );
    registry.add(registration("dead", vec![])).unwrap();
    assert!(matches!(
        registry.handler("any.dead"),
        Err(RegistryError::Unknown(_))
    ));
}

#[test]
fn all_or_nothing_leaves_a_cold_registry_that_can_be_warmed_up_again() {
    let registry = Registry::new();
    let candidates = [first().into(), dead("a", None), dead("b", Some(second()))];
    let error = registry.warm_up(candidates, WarmUp::AllOrNothing).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to warm up the registry: [b is dead, a is dead]"
    );
    assert!(!registry.is_ready());
    registry.warm_up([first().into()], WarmUp::AllOrNothing).unwrap();
    assert!(registry.is_ready());
}

#[test]
fn a_changed_registration_is_called_at_once_and_an_unchanged_one_is_still_left_alone() {
    let registry = Registry::of([first()]).unwrap();
    let settings = CircuitSettings {
        failures: 1,
        ..CircuitSettings::default()
    };
    let break_it = || {
        let registered = registry.get("foo.ext1").unwrap();
        registered
            .extension
            .circuit
            .lock()
            .failed(Instant::now(), &settings, "ext1", "refused");
    };
    break_it();
    registry.add(first()).unwrap();
    assert!(registry.circuit("ext1").unwrap().is_open());
    assert_eq!(registry.open(), 1);
    registry
        .add(Registration {
            resource_version: "2".into(),
            ..first()
        })
        .unwrap();
    assert_eq!(registry.circuit("ext1"), Some(Circuit::Closed));
    break_it();
    registry.answered("ext1");
    assert_eq!(
        (registry.circuit("ext1"), registry.open()),
        (Some(Circuit::Closed), 0)
    );
    assert_eq!(registry.circuit("other"), None);
}
