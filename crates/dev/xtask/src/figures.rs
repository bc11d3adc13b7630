//! The figures of README and book: one file, which the commands that measure write, and the tables made from it.
//!
//! ```text
//!  bench --peer, e2e --cluster-api, upstream ─▶ docs/figures.json ─▶ codegen ─▶ tables between marks in README.md and docs/src
//! ```

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    fs,
    path::Path,
};

use anyhow::{Context, bail};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::{files::write, paths};

/// The file, within the repository.
const FILE: &str = "docs/figures.json";

/// The mark before a table, which names it, and the mark after it.
pub(crate) const MARK: &str = "<!-- figures: ";
pub(crate) const END: &str = "<!-- end of figures -->";

/// The pages with tables, within the repository.
pub(crate) const PAGES: [&str; 4] = [
    "README.md",
    "docs/src/install.md",
    "docs/src/sizing.md",
    "docs/src/upstream.md",
];

/// Everything measured, each part by one run of one command.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Figures {
    /// By `cargo xtask bench --peer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peers: Option<Peers>,
    /// By `cargo xtask e2e --cluster-api`, newest first.
    #[serde(default)]
    pub(crate) releases: Vec<Release>,
    /// By `cargo xtask upstream`: by name.
    #[serde(default)]
    pub(crate) upstream: BTreeMap<String, Specification>,
}

/// One of Cluster API's own end-to-end specifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Specification {
    /// The function of Cluster API's module.
    pub(crate) function: String,
    /// How it last ended, by where it ran.
    pub(crate) ran: BTreeMap<Place, Ran>,
}

/// Where a specification runs, and with which provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Place {
    /// Ours, on a cluster with a node.
    Node,
    /// Ours, in `nephele up --cluster-api`.
    Up,
    /// Cluster API's in-memory provider, on a cluster with a node.
    Peer,
}

/// How a specification ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Ran {
    pub(crate) date: Date,
    pub(crate) seconds: u64,
    /// Why it failed; none if it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// Our providers and their peers, in one run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Peers {
    pub(crate) date: Date,
    pub(crate) cluster_api: String,
    /// Processors of the machine, which everything shares.
    pub(crate) processors: usize,
    /// The release of the peer of clusters.
    pub(crate) in_memory: String,
    /// The release of the peer of claims.
    pub(crate) in_cluster: String,
    pub(crate) clusters: [Clusters; 2],
    pub(crate) claims: [Claims; 2],
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Clusters {
    /// The number of clusters at once.
    pub(crate) number: usize,
    /// Seconds until a single cluster is available.
    pub(crate) seconds_alone: f64,
    /// Seconds until the last of all is available.
    pub(crate) seconds_together: f64,
    pub(crate) cpu_seconds_per_cluster: f64,
    pub(crate) mib_per_cluster: f64,
    /// API server and etcd: CPU seconds per cluster.
    pub(crate) servers: Vec<Program>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Claims {
    /// The number of claims on one pool.
    pub(crate) number: usize,
    pub(crate) bound_per_second: f64,
    pub(crate) released_per_second: f64,
    /// Milliseconds of the manager's CPU time for each claim that is bound.
    pub(crate) cpu_ms_per_claim: f64,
    /// API server and etcd: CPU milliseconds for each claim that is bound.
    pub(crate) servers: Vec<Program>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) cpu: f64,
    pub(crate) resident_mib: f64,
}

/// A release of Cluster API, with what a run of the tests found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Release {
    pub(crate) version: String,
    pub(crate) contract: String,
    pub(crate) result: ReleaseResult,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum ReleaseResult {
    /// The tests passed.
    Passed { tests: Vec<String>, date: Date },
    /// The release was not run, and why.
    NotRun { reason: String },
}

