//! Texts of users.

use std::path::Path;

use nephele_access::parse_kubeconfig;
use nephele_api::cloud::v1alpha1::{FaultSpec, ScenarioSpec};
use nephele_cloud::read_user_data;
use nephele_ipam::AddressSet;
use nephele_model::{ClockRate, Fraction, GoDuration};

use crate::{input::choice, simulated_time::run};

/// The user data of a machine.
pub(crate) fn user_data(data: &[u8]) {
    run(read_user_data(data.to_vec()));
}

/// A kubeconfig.
pub(crate) fn kubeconfig(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // An error says what is wrong with it.
    let _ = parse_kubeconfig(Path::new("/home/user/.kube/config"), text);
}

/// The spec of a Fault or of a Scenario as JSON, or the text of one of their fields.
pub(crate) fn specs(data: &[u8]) {
    let Some((kind, data)) = choice(data, 6) else {
        return;
    };
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match kind {
        0 => fault(text),
        1 => {
            if let Ok(spec) = serde_json::from_str::<ScenarioSpec>(text) {
                let _ = nephele_scenario::actions(&spec);
            }
        }
        2 => {
            if let Ok(duration) = GoDuration::parse(text) {
                let written = nephele_go_duration::format(duration.get());
                let read = nephele_go_duration::parse(&written).expect("what is written can be read");
                assert_eq!(read.as_millis(), duration.get().as_millis(), "{text}");
            }
        }
        3 => {
            if let Ok(fraction) = Fraction::parse(text) {
                assert!((0.0..=1.0).contains(&fraction.get()), "{text}");
            }
        }
        4 => {
            if let Ok(rate) = ClockRate::parse(text) {
                assert_eq!(
                    ClockRate::of(rate.millionths()).millionths(),
                    rate.millionths(),
                    "{text}"
                );
            }
        }
        _ => {
            // An error names the first entry that is none.
            let _ = AddressSet::parse(text.split(','));
        }
    }
}

fn fault(text: &str) {
    let Ok(spec) = serde_json::from_str::<FaultSpec>(text) else {
        return;
    };
    // An error names the field that the schema would refuse.
    let _ = nephele_fault::budget(&spec.budget);
    let _ = nephele_fault::is_of_addresses(&spec);
}
