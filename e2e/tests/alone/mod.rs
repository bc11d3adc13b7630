//! Effects that only show when nothing else uses the managers: what a restart, and many clusters that were created
//! and deleted, leave behind. The tests run one by one, on the machine of the managers' processes.

mod deletion;
mod ipam;
mod restart;
