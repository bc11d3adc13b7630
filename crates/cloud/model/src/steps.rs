//! How much the engine does, in steps that are the same in every run. For tests: other builds have no counter.
//!
//! Whatever the engine looks up, it finds by the name of a resource or by that of a fault. So a step is a comparison or a copy
//! of the name of a resource, a resource at which a walk looks, or a fault that is asked.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a step.
#[inline]
pub fn count_step() {
    #[cfg(debug_assertions)]
    STEPS.set(STEPS.get().wrapping_add(1));
}

/// How many steps the engine has taken in this thread. Only builds with debug assertions count them.
#[cfg(debug_assertions)]
#[must_use]
pub fn steps() -> u64 {
    STEPS.get()
}
