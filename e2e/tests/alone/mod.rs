//! Effects that only show when nothing else uses the managers, because the tests kill them. The tests run one by one, on
//! the machine of the managers' processes.

mod restart;
