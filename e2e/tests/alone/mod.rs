//! Effects that only show when nothing else uses the managers: of a restart, and of many clusters that were created and
//! deleted. The tests run one by one, on the machine of the managers' processes.

mod deletion;
mod ipam;
mod restart;
