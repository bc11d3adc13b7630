//! Why the page does not do what a form says. Pure.

/// What a viewer wants is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ActError {
    /// There is no such effect, or no such change of a clock.
    #[error("the page does not offer this here")]
    NotOffered,
    /// The time of the Fault.
    #[error("a Fault lasts for a time such as 60s or 5m, or without one until it is deleted")]
    Time,
    /// The number of hits.
    #[error("the number of hits is a whole number from 1, or nothing for any number")]
    Count,
    /// A Fault of addresses, and a cluster.
    #[error(
        "a Fault of addresses hits claims on pools, whichever cluster they are for; leave the cluster empty, and name pools"
    )]
    ClusterOfClaims,
    /// Names of clusters, and a cluster.
    #[error("choose a cluster or name some, not both")]
    ClusterTwice,
    /// Something that a scenario needs.
    #[error("the scenario cannot run there yet: something that it needs is missing")]
    Lacks,
}
