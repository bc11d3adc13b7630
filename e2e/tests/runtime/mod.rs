//! Nephele's runtime extension, registered with unmodified Cluster API. Each test has its own management cluster.

mod class;
mod in_place;
mod lifecycle;
mod machine_hooks;
mod older;
mod script;
mod topology;
mod upgrade;
