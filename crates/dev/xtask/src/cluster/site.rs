//! The addresses of a cluster's servers, with and without a node.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use super::{
    layout::Layout,
    network::{self, Network},
};
use crate::{files::write, paths};

/// The addresses on which the servers of a cluster listen, and at which clients reach them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    /// The API server's address for others.
    pub(super) address: String,
    /// The API server's bind address.
    pub(super) bind: String,
    /// The address of the API server and etcd for processes of this machine.
    pub(super) local: String,
    pub(super) port: u16,
    /// Whether the controllers serve metrics and health, on ports that only one cluster can use.
    pub(super) controllers_serve: bool,
}

impl Site {
    /// The site of the cluster with a node.
    pub(super) fn of_node() -> Self {
        Self {
            address: Network::NODE.to_owned(),
            bind: "0.0.0.0".to_owned(),
            local: "127.0.0.1".to_owned(),
            port: 6443,
            controllers_serve: true,
        }
    }
}

/// The number of a cluster without a node, which gives it an address and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(u8);

/// Addresses from [`Network::NODE`] up to this number are used.
const NUMBER_MAX: u8 = 9;

impl Number {
    /// The number of this cluster. Assigns one if the cluster has none.
    pub(super) fn of(layout: &Layout) -> anyhow::Result<Self> {
        if let Some(number) = Self::read(layout) {
            return Ok(number);
        }
        let taken: Vec<_> = bare()?
            .iter()
            .filter_map(|(_, layout)| Self::read(layout))
            .collect();
        for number in (2..=NUMBER_MAX)
            .map(Self)
            .filter(|number| !taken.contains(number))
        {
            if number.claim(layout)? {
                write(&layout.at("number"), number.0.to_string())?;
                return Ok(number);
            }
        }
        bail!(
            "no more than {} clusters without a node can be up",
            NUMBER_MAX - 1
        )
    }

    /// Claims the number for a cluster. Returns `false` when another cluster that starts at the same time has it.
    fn claim(self, layout: &Layout) -> anyhow::Result<bool> {
        let claim = self.claim_file()?;
        let attempt = || format!("failed to write {}", claim.display());
        let owner = fs::read_to_string(&claim).unwrap_or_default();
        if !owner.is_empty() && !Path::new(&owner).exists() {
            // The state of that cluster was removed by hand.
            fs::remove_file(&claim).with_context(attempt)?;
        }
        fs::create_dir_all(claim.parent().expect("a file lies in a folder")).with_context(attempt)?;
        match OpenOptions::new().write(true).create_new(true).open(&claim) {
            Ok(mut file) => {
                let owner = layout.at("");
                file.write_all(owner.as_os_str().as_encoded_bytes())
                    .with_context(attempt)?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error).with_context(attempt),
        }
    }

    fn claim_file(self) -> anyhow::Result<PathBuf> {
        Ok(paths::cache()?.join("numbers").join(self.0.to_string()))
    }

    /// Releases the number of this cluster and removes the link.
    pub(super) fn release(self, layout: &Layout) -> anyhow::Result<()> {
        network::remove(&self.link())?;
        // The claim last: another cluster may take the number at once.
        for file in [layout.at("number"), self.claim_file()?] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("failed to remove {}", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn first() -> Self {
        Self(2)
    }

    pub(super) fn read(layout: &Layout) -> Option<Self> {
        fs::read_to_string(layout.at("number"))
            .ok()?
            .parse()
            .ok()
            .map(Self)
    }

    pub(super) fn site(self) -> Site {
        let address = format!("10.251.0.{}", self.0);
        // The cluster with a node listens on all addresses of the machine.
        Site {
            bind: address.clone(),
            local: address.clone(),
            address,
            port: 6444,
            controllers_serve: false,
        }
    }

    /// The `index`th of a hundred ports that are reserved for this cluster's managers.
    pub(super) fn port(self, index: u16) -> u16 {
        9000 + 100 * u16::from(self.0) + index
    }

    /// The ports of its workload clusters' API servers, in the form of the flag. The ports of different management
    /// clusters differ: they are all on one address of this machine, and a cluster that moves keeps its port. The ports
    /// before them are for port-forwards from the cluster with a node.
    pub(super) fn workload_ports(self) -> String {
        let first = 21_000 + 1_000 * u16::from(self.0 - 2);
        format!("{first}-{}", first + 999)
    }

    fn link(self) -> String {
        format!("nephele{}", self.0)
    }

    /// Creates the link with the address.
    pub(super) fn link_up(self) -> anyhow::Result<()> {
        network::carry(&self.link(), &self.site().address)
    }
}

/// The clusters without a node that have any state, by name.
pub(super) fn bare() -> anyhow::Result<Vec<(String, Layout)>> {
    let cache = paths::cache()?;
    if !cache.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&cache).with_context(|| format!("failed to list {}", cache.display()))? {
        let entry = entry.with_context(|| format!("failed to list {}", cache.display()))?;
        if let Some(name) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix("cluster-"))
        {
            found.push((name.to_owned(), Layout::bare(name)?));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_have_nothing_in_common() {
        let sites: Vec<_> = (2..=NUMBER_MAX)
            .map(|number| Number(number).site().address)
            .collect();
        assert_eq!(
            (sites[0].as_str(), sites[7].as_str()),
            ("10.251.0.2", "10.251.0.9")
        );
        assert!(!sites.contains(&Network::NODE.to_owned()));
        assert!(Number(2).port(99) < Number(3).port(0));
        let ports: Vec<_> = (2..=NUMBER_MAX)
            .map(|number| Number(number).workload_ports())
            .collect();
        assert_eq!(
            (ports[0].as_str(), ports[1].as_str()),
            ("21000-21999", "22000-22999")
        );
        assert_eq!(ports[7], "28000-28999");
    }
}
