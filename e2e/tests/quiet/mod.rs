//! Clusters that are not changed for minutes, each test on a management cluster of its own.

mod class;
