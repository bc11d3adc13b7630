//! What visible effects look like that depend on how long their fault has been there. The time is counted from when the
//! fault began, or from when the part of the machine that shows the visible effect came up, if that is later. Both
//! outlive a restart.

use std::time::Duration;

use jiff::Timestamp;
use nephele_model::{EarlyExpiry, Flap, OtherName, SimTime};

use crate::clock::CloudClock;

/// When the certificate of an API server that started at this time expires. Certificates have whole seconds, so one that has
/// expired did so a second ago.
pub(crate) fn expiry(early: &EarlyExpiry, started: Timestamp, clock: &CloudClock) -> Timestamp {
    let from = later(early.began, started, clock).as_second();
    let seconds = i64::try_from(early.expires_in.as_secs()).unwrap_or(i64::MAX);
    let seconds = if early.expires_in.is_zero() { -1 } else { seconds };
    Timestamp::from_second(from.saturating_add(seconds)).unwrap_or(Timestamp::MAX)
}

/// Whether the kubelet that registered its Node at this time is silent, and how long that lasts.
pub(crate) fn phase(
    flap: &Flap,
    registered: Timestamp,
    clock: &CloudClock,
    now: Timestamp,
) -> (bool, Duration) {
    let since = later(flap.began, registered, clock).as_millisecond();
    let passed = u128::try_from(now.as_millisecond().saturating_sub(since)).unwrap_or(0);
    let down = flap.down.as_millis();
    // A part of a millisecond makes no turn.
    let period = (down + flap.up.as_millis()).max(1);
    let into = passed % period;
    let (is_silent, left) = if into < down {
        (true, down - into)
    } else {
        (false, period - into)
    };
    (
        is_silent,
        Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)),
    )
}

/// The creation time of the Node of this name, for a machine that registered its first Node at this time. It is not when the
/// second Node was registered, which a restart forgets.
pub(crate) fn created(name: &OtherName, registered: Timestamp, clock: &CloudClock) -> Timestamp {
    later(name.began, registered, clock)
}

fn later(began: Option<SimTime>, up: Timestamp, clock: &CloudClock) -> Timestamp {
    began.map_or(up, |began| clock.wall_time(began).max(up))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn clock() -> CloudClock {
        CloudClock::new(Arc::new(|| Timestamp::UNIX_EPOCH))
    }

    fn at(millis: u64) -> Timestamp {
        clock().wall_time(SimTime::from_millis(millis))
    }

    #[test]
    fn certificate_expires_from_when_its_fault_began_or_its_api_server_started() {
        let hour = EarlyExpiry::new(Duration::from_secs(3600)).begun(SimTime::from_millis(50_900));
        assert_eq!(expiry(&hour, at(10_000), &clock()), at(3_650_000));
        assert_eq!(expiry(&hour, at(90_000), &clock()), at(3_690_000));
        let expired = EarlyExpiry::new(Duration::ZERO).begun(SimTime::from_millis(50_900));
        assert_eq!(expiry(&expired, at(10_000), &clock()), at(49_000));
        assert_eq!(
            expiry(&EarlyExpiry::new(Duration::MAX), at(10_000), &clock()),
            Timestamp::MAX
        );
    }

    #[test]
    fn kubelet_is_silent_first_and_then_in_turn() {
        let down = Duration::from_secs(10);
        let up = Duration::from_secs(30);
        let flap = Flap::new(down, up).begun(SimTime::from_millis(5_000));
        let phase_at = |now| phase(&flap, at(2_000), &clock(), at(now));
        let seconds = Duration::from_secs;
        assert_eq!(phase_at(5_000), (true, seconds(10)));
        assert_eq!(phase_at(14_999), (true, Duration::from_millis(1)));
        assert_eq!(phase_at(15_000), (false, seconds(30)));
        assert_eq!(phase_at(45_000), (true, seconds(10)));
        assert_eq!(phase_at(1_000), (true, seconds(10)), "a clock that was set back");
        assert_eq!(
            phase(&flap, at(8_000), &clock(), at(12_000)),
            (true, seconds(6)),
            "a Node that came later"
        );
    }

    #[test]
    fn node_of_another_name_is_as_old_as_its_fault_or_as_the_first_node() {
        let name = OtherName::new("-2").begun(SimTime::from_millis(5_000));
        assert_eq!(created(&name, at(2_000), &clock()), at(5_000));
        assert_eq!(created(&name, at(8_000), &clock()), at(8_000));
    }

    proptest! {
        /// Whoever looks again when a phase ends sees each phase, whatever the times are.
        #[test]
        fn a_phase_ends_when_it_says(
            down in 1_000..100_000_u64, up in 1_000..100_000_u64, began in 0..1_000_000_u64, now in 0..9_000_000_u64,
        ) {
            let flap = Flap::new(Duration::from_millis(down), Duration::from_millis(up));
            let flap = flap.begun(SimTime::from_millis(began));
            let now = now.max(began);
            let (is_silent, left) = phase(&flap, at(0), &clock(), at(now));
            let end = now + u64::try_from(left.as_millis()).expect("short");
            prop_assert_eq!(phase(&flap, at(0), &clock(), at(end - 1)).0, is_silent);
            let next = if is_silent { (false, up) } else { (true, down) };
            prop_assert_eq!(phase(&flap, at(0), &clock(), at(end)), (next.0, Duration::from_millis(next.1)));
        }
    }
}
