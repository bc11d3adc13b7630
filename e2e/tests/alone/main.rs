//! What is only seen when nothing else goes on: what a restart of the manager, and many clusters that came and went,
//! leave behind. The tests run one after the other, on the machine where the manager's process is.

mod deletion;
mod ipam;
mod restart;

use tokio::sync::Mutex;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::const_new(());
