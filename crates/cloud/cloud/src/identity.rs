//! Names and addresses of machines.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

/// The name of the Node of a control plane machine with this name. A longer name is shortened, as the names of hosts are:
/// clients of its etcd member ask TLS for `etcd-<node>`, and TLS knows only labels of at most 63 characters (RFC 1035, section
/// 2.3.4).
pub(crate) fn control_plane_node(machine: &str) -> Cow<'_, str> {
    const NODE_MAX: usize = 58;
    const DIGITS: usize = 6;
    if machine.len() <= NODE_MAX {
        return Cow::Borrowed(machine);
    }
    let digest = Sha256::digest(machine.as_bytes());
    let digits: String = digest
        .iter()
        .take(DIGITS / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let begin: String = machine.chars().take(NODE_MAX - DIGITS - 1).collect();
    Cow::Owned(format!("{}-{digits}", begin.trim_end_matches(['-', '.'])))
}

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineAddress {
    /// `InternalIP`, `Hostname`, … as in Cluster API's `MachineAddress`.
    pub kind: String,
    pub address: String,
}
