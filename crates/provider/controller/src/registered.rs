//! Registers metrics.

use prometheus::{Registry, core::Collector};

/// Registers the collector and returns it.
///
/// # Errors
///
/// When the registry already has a metric of the same name.
pub fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}