impl Figures {
    /// The figures of the repository.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let path = paths::repository().join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {FILE}"))?;
        serde_json::from_str(&text).with_context(|| format!("failed to read {FILE}"))
    }

    /// Replaces those of the repository.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).with_context(|| format!("failed to write {FILE}"))?;
        write(&paths::repository().join(FILE), text + "\n")
    }

    /// Replaces the result of a release.
    pub(crate) fn put(&mut self, release: Release) {
        let minor = |version: &str| {
            let mut numbers = version
                .trim_start_matches('v')
                .split('.')
                .map(|part| part.parse::<u32>().unwrap_or(0));
            (numbers.next(), numbers.next())
        };
        self.releases
            .retain(|one| minor(&one.version) != minor(&release.version));
        self.releases.push(release);
        self.releases
            .sort_by_key(|release| std::cmp::Reverse(minor(&release.version)));
    }

    /// The tables by name.
    pub(crate) fn tables(&self) -> anyhow::Result<BTreeMap<&'static str, String>> {
        let mut tables = BTreeMap::from([
            ("releases", releases(&self.releases)?),
            ("upstream", upstream(&self.upstream)?),
        ]);
        if let Some(peers) = &self.peers {
            tables.extend([
                ("clusters", peers.clusters_in_short()?),
                ("claims", peers.claims_in_short()?),
                ("measured", peers.measured()),
                ("peers", peers.whole()?),
            ]);
        }
        Ok(tables)
    }
}

impl Peers {
    fn measured(&self) -> String {
        let Self {
            date,
            cluster_api,
            processors,
            in_memory,
            in_cluster,
            ..
        } = self;
        format!(
            "Measured on {date} on {processors} processors: Cluster API {cluster_api}, in-memory provider {in_memory}, in-cluster \
             IPAM provider {in_cluster}.\n"
        )
    }

    fn clusters_in_short(&self) -> anyhow::Result<String> {
        let [ours, theirs] = &self.clusters;
        let together = format!("{} clusters are available after, s", ours.number);
        let rows = [
            (
                "memory per cluster, MiB",
                2,
                ours.mib_per_cluster,
                theirs.mib_per_cluster,
            ),
            (
                "CPU per cluster until available, s",
                2,
                ours.cpu_seconds_per_cluster,
                theirs.cpu_seconds_per_cluster,
            ),
            (
                "one cluster is available after, s",
                0,
                ours.seconds_alone,
                theirs.seconds_alone,
            ),
            (
                together.as_str(),
                0,
                ours.seconds_together,
                theirs.seconds_together,
            ),
        ];
        table("Cluster API's in-memory provider", &rows)
    }

    fn claims_in_short(&self) -> anyhow::Result<String> {
        let [ours, theirs] = &self.claims;
        let bound = format!("claims bound per second, {} in one pool", ours.number);
        let rows = [
            (bound.as_str(), 0, ours.bound_per_second, theirs.bound_per_second),
            (
                "claims released per second",
                0,
                ours.released_per_second,
                theirs.released_per_second,
            ),
            (
                "CPU for each claim bound, ms",
                1,
                ours.cpu_ms_per_claim,
                theirs.cpu_ms_per_claim,
            ),
        ];
        table("the in-cluster IPAM provider", &rows)
    }

    /// All figures, with what the servers used.
    fn whole(&self) -> anyhow::Result<String> {
        let mut text = self.measured();
        for (short, ours, theirs, unit, of_what) in [
            (
                self.clusters_in_short()?,
                &self.clusters[0].servers,
                &self.clusters[1].servers,
                "s",
                "cluster",
            ),
            (
                self.claims_in_short()?,
                &self.claims[0].servers,
                &self.claims[1].servers,
                "ms",
                "claim bound",
            ),
        ] {
            write!(text, "\n{short}")?;
            for (ours, theirs) in ours.iter().zip(theirs) {
                let name = &ours.name;
                writeln!(
                    text,
                    "| CPU of {name} for each {of_what}, {unit} | {:.2} | {:.2} |",
                    ours.cpu, theirs.cpu
                )?;
                let [ours, theirs] = [ours, theirs].map(|program| program.resident_mib);
                writeln!(
                    text,
                    "| memory of {name} afterwards, MiB | {ours:.0} | {theirs:.0} |"
                )?;
            }
        }
        Ok(text)
    }
}

/// A table of rows: what, digits, our figure, the peer's.
fn table(peer: &str, rows: &[(&str, usize, f64, f64)]) -> anyhow::Result<String> {
    let mut text = format!("| | Nephele | {peer} |\n|---|---:|---:|\n");
    for (what, digits, ours, theirs) in rows {
        writeln!(text, "| {what} | {ours:.digits$} | {theirs:.digits$} |")?;
    }
    Ok(text)
}

