//! Nephele's runtime extension registered with unmodified Cluster API, each test on a management cluster of its own.

mod class;
mod in_place;
mod lifecycle;
mod machine_hooks;
mod older;
mod script;
mod topology;
mod upgrade;
