//! The metrics of the ports for new clusters, counted when they are read.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{
    IntGauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use crate::{driver::Driver, leaks::leaked_ports, ports::Ports};

/// Reads the numbers of ports.
pub(crate) struct PortMetrics {
    driver: Arc<Driver>,
    ports: Arc<Mutex<Ports>>,
    all: IntGauge,
    free: IntGauge,
}

impl PortMetrics {
    pub(crate) fn new(driver: Arc<Driver>, ports: Arc<Mutex<Ports>>) -> Result<Self, prometheus::Error> {
        let all = IntGauge::new(
            "nephele_workload_ports",
            "Ports for the API servers of new clusters (`--workload-ports`).",
        )?;
        let free = IntGauge::new(
            "nephele_workload_ports_free",
            "Ports for new clusters that neither a cluster nor a leaked load balancer has.",
        )?;
        Ok(Self {
            driver,
            ports,
            all,
            free,
        })
    }
}

impl Collector for PortMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.all.desc(), self.free.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let leaked = self.driver.look(leaked_ports);
        let counts = self.ports.lock().count(leaked.into_keys());
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.all.set(gauge(counts.all));
        self.free.set(gauge(counts.free));
        [self.all.collect(), self.free.collect()].concat()
    }
}
