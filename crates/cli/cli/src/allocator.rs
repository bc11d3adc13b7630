//! The allocator, and a metric of the allocated memory.

use prometheus::{
    IntGauge, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tikv_jemalloc_ctl::{epoch, stats};

/// Returns memory to the system after bursts. The system's allocator would keep it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Registers `nephele_allocated_bytes`. Resident memory includes memory that the allocator keeps for later, so only
/// this metric shows a small leak.
///
/// # Errors
///
/// When the registry already has a metric of that name.
pub(crate) fn register(registry: &Registry) -> prometheus::Result<()> {
    let bytes = IntGauge::new(
        "nephele_allocated_bytes",
        "Bytes that the program has allocated and not freed",
    )?;
    registry.register(Box::new(Allocated { bytes }))
}

/// Reads the allocator's statistics when metrics are gathered.
struct Allocated {
    bytes: IntGauge,
}

impl Collector for Allocated {
    fn desc(&self) -> Vec<&Desc> {
        self.bytes.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Statistics are those of the last epoch. An allocator built without them leaves the gauge at zero.
        let allocated = epoch::advance().and_then(|_| stats::allocated::read());
        self.bytes
            .set(allocated.map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)));
        self.bytes.collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn allocated(registry: &Registry) -> f64 {
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("a registry is text");
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("nephele_allocated_bytes "));
        value.expect("it is registered").parse().expect("a number")
    }

    #[test]
    fn what_is_held_is_counted_and_what_is_freed_is_not() {
        const SIZE: usize = 64 << 20;
        let registry = Registry::new();
        register(&registry).expect("nothing is registered yet");
        let before = allocated(&registry);
        let held = vec![1_u8; SIZE];
        let during = allocated(&registry);
        drop(held);
        let after = allocated(&registry);
        // Other tests of the process allocate, too, but far less.
        let size = SIZE as f64;
        assert!(
            before > 0.0 && during - before > 0.9 * size,
            "{before} before, {during} during"
        );
        assert!(during - after > 0.9 * size, "{during} during, {after} after");
    }
}
