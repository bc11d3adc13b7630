//! CPU time and memory of controllers over time. Pure.

use std::time::Duration;

use serde::Serialize;

use super::super::percentiles::seconds;

/// The most samples of a controller. With [`CONTROLLERS_MAX`] of them, each of 24 bytes, they take 375 KiB.
const SAMPLES_MAX: usize = 1_000;
/// The most controllers that are followed.
pub(super) const CONTROLLERS_MAX: usize = 16;

/// What a controller has used until a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: f64,
}

impl Sample {
    /// Reads the metrics of a process. `None` if they are not among them.
    pub(super) fn read(at: Duration, metrics: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = metrics.lines();
            lines.find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .trim()
                    .parse::<f64>()
                    .ok()
            })
        };
        let cpu_seconds = value("process_cpu_seconds_total")?;
        let resident_bytes = value("process_resident_memory_bytes")?;
        Some(Self {
            at,
            cpu_seconds,
            resident_bytes,
        })
    }
}

/// The samples of a controller. When there are too many, every second one goes, and so does every second new one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct History {
    samples: Vec<Sample>,
    seen: usize,
    keep_every: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            seen: 0,
            keep_every: 1,
        }
    }
}

impl History {
    pub(super) fn push(&mut self, sample: Sample) {
        let number = self.seen;
        self.seen += 1;
        if !number.is_multiple_of(self.keep_every) {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.keep_every *= 2;
        }
        self.samples.push(sample);
    }

    /// The use between the first and the last sample; `None` with fewer than two.
    pub(super) fn summary(&self, name: &str) -> Option<ControllerUse> {
        let [first, .., last] = self.samples.as_slice() else {
            return None;
        };
        let spent = |pair: &[Sample]| match pair {
            // A lower number is that of a new process, which began at zero.
            [before, after] if after.cpu_seconds < before.cpu_seconds => after.cpu_seconds,
            [before, after] => after.cpu_seconds - before.cpu_seconds,
            _ => 0.0,
        };
        let cpu_seconds: f64 = self.samples.windows(2).map(spent).sum();
        let elapsed = (last.at - first.at).as_secs_f64();
        let points = self.samples.windows(2).filter_map(|pair| {
            let [before, after] = pair else { return None };
            let elapsed = after.at.saturating_sub(before.at).as_secs_f64();
            let cores = if elapsed > 0.0 {
                rounded(spent(pair) / elapsed)
            } else {
                0.0
            };
            Some(UsePoint {
                at: seconds(after.at),
                cores,
                resident_mib: mib(after.resident_bytes),
            })
        });
        let largest = self
            .samples
            .iter()
            .map(|sample| sample.resident_bytes)
            .fold(0.0, f64::max);
        Some(ControllerUse {
            name: name.to_owned(),
            cpu_seconds: rounded(cpu_seconds),
            cores_mean: if elapsed > 0.0 {
                rounded(cpu_seconds / elapsed)
            } else {
                0.0
            },
            resident_mib_before: mib(first.resident_bytes),
            resident_mib_max: mib(largest),
            points: points.collect(),
        })
    }
}

/// What a controller used during the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::load) struct ControllerUse {
    pub(in crate::load) name: String,
    pub(in crate::load) cpu_seconds: f64,
    pub(in crate::load) cores_mean: f64,
    pub(in crate::load) resident_mib_before: f64,
    pub(in crate::load) resident_mib_max: f64,
    pub(in crate::load) points: Vec<UsePoint>,
}

/// What a controller used at a time: CPU cores on average since the point before, and memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::load) struct UsePoint {
    pub(in crate::load) at: f64,
    pub(in crate::load) cores: f64,
    pub(in crate::load) resident_mib: f64,
}

fn mib(bytes: f64) -> f64 {
    (bytes / 1024.0 / 1024.0 * 10.0).round() / 10.0
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, cpu_seconds: f64, mib: f64) -> Sample {
        Sample {
            at: Duration::from_secs(at),
            cpu_seconds,
            resident_bytes: mib * 1024.0 * 1024.0,
        }
    }

    fn history(samples: &[Sample]) -> History {
        let mut history = History::default();
        samples.iter().for_each(|sample| history.push(*sample));
        history
    }

    #[test]
    fn sample_is_read_from_metrics_by_whole_names() {
        let metrics = "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 1.5\n\
            process_cpu_seconds_total_other 9\nprocess_resident_memory_bytes 3.145728e+06\n";
        assert_eq!(
            Sample::read(Duration::from_secs(1), metrics),
            Some(sample(1, 1.5, 3.0))
        );
        assert_eq!(
            Sample::read(Duration::ZERO, "process_cpu_seconds_total 1.5\n"),
            None
        );
    }

    #[test]
    fn cpu_time_continues_after_a_restart() {
        let history = history(&[sample(0, 10.0, 50.0), sample(2, 14.0, 90.0), sample(4, 1.0, 40.0)]);
        let expected = ControllerUse {
            name: "core".to_owned(),
            cpu_seconds: 5.0,
            cores_mean: 1.25,
            resident_mib_before: 50.0,
            resident_mib_max: 90.0,
            points: vec![
                UsePoint {
                    at: 2.0,
                    cores: 2.0,
                    resident_mib: 90.0,
                },
                UsePoint {
                    at: 4.0,
                    cores: 0.5,
                    resident_mib: 40.0,
                },
            ],
        };
        assert_eq!(history.summary("core"), Some(expected));
        assert_eq!(History::default().summary("core"), None);
    }

    #[test]
    fn samples_are_bounded_and_evenly_spread() {
        let mut history = History::default();
        (0..10_000).for_each(|at| history.push(sample(at, 0.0, 0.0)));
        assert!(history.samples.len() <= SAMPLES_MAX);
        let gaps: Vec<_> = history
            .samples
            .windows(2)
            .map(|pair| (pair[1].at - pair[0].at).as_secs())
            .collect();
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&16), Some(&16)));
    }
}
