//! How nodes get the image.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
};

use anyhow::{Context as _, bail, ensure};

use crate::image::Archive;

/// kind gives its contexts this prefix before the name of the cluster.
const KIND_CONTEXT: &str = "kind-";
/// containerd's namespace of the kubelet's images.
const CONTAINERD_NAMESPACE: &str = "k8s.io";

/// Where the image goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To all nodes of a kind cluster, by `kind load image-archive`.
    Kind { cluster: String },
    /// To the containerd of this machine, by `ctr images import`; the socket if it is not the default one.
    Containerd { socket: Option<PathBuf> },
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, value) = text.split_once(':').map_or((text, None), |(kind, value)| (kind, Some(value)));
        match (kind, value) {
            ("kind", cluster) => Ok(Self::Kind { cluster: cluster.unwrap_or("kind").to_owned() }),
            ("containerd", socket) => Ok(Self::Containerd { socket: socket.map(PathBuf::from) }),
            _ => Err("expected kind, kind:CLUSTER, containerd or containerd:SOCKET".to_owned()),
        }
    }
}

impl Destination {
    /// The destination for a context of a kubeconfig, if its name says that it is one of kind.
    pub(super) fn of_context(context: &str) -> Option<Self> {
        let cluster = context.strip_prefix(KIND_CONTEXT)?;
        Some(Self::Kind { cluster: cluster.to_owned() })
    }

    /// Gives the nodes the image.
    pub(super) fn deliver(&self, image: &Archive) -> anyhow::Result<()> {
        match self {
            Self::Kind { cluster } => {
                // kind reads the archive once per node, so it needs a file.
                let folder = tempfile::tempdir().context("failed to make a folder for the image")?;
                let file = folder.path().join("nephele.tar");
                std::fs::write(&file, &image.content)
                    .with_context(|| format!("failed to write {}", file.display()))?;
                run(&mut kind(cluster, &file), &[])
            }
            Self::Containerd { socket } => run(&mut containerd(socket.as_deref()), &image.content),
        }
    }
}

fn kind(cluster: &str, file: &Path) -> Command {
    let mut kind = Command::new("kind");
    kind.args(["load", "image-archive"]).arg(file).args(["--name", cluster]);
    kind
}

fn containerd(socket: Option<&Path>) -> Command {
    let mut ctr = Command::new("ctr");
    if let Some(socket) = socket {
        ctr.arg("--address").arg(socket);
    }
    ctr.args(["--namespace", CONTAINERD_NAMESPACE, "images", "import", "--local", "-"]);
    ctr
}

/// Runs a program with this input, and fails with what it says.
fn run(command: &mut Command, input: &[u8]) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "{program} is not installed: install it, or push the image to a registry and name it with --image"
        ),
        spawned => spawned.with_context(|| format!("failed to start {program}"))?,
    };
    // A program that fails early does not read all of its input; its own message says why.
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let output = child.wait_with_output().with_context(|| format!("failed to run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}", said.trim());
    written.with_context(|| format!("failed to send the image to {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_and_a_context_of_kind_names_its_cluster() {
        let kind = |cluster: &str| Destination::Kind { cluster: cluster.to_owned() };
        assert_eq!("kind".parse(), Ok(kind("kind")));
        assert_eq!("kind:lab".parse(), Ok(kind("lab")));
        assert_eq!("containerd".parse(), Ok(Destination::Containerd { socket: None }));
        let socket = Some(PathBuf::from("/run/c.sock"));
        assert_eq!("containerd:/run/c.sock".parse(), Ok(Destination::Containerd { socket }));
        assert!("docker".parse::<Destination>().is_err());
        assert_eq!(Destination::of_context("kind-lab"), Some(kind("lab")));
        assert_eq!(Destination::of_context("prod"), None);
    }

    #[test]
    fn what_a_program_says_is_in_the_error() {
        let mut command = Command::new("sh");
        let error = run(command.args(["-c", "echo no room >&2; exit 1"]), b"image").expect_err("it failed");
        assert_eq!(error.to_string(), "sh failed: no room");
    }
}
