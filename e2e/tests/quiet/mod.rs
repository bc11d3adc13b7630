//! Clusters that nobody changes for minutes, each test on a management cluster of its own.

mod class;
