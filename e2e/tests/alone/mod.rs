//! What is only seen when nothing else goes on with the managers: what a restart, and many clusters that came and went,
//! leave behind. The tests run one by one, on the machine where the managers' processes are.

mod deletion;
mod ipam;
mod restart;
