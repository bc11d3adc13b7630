//! The processors of this machine, all together.

use std::fs;

use anyhow::Context;

/// Seconds that all processors together were busy and idle since the machine started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    pub(crate) busy: f64,
    pub(crate) idle: f64,
}

impl Times {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let attempt = "failed to read the times of the machine";
        let stat = fs::read_to_string("/proc/stat").context(attempt)?;
        Self::read(&stat).context(attempt)
    }

    /// The part of the time since then that was idle, between 0 and 1.
    pub(crate) fn idle_since(self, before: Self) -> f64 {
        let [busy, idle] = [self.busy - before.busy, self.idle - before.idle];
        if busy + idle > 0.0 {
            idle / (busy + idle)
        } else {
            0.0
        }
    }

    /// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal, in USER_HZ of which there are 100 a second.
    fn read(stat: &str) -> Option<Self> {
        let times = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .take(8)
            .map(str::parse::<u64>);
        let [user, nice, system, idle, iowait, irq, softirq, steal] =
            times.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?;
        let seconds = |ticks: u64| ticks as f64 / 100.0;
        Some(Self {
            busy: seconds(user + nice + system + irq + softirq + steal),
            idle: seconds(idle + iowait),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_machine_is_in_use_or_not() {
        let stat = "cpu  100 200 300 1000 50 1 2 3 7 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(
            Times::read(stat),
            Some(Times {
                busy: 6.06,
                idle: 10.5
            })
        );
    }

    #[test]
    fn the_idle_part_is_that_of_the_time_since() {
        let at = |busy, idle| Times { busy, idle };
        assert_eq!(at(13.0, 21.0).idle_since(at(10.0, 20.0)), 0.25);
        assert_eq!(at(10.0, 20.0).idle_since(at(10.0, 20.0)), 0.0);
    }
}
