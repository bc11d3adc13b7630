//! The standard metrics of a process.

#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Counter, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use rustix::time::{ClockId, clock_gettime};

const CPU_SECONDS: &str = "process_cpu_seconds_total";

/// Registers the metrics. Systems other than Linux have the CPU time alone.
///
/// # Errors
///
/// When the registry already has a metric of one of their names.
pub(crate) fn register(registry: &Registry) -> prometheus::Result<()> {
    registry.register(Box::new(ProcessMetrics::new()?))
}

struct ProcessMetrics {
    /// The library's collector counts whole seconds, so the load of a short run would look like steps.
    cpu_seconds: Counter,
    #[cfg(target_os = "linux")]
    others: ProcessCollector,
}

impl ProcessMetrics {
    fn new() -> prometheus::Result<Self> {
        let cpu_seconds = Counter::new(CPU_SECONDS, "Total user and system CPU time spent in seconds.")?;
        Ok(Self {
            cpu_seconds,
            #[cfg(target_os = "linux")]
            others: ProcessCollector::for_self(),
        })
    }

    #[cfg(target_os = "linux")]
    fn other_descriptions(&self) -> Vec<&Desc> {
        self.others
            .desc()
            .into_iter()
            .filter(|description| description.fq_name != CPU_SECONDS)
            .collect()
    }

    #[cfg(target_os = "linux")]
    fn collect_others(&self) -> Vec<MetricFamily> {
        self.others
            .collect()
            .into_iter()
            .filter(|family| family.name() != CPU_SECONDS)
            .collect()
    }

    #[cfg(not(target_os = "linux"))]
    fn other_descriptions(&self) -> Vec<&Desc> {
        Vec::new()
    }

    #[cfg(not(target_os = "linux"))]
    fn collect_others(&self) -> Vec<MetricFamily> {
        Vec::new()
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.cpu_seconds.desc(), self.other_descriptions()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9;
        // Two collections at a time may read the clock in one order and count in the other.
        self.cpu_seconds
            .inc_by((seconds - self.cpu_seconds.get()).max(0.0));
        [self.cpu_seconds.collect(), self.collect_others()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu_seconds(registry: &Registry) -> f64 {
        let families = registry.gather();
        let of_cpu: Vec<_> = families
            .iter()
            .filter(|family| family.name() == CPU_SECONDS)
            .collect();
        assert_eq!(of_cpu.len(), 1);
        of_cpu[0].get_metric()[0].get_counter().get_value()
    }

    #[test]
    fn less_than_a_second_of_cpu_time_is_counted() {
        let registry = Registry::new();
        register(&registry).expect("nothing is registered yet");
        let before = cpu_seconds(&registry);
        let mut work = std::iter::repeat_with(|| cpu_seconds(&registry));
        let after = work.find(|now| *now != before).expect("an endless iterator");
        assert!(
            before > 0.0 && after - before < 1.0,
            "{before} before, {after} after"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_other_metrics_of_a_process_are_there() {
        let registry = Registry::new();
        register(&registry).expect("nothing is registered yet");
        let mut names: Vec<_> = registry
            .gather()
            .iter()
            .map(|family| family.name().to_owned())
            .collect();
        names.sort();
        let expected = [
            "cpu_seconds_total",
            "max_fds",
            "open_fds",
            "resident_memory_bytes",
        ];
        let expected = expected
            .into_iter()
            .chain(["start_time_seconds", "threads", "virtual_memory_bytes"]);
        assert_eq!(
            names,
            expected.map(|name| format!("process_{name}")).collect::<Vec<_>>()
        );
    }
}
