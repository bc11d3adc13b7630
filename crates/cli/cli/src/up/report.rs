//! What a run tells the process that started it, or the person.

use std::{
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use nephele_cluster_api::Managed;
use serde::Serialize;

use super::{management_api::ManagementApi, workloads::Written};
use crate::embedded::Folder;

/// Everything that a client needs to know. The JSON is an interface: fields may be added.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    folder: PathBuf,
    management: Server,
    clusters: Vec<Cluster>,
    journal: PathBuf,
    log: PathBuf,
    /// The address of the page, which lets one browser in.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    /// What runs beside this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<Process>>,
}

/// A process of Cluster API.
#[derive(Debug, Serialize)]
struct Process {
    name: String,
    id: u32,
    log: PathBuf,
    /// The address of its metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
}

#[derive(Debug, Serialize)]
struct Server {
    kubeconfig: PathBuf,
    server: String,
}

#[derive(Debug, Serialize)]
struct Cluster {
    namespace: String,
    name: String,
    kubeconfig: PathBuf,
    server: String,
}

impl Report {
    pub(super) fn new<'a>(
        folder: &Folder,
        management: &ManagementApi,
        clusters: impl Iterator<Item = &'a Written>,
    ) -> Self {
        let clusters = clusters.map(|written| Cluster {
            namespace: written.key.0.clone(),
            name: written.key.1.clone(),
            kubeconfig: written.path.clone(),
            server: written.server.clone(),
        });
        Self {
            folder: folder.root().to_owned(),
            management: Server {
                kubeconfig: management.kubeconfig.clone(),
                server: management.server.clone(),
            },
            clusters: clusters.collect(),
            journal: folder.path("journal.jsonl"),
            log: folder.path("up.log"),
            page: None,
            processes: None,
        }
    }

    /// With the address of the page, if there is one.
    pub(super) fn with_page(self, page: Option<String>) -> Self {
        Self { page, ..self }
    }

    /// With the processes that run beside this one, if there are any.
    pub(super) fn with_processes(self, processes: Option<Vec<Managed>>) -> Self {
        let processes = processes.map(|processes| {
            let processes = processes.into_iter().map(|process| Process {
                name: process.name,
                id: process.id,
                log: process.log,
                metrics: process.metrics,
            });
            processes.collect()
        });
        Self { processes, ..self }
    }

    /// Prints one line of JSON, or a text for people.
    pub(super) fn print(&self, json: bool, took: Duration) -> anyhow::Result<()> {
        let text = if json {
            serde_json::to_string(self).context("failed to write the report as JSON")?
        } else {
            self.text(took)
        };
        print(&text)
    }

    fn text(&self, took: Duration) -> String {
        let kubectl = |kubeconfig: &Path, rest: &str| {
            format!("  kubectl --kubeconfig {} {rest}\n", kubeconfig.display())
        };
        let management = &self.management.kubeconfig;
        let mut text = format!(
            "Everything is up after {:.1} s. Try, in another terminal:\n",
            took.as_secs_f64()
        );
        text += &kubectl(
            management,
            "get clusters,machines,inmemorymachines --all-namespaces",
        );
        for cluster in &self.clusters {
            text += &kubectl(&cluster.kubeconfig, "get nodes -o wide");
        }
        match self.clusters.last() {
            Some(Cluster { namespace, name, .. }) => {
                text += &kubectl(
                    management,
                    &format!("delete cluster --namespace {namespace} {name}"),
                );
            }
            None => text += &kubectl(management, "apply -f cluster.yaml"),
        }
        text += &format!(
            "Kubeconfigs of clusters that come up later are written to {}.\n",
            self.folder.display()
        );
        if let Some(processes) = &self.processes {
            let names: Vec<_> = processes.iter().map(|process| process.name.as_str()).collect();
            text += &format!(
                "Beside it run {}, each with a log of its name there.\n",
                names.join(", ")
            );
        }
        text += &format!("The log is {}. Ctrl-C ends it all.", self.log.display());
        text
    }
}

/// Tells people where the page is as soon as it is there, so that they see the clusters come up. Programs read it in the report.
pub(super) fn announce(page: Option<&str>, json: bool) -> anyhow::Result<()> {
    match page {
        Some(page) if !json => print(&format!("Page  {page}")),
        _ => Ok(()),
    }
}

/// Tells people that a run ends because its clusters are available (`--once`), and where they are saved.
pub(super) fn farewell(took: Duration, saved: Option<&Path>) -> anyhow::Result<()> {
    let mut text = format!("Everything is up after {:.1} s.", took.as_secs_f64());
    if let Some(file) = saved {
        text += &format!(" The clusters are saved in {}.", file.display());
    }
    print(&text)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.context("failed to print the report: standard output has no reader")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        Report {
            folder: "/f".into(),
            management: Server {
                kubeconfig: "/f/management.kubeconfig".into(),
                server: "https://m:1".to_owned(),
            },
            clusters: vec![Cluster {
                namespace: "team".to_owned(),
                name: "a".to_owned(),
                kubeconfig: "/f/team-a.kubeconfig".into(),
                server: "https://m:2".to_owned(),
            }],
            journal: "/f/journal.jsonl".into(),
            log: "/f/up.log".into(),
            page: Some("http://127.0.0.1:3/?key=k".to_owned()),
            processes: None,
        }
    }

    #[test]
    fn json_has_the_agreed_fields() {
        let expected = json!({
            "folder": "/f",
            "management": {"kubeconfig": "/f/management.kubeconfig", "server": "https://m:1"},
            "clusters": [{
                "namespace": "team", "name": "a", "kubeconfig": "/f/team-a.kubeconfig", "server": "https://m:2",
            }],
            "journal": "/f/journal.jsonl",
            "log": "/f/up.log",
            "page": "http://127.0.0.1:3/?key=k",
        });
        assert_eq!(serde_json::to_value(report()).expect("JSON"), expected);
    }

    #[test]
    fn text_has_a_command_for_each_kubeconfig() {
        let text = report().text(Duration::from_millis(1_250));
        assert!(text.starts_with("Everything is up after 1.2 s."), "{text}");
        assert!(
            text.contains("\n  kubectl --kubeconfig /f/team-a.kubeconfig get nodes -o wide\n"),
            "{text}"
        );
        assert!(text.contains(
            "\n  kubectl --kubeconfig /f/management.kubeconfig delete cluster --namespace team a\n"
        ));
    }
}
