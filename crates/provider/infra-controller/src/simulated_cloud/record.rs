//! What has happened in a SimulatedCloud, in its status: what one manager writes, the next one puts back. Pure.

use nephele_api::cloud::v1alpha1::SimulatedCloudStatus;
use nephele_cloud::CloudRecord;

use super::{caller_mistakes, clock, cost};
use crate::leaked;

/// Writes a record into the status of the SimulatedCloud of this name.
pub(super) fn write(record: CloudRecord, name: &str, status: &mut SimulatedCloudStatus) {
    let CloudRecord {
        clock,
        leaked,
        cost,
        caller_mistakes,
    } = record;
    status.clock = clock.map(clock::status);
    (status.leaked_instances, status.leaked_load_balancers) = leaked::to_api(&leaked, name);
    status.cost = cost::status(status.cost.as_ref(), cost);
    status.caller_mistakes = caller_mistakes::status(&caller_mistakes);
}

/// The record in the status of the SimulatedCloud of this name.
pub(crate) fn read(status: &SimulatedCloudStatus, namespace: &str, name: &str) -> CloudRecord {
    let SimulatedCloudStatus {
        leaked_instances,
        leaked_load_balancers,
        ..
    } = status;
    CloudRecord {
        clock: status.clock.as_ref().and_then(clock::history),
        leaked: leaked::of_status(leaked_instances, leaked_load_balancers, namespace, name),
        cost: status.cost.as_ref().and_then(cost::history),
        caller_mistakes: caller_mistakes::history(&status.caller_mistakes),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use nephele_cloud::{
        CallerMistakes, ClockObservation, ClockSetting, CostObservation, Footprint, Leaked, MistakesByCaller,
        Rate, Spent,
    };
    use nephele_model::{Caller, ClusterId, Endpoint, MachineId, Market};
    use proptest::prelude::*;

    use super::*;

    fn cluster() -> ClusterId {
        ClusterId {
            namespace: "ns".into(),
            name: "demo".into(),
        }
    }

    fn at() -> impl Strategy<Value = Timestamp> {
        (1_000_000_i64..2_000_000_000_000)
            .prop_map(|millis| Timestamp::from_millisecond(millis).expect("in range"))
    }

    fn clock() -> impl Strategy<Value = ClockObservation> {
        let rate = (10_000_u64..=1_000_000_000).prop_map(Rate::from_millionths);
        let ahead = (0_u64..1_000_000).prop_map(Duration::from_secs);
        (
            rate,
            any::<bool>(),
            0..=i64::MAX.unsigned_abs(),
            ahead,
            at(),
            at(),
        )
            .prop_map(|(rate, is_paused, steps, ahead, since, time)| {
                let setting = ClockSetting {
                    rate,
                    is_paused,
                    steps,
                    ahead,
                };
                ClockObservation { setting, since, time }
            })
    }

    fn leaked() -> impl Strategy<Value = Leaked<Timestamp>> {
        (
            at(),
            prop::option::of("[a-z]{1,5}"),
            any::<u32>(),
            any::<bool>(),
            0..16_usize,
        )
            .prop_map(|(since, instance_type, processors, is_spot, addresses)| Leaked {
                id: MachineId {
                    cluster: cluster(),
                    name: "m".into(),
                }
                .resource(),
                since,
                fault: "f".into(),
                addresses: (0..addresses).map(|number| format!("10.0.0.{number}")).collect(),
                endpoint: None,
                footprint: Footprint {
                    zone: instance_type.clone(),
                    cloud_spec: "north".into(),
                    instance_type,
                    processors,
                    market: if is_spot { Market::Spot } else { Market::OnDemand },
                },
            })
    }

    fn leaked_load_balancer() -> impl Strategy<Value = Leaked<Timestamp>> {
        (at(), prop::option::of(any::<u16>())).prop_map(|(since, port)| Leaked {
            id: cluster().load_balancer(),
            since,
            fault: "f".into(),
            addresses: Vec::new(),
            endpoint: port.map(|port| Endpoint {
                host: "cloud.example".into(),
                port,
            }),
            footprint: Footprint {
                cloud_spec: "north".into(),
                ..Footprint::default()
            },
        })
    }

    fn cost() -> impl Strategy<Value = CostObservation> {
        let spent = || (any::<u64>(), any::<u64>()).prop_map(|(total, per_hour)| Spent { total, per_hour });
        let clusters = prop::collection::btree_map("[a-z]{1,8}", spent(), 0..20);
        (at(), spent(), clusters).prop_map(|(time, all, clusters)| CostObservation { time, all, clusters })
    }

    fn caller_mistakes() -> impl Strategy<Value = MistakesByCaller> {
        let found = (0..=i64::MAX.unsigned_abs(), 0..=i64::MAX.unsigned_abs()).prop_map(
            |(double_creates, missed_reads)| CallerMistakes {
                double_creates,
                missed_reads,
            },
        );
        prop::collection::vec(prop::option::of(found), Caller::ALL.len()).prop_map(|found| {
            let callers = Caller::ALL.map(|caller| caller.as_str().to_owned());
            callers
                .into_iter()
                .zip(found)
                .filter_map(|(caller, found)| Some((caller, found?)))
                .collect()
        })
    }

    proptest! {
        /// A restart does not show: what is put back from a status is what was written into it.
        #[test]
        fn a_record_reads_back_from_a_status(
            clock in prop::option::of(clock()),
            instances in prop::collection::vec(leaked(), 0..4),
            balancers in prop::collection::vec(leaked_load_balancer(), 0..4),
            cost in prop::option::of(cost()),
            caller_mistakes in caller_mistakes(),
        ) {
            let leaked = [instances, balancers].concat();
            let record = CloudRecord { clock, leaked, cost, caller_mistakes };
            let mut status = SimulatedCloudStatus::default();
            write(record.clone(), "north", &mut status);
            let text = serde_json::to_string(&status).expect("a status is JSON");
            let status = serde_json::from_str(&text).expect("it is read");
            prop_assert_eq!(read(&status, "ns", "north"), record);
        }
    }

    #[test]
    fn an_empty_status_has_an_empty_record() {
        assert_eq!(
            read(&SimulatedCloudStatus::default(), "ns", "north"),
            CloudRecord::default()
        );
        let mut status = SimulatedCloudStatus::default();
        write(CloudRecord::default(), "north", &mut status);
        assert_eq!(status, SimulatedCloudStatus::default());
    }
}
