//! etcd, kube-apiserver and, if there is one, kube-controller-manager.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use nephele_controller::Credentials;
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
use tokio::process::Command;

use crate::{
    binaries::Binaries,
    launch::{Launcher, Process},
    ports::free_addresses,
};

/// Longer than any run.
const VALID_FOR: SignedDuration = SignedDuration::from_hours(24 * 365);
/// The group that may do everything.
const ADMINISTRATORS: &str = "system:masters";
/// The addresses of Services, which nothing routes here.
const SERVICES: &str = "10.96.0.0/16";

/// A control plane that runs in a folder.
pub(crate) struct ControlPlane {
    folder: PathBuf,
    server: SocketAddr,
    authority: Authority,
    now: Timestamp,
    /// In the order in which they were started.
    pub(crate) processes: Vec<Process>,
}

impl ControlPlane {
    /// Starts the processes. None of them may be ready yet.
    pub(crate) fn start(
        binaries: &Binaries,
        folder: &Path,
        launcher: &Launcher,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let [etcd_at, server] = free_addresses()?;
        let authority = authority("nephele-up", now)?;
        let mut control_plane = Self {
            folder: folder.to_owned(),
            server,
            authority,
            now,
            processes: Vec::new(),
        };
        control_plane.write_certificates()?;
        let etcd = launcher.start("etcd", &binaries.etcd, |command| etcd(command, folder, etcd_at))?;
        control_plane.processes.push(etcd);
        let api_server = launcher.start("kube-apiserver", &binaries.api_server, |command| {
            api_server(command, folder, etcd_at, server);
        })?;
        control_plane.processes.push(api_server);
        if let Some(program) = &binaries.controller_manager {
            let kubeconfig = control_plane.kubeconfig("kube-controller-manager")?;
            let controllers = launcher.start("kube-controller-manager", program, |command| {
                controller_manager(command, folder, &kubeconfig);
            })?;
            control_plane.processes.push(controllers);
        }
        Ok(control_plane)
    }

    fn write_certificates(&self) -> anyhow::Result<()> {
        let mut server = leaf("kube-apiserver", self.now);
        server.ip_addresses = vec![self.server.ip()];
        server.dns_names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ]
        .map(str::to_owned)
        .to_vec();
        // The second one signs the tokens of service accounts.
        for request in [server, leaf("service-accounts", self.now)] {
            let issued = self.authority.issue(&request)?;
            let place = |ending: &str| self.folder.join(format!("{}.{ending}", request.common_name));
            write(&place("crt"), &issued.certificate_pem())?;
            write(&place("key"), &issued.key_pem())?;
        }
        write(&self.folder.join("ca.crt"), &self.authority.certificate_pem())
    }

    /// Writes the kubeconfig of an administrator, and returns its path. Rights that are aggregated would need a controller that
    /// envtest does not have, so managers are administrators, too.
    pub(crate) fn kubeconfig(&self, user: &str) -> anyhow::Result<PathBuf> {
        let mut request = leaf(user, self.now);
        request.organizations = vec![ADMINISTRATORS.to_owned()];
        let issued = self.authority.issue(&request)?;
        let credentials = Credentials::Certificate {
            certificate: &issued.certificate_pem(),
            key: &issued.key_pem(),
        };
        let authority = self.authority.certificate_pem();
        let server = format!("https://{}", self.server);
        let config = nephele_controller::kubeconfig("nephele", user, &server, &authority, credentials);
        let path = self.folder.join(format!("{user}.kubeconfig"));
        let text = serde_yaml_ng::to_string(&config).context("failed to write a kubeconfig")?;
        write(&path, &text)?;
        Ok(path)
    }
}

/// An authority of a run.
pub(crate) fn authority(name: &str, now: Timestamp) -> anyhow::Result<Authority> {
    let request = leaf(name, now);
    Authority::generate(
        name,
        KeyAlgorithm::EcdsaP256,
        request.not_before,
        request.not_after,
    )
    .with_context(|| format!("failed to make the authority {name}"))
}

/// A request for a certificate of a run, for servers and clients.
pub(crate) fn leaf(name: &str, now: Timestamp) -> LeafRequest {
    LeafRequest {
        common_name: name.to_owned(),
        organizations: Vec::new(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: true,
        client_auth: true,
        not_before: now - SignedDuration::from_mins(5),
        not_after: now + VALID_FOR,
        identity: name.to_owned(),
    }
}

/// Writes a file that only its owner reads, with its folder.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let attempt = || format!("failed to write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(attempt)?;
    }
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    std::io::Write::write_all(&mut file.with_context(attempt)?, text.as_bytes()).with_context(attempt)
}

fn etcd(command: &mut Command, folder: &Path, at: SocketAddr) {
    command.arg("--data-dir").arg(folder.join("etcd")).args([
        format!("--listen-client-urls=http://{at}"),
        format!("--advertise-client-urls=http://{at}"),
        format!("--listen-peer-urls=http://{}", SocketAddr::new(at.ip(), 0)),
        // The data go with the run, so they need not survive a power failure.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]);
}

fn api_server(command: &mut Command, folder: &Path, etcd: SocketAddr, at: SocketAddr) {
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    command
        .args([
            format!("--etcd-servers=http://{etcd}"),
            format!("--bind-address={}", at.ip()),
            format!("--advertise-address={}", at.ip()),
            format!("--secure-port={}", at.port()),
            format!("--service-cluster-ip-range={SERVICES}"),
        ])
        .args([
            file("tls-cert-file", "kube-apiserver.crt"),
            file("tls-private-key-file", "kube-apiserver.key"),
            file("client-ca-file", "ca.crt"),
            file("service-account-key-file", "service-accounts.crt"),
            file("service-account-signing-key-file", "service-accounts.key"),
        ])
        .args([
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            // It would wait for service accounts that no controller makes.
            "--disable-admission-plugins=ServiceAccount",
        ]);
}

fn controller_manager(command: &mut Command, folder: &Path, kubeconfig: &Path) {
    for flag in [
        "kubeconfig",
        "authentication-kubeconfig",
        "authorization-kubeconfig",
    ] {
        command.arg(format!("--{flag}={}", kubeconfig.display()));
    }
    let key = folder.join("service-accounts.key");
    command.arg(format!("--service-account-private-key-file={}", key.display()));
    command.arg(format!("--root-ca-file={}", folder.join("ca.crt").display()));
    command.args([
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--secure-port=0",
    ]);
}