fn releases(releases: &[Release]) -> anyhow::Result<String> {
    let mut text = "| Cluster API | Contract | Result |\n|---|---|---|\n".to_owned();
    for Release {
        version,
        contract,
        result,
    } in releases
    {
        let result = match result {
            ReleaseResult::Passed { tests, date } => format!("passed on {date}: {}", tests.join(", ")),
            ReleaseResult::NotRun { reason } => format!("not run: {reason}"),
        };
        writeln!(text, "| {version} | {contract} | {result} |")?;
    }
    Ok(text)
}

fn upstream(specifications: &BTreeMap<String, Specification>) -> anyhow::Result<String> {
    let mut text =
        "| Specification | Function | On a node | In `up --cluster-api` | The in-memory provider |\n\
        |---|---|---|---|---|\n"
            .to_owned();
    for (name, Specification { function, ran }) in specifications {
        write!(text, "| {name} | `{function}` |")?;
        for place in [Place::Node, Place::Up, Place::Peer] {
            match ran.get(&place) {
                None => write!(text, " – |")?,
                Some(ran) => write!(text, " {ran} |")?,
            }
        }
        writeln!(text)?;
    }
    Ok(text)
}

impl fmt::Display for Ran {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            date,
            seconds,
            failure,
        } = self;
        match failure {
            None => write!(formatter, "passed in {seconds} s on {date}"),
            Some(failure) => write!(formatter, "failed after {seconds} s on {date}: {failure}"),
        }
    }
}

/// The page with its tables between their marks.
///
/// # Errors
/// When a mark has no end, or names no table.
pub(crate) fn fill(page: &str, tables: &BTreeMap<&'static str, String>) -> anyhow::Result<String> {
    let mut filled = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(MARK) {
        let (name, after) = after.split_once(" -->").context("a mark of figures has no end")?;
        let (_, after) = after
            .split_once(END)
            .with_context(|| format!("the figures {name} have no end"))?;
        let Some(table) = tables.get(name) else {
            bail!("there are no figures {name}")
        };
        write!(filled, "{before}{MARK}{name} -->\n{table}{END}")?;
        rest = after;
    }
    Ok(filled + rest)
}

/// Writes the tables of the figures into their pages.
pub(crate) fn fill_tables() -> anyhow::Result<()> {
    for (page, text) in pages()? {
        write(&paths::repository().join(page), text)?;
    }
    Ok(())
}

/// The pages with their tables: paths within the repository and their texts.
pub(crate) fn pages() -> anyhow::Result<Vec<(&'static str, String)>> {
    let tables = Figures::read()?.tables()?;
    let page = |page: &&'static str| {
        let text = fs::read_to_string(paths::repository().join(Path::new(page)));
        let text = text.with_context(|| format!("failed to read {page}"))?;
        Ok((*page, fill(&text, &tables).with_context(|| format!("in {page}"))?))
    };
    PAGES.iter().map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(version: &str) -> Release {
        let result = ReleaseResult::NotRun {
            reason: "does not build".to_owned(),
        };
        Release {
            version: version.to_owned(),
            contract: "v1beta2".to_owned(),
            result,
        }
    }

    #[test]
    fn a_table_replaces_what_is_between_its_marks() {
        let tables = BTreeMap::from([("a", "new\n".to_owned())]);
        let page = "x\n<!-- figures: a -->\nold\n<!-- end of figures -->\ny\n";
        let filled = "x\n<!-- figures: a -->\nnew\n<!-- end of figures -->\ny\n";
        assert_eq!(fill(page, &tables).expect("filled"), filled);
        assert_eq!(fill(filled, &tables).expect("filled"), filled);
        assert!(fill("<!-- figures: b --> <!-- end of figures -->", &tables).is_err());
        assert!(fill("<!-- figures: a -->", &tables).is_err());
    }

    #[test]
    fn a_release_replaces_its_earlier_result_and_the_newest_comes_first() {
        let mut figures = Figures::default();
        for version in ["v1.8.4", "v1.14.2", "v1.10.9", "v1.10.10"] {
            figures.put(release(version));
        }
        let versions: Vec<_> = figures
            .releases
            .iter()
            .map(|release| release.version.as_str())
            .collect();
        assert_eq!(versions, ["v1.14.2", "v1.10.10", "v1.8.4"]);
    }
}
