//! A `nephele up` with some clusters.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, ensure};
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

/// A cluster with three control plane machines, four workers of which some are in each zone, and a pool.
pub(crate) const CLUSTERS: &str = include_str!("clusters.yaml");

/// The process. It ends when this is dropped, because its standard input closes.
pub(crate) struct Up {
    child: Child,
    /// The address of the page, with its key.
    pub(crate) page: String,
    pub(crate) client: Client,
    _file: tempfile::NamedTempFile,
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Up {
    /// Starts it, and waits until the clusters of the YAML are available.
    pub(crate) async fn start(yaml: &str) -> anyhow::Result<Self> {
        let program = std::env::var_os("NEPHELE_PROGRAM").context("NEPHELE_PROGRAM names the program")?;
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(yaml.as_bytes())?;
        let mut child = Command::new(program)
            .args(["up", "--json", "--time-limit", "120s", "-f"])
            .arg(file.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start nephele up")?;
        let stdout = child.stdout.take().context("piped")?;
        let report = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let line = report.await??;
        let report: Value = serde_json::from_str(&line).with_context(|| format!("no report: {line:?}"))?;
        let text = |pointer: &str| {
            let found = report.pointer(pointer).and_then(Value::as_str);
            found
                .map(str::to_owned)
                .with_context(|| format!("no {pointer} in {report}"))
        };
        // An error means that there is a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(text("/management/kubeconfig")?)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Self {
            child,
            page: text("/page")?,
            client: Client::try_from(config)?,
            _file: file,
        })
    }

    /// The address of the page without its key: `http://127.0.0.1:PORT`.
    pub(crate) fn origin(&self) -> &str {
        self.page.split("/?").next().unwrap_or_default()
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Fault" | "Scenario" | "SimulatedCloud" => ("cloud.nephele.dev", "v1alpha1"),
            "InClusterIPPool" => ("ipam.cluster.x-k8s.io", "v1alpha2"),
            "IPAddressClaim" => ("ipam.cluster.x-k8s.io", "v1beta2"),
            "InMemoryMachine" | "InMemoryCluster" => ("infrastructure.cluster.x-k8s.io", "v1beta2"),
            _ => ("cluster.x-k8s.io", "v1beta2"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    /// Creates an object in the namespace `default`.
    pub(crate) async fn create(&self, kind: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        let api = self.api(kind);
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object)?;
        let created = api.create(&PostParams::default(), &object).await;
        created
            .map(drop)
            .with_context(|| format!("failed to create {kind} {name}"))
    }

    /// Creates a pool `workers` of which three addresses are used and one is excluded, and a pool `small` with one address and
    /// two claims.
    pub(crate) async fn pools(&self) -> anyhow::Result<()> {
        let small = json!({"addresses": ["10.0.1.10"], "prefix": 24});
        let large = json!({
            "addresses": ["10.0.0.0/26"], "prefix": 26, "gateway": "10.0.0.1", "excludedAddresses": ["10.0.0.40"],
        });
        for (name, spec) in [("small", small), ("workers", large)] {
            self.create("InClusterIPPool", name, spec).await?;
        }
        for name in ["a", "b", "c"] {
            self.claim(name, "workers").await?;
        }
        self.claim("first", "small").await?;
        self.claim("second", "small").await
    }

    /// Claims an address of a pool.
    pub(crate) async fn claim(&self, name: &str, pool: &str) -> anyhow::Result<()> {
        let reference = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool});
        self.create("IPAddressClaim", name, json!({"poolRef": reference}))
            .await
    }

    /// Lets the workers of a deployment fall silent, by a Fault `silent`.
    pub(crate) async fn silence(&self, deployment: &str, budget: Value) -> anyhow::Result<()> {
        let labels = json!({"topology.cluster.x-k8s.io/deployment-name": deployment});
        let fault = json!({
            "match": {"machineSelector": {"matchLabels": labels}}, "effect": {"notReady": {}}, "budget": budget,
        });
        self.create("Fault", "silent", fault).await
    }

    /// Changes an object by a merge patch. Returns its new resource version.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> anyhow::Result<String> {
        let patched = self
            .api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        let patched = patched.with_context(|| format!("failed to patch {kind} {name}"))?;
        patched.metadata.resource_version.context("it has a version")
    }

    /// Changes the status of an object by a merge patch.
    pub(crate) async fn report(&self, kind: &str, name: &str, status: Value) -> anyhow::Result<()> {
        let api = self.api(kind);
        let patch = Patch::Merge(json!({"status": status}));
        let patched = api.patch_status(name, &PatchParams::default(), &patch).await;
        patched
            .map(drop)
            .with_context(|| format!("failed to patch the status of {kind} {name}"))
    }

    /// Sets the number of workers of a cluster.
    pub(crate) async fn scale(&self, cluster: &str, workers: usize) -> anyhow::Result<()> {
        let deployments = json!([{"class": "default-worker", "name": "workers", "replicas": workers}]);
        let patch = json!({"spec": {"topology": {"workers": {"machineDeployments": deployments}}}});
        ensure!(workers < 100, "too many");
        self.patch("Cluster", cluster, patch).await.map(drop)
    }
}

impl Up {
    /// Waits until this many Machines run.
    pub(crate) async fn machines_running(&self, number: usize) -> anyhow::Result<()> {
        let started = std::time::Instant::now();
        loop {
            let machines = self
                .api("Machine")
                .list(&kube::api::ListParams::default())
                .await?;
            let is_running = |machine: &&DynamicObject| machine.data["status"]["phase"] == "Running";
            if machines.items.iter().filter(is_running).count() == number {
                return Ok(());
            }
            ensure!(started.elapsed().as_secs() < 60, "not {number} Machines run");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
