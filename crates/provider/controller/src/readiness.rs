use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

/// The readiness of the process: a set of named gates, which all have to be open.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    gates: Arc<Mutex<BTreeMap<String, Gate>>>,
}

impl Readiness {
    /// The gate of this name; a new one is closed.
    #[must_use]
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        self.gates.lock().entry(name.into()).or_default().clone()
    }

    /// The names of the gates that are still closed, in order. Empty means ready.
    #[must_use]
    pub fn waiting(&self) -> Vec<String> {
        self.states()
            .into_iter()
            .filter(|(_, open)| !open)
            .map(|(name, _)| name)
            .collect()
    }

    /// Every gate and whether it is open.
    #[must_use]
    pub fn states(&self) -> Vec<(String, bool)> {
        self.gates
            .lock()
            .iter()
            .map(|(name, gate)| (name.clone(), gate.is_open()))
            .collect()
    }
}

/// One condition of readiness.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    open: Arc<AtomicBool>,
}

impl Gate {
    /// Opens the gate.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Closes the gate.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
    }

    /// Whether the gate is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_when_every_gate_is_open() {
        let readiness = Readiness::default();
        assert_eq!(readiness.waiting(), Vec::<String>::new());
        let clusters = readiness.gate("clusters");
        let machines = readiness.gate("machines");
        clusters.open();
        assert_eq!(readiness.waiting(), ["machines"]);
        machines.open();
        assert_eq!(readiness.waiting(), Vec::<String>::new());
        clusters.close();
        assert_eq!(readiness.waiting(), ["clusters"]);
    }

    #[test]
    fn one_name_is_one_gate() {
        let readiness = Readiness::default();
        readiness.gate("clusters").open();
        assert!(readiness.gate("clusters").is_open());
    }
}
