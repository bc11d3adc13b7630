//! The page of the book that says where the stand-in for Cluster API differs from it.

use std::fmt::Write as _;

use nephele_e2e::fields;

/// The page within the repository.
pub(crate) const PAGE: &str = "docs/src/stand-in.md";

const BEGINNING: &str = "\
<!-- Generated from e2e/standin.yaml by `cargo xtask codegen`. -->

# The stand-in beside Cluster API

A test applies one Cluster to `nephele up` and to a management cluster with Cluster API: a topology with three control plane
machines, three MachineDeployments with labels, annotations, failure domains and an override, and health checks. When both are
available, it compares every field of every Cluster, KubeadmControlPlane, MachineDeployment, MachineSet, Machine,
MachineHealthCheck, InMemoryCluster, InMemoryMachine and Node, but for what cannot be the same twice: drawn names, times, uids,
addresses, generations. It fails when a field differs that is not listed here, and when a listed one does not differ.
(`objects_of_the_stand_in_differ_from_those_of_cluster_api_only_where_the_book_says` in `e2e/tests/lifecycle/standin.rs`)

A field stands for all below it. The stand-in makes no KubeadmConfigs and no templates. Where two zones have the same number of
control plane machines, Cluster API draws one for the next, and the stand-in takes the first by name; the cluster of the test has
three zones, so each takes one.

| Kinds | Fields | Why they differ |
|---|---|---|
";

/// The text of [`PAGE`].
pub(crate) fn render() -> anyhow::Result<String> {
    let mut text = BEGINNING.to_owned();
    for known in fields::known()? {
        let paths = known
            .fields
            .iter()
            .map(|field| format!("`{field}`"))
            .collect::<Vec<_>>()
            .join(", ");
        writeln!(
            text,
            "| {} | {paths} | {} |",
            known.kinds.join(", "),
            known.because
        )?;
    }
    Ok(text)
}
