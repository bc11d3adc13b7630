//! Managers that are replaced, killed or suspended while they lead, each test on a management cluster of its own.

mod ipam;
