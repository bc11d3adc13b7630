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
    /// To this repository of a registry, by the first of [`PUSHERS`] that is installed: they know the credentials for
    /// registries and how to get them.
    Registry { repository: String },
}

/// Programs that push an archive to a registry.
const PUSHERS: [Pusher; 2] = [Pusher::Skopeo, Pusher::Crane];

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, value) = text
            .split_once(':')
            .map_or((text, None), |(kind, value)| (kind, Some(value)));
        match (kind, value) {
            ("kind", cluster) => Ok(Self::Kind {
                cluster: cluster.unwrap_or("kind").to_owned(),
            }),
            ("containerd", socket) => Ok(Self::Containerd {
                socket: socket.map(PathBuf::from),
            }),
            ("registry", Some(repository)) if repository.contains('/') => Ok(Self::Registry {
                repository: repository.to_owned(),
            }),
            _ => Err("expected kind[:CLUSTER], containerd[:SOCKET] or registry:HOST/REPOSITORY".to_owned()),
        }
    }
}

impl Destination {
    /// The destination for a context of a kubeconfig, if its name says that it is one of kind.
    pub(super) fn of_context(context: &str) -> Option<Self> {
        let cluster = context.strip_prefix(KIND_CONTEXT)?;
        Some(Self::Kind {
            cluster: cluster.to_owned(),
        })
    }

    /// Gives the nodes the image, or lets them pull it. Returns the name by which they have it.
    pub(super) fn deliver(&self, image: &Archive) -> anyhow::Result<Delivered> {
        let loaded = Delivered {
            name: image.name.clone(),
            is_on_nodes: true,
        };
        match self {
            Self::Kind { cluster } => {
                // kind reads the archive once per node, so it needs a file.
                let archive = InFile::write(image)?;
                run(&mut kind(cluster, &archive.file), &[])?;
                Ok(loaded)
            }
            Self::Containerd { socket } => {
                run(&mut containerd(socket.as_deref()), &image.content)?;
                Ok(loaded)
            }
            Self::Registry { repository } => {
                let (_, tag) = image.name.rsplit_once(':').context("the image has no tag")?;
                let name = format!("{repository}:{tag}");
                let archive = InFile::write(image)?;
                push(&PUSHERS, &archive.file, &name)?;
                Ok(Delivered {
                    name,
                    is_on_nodes: false,
                })
            }
        }
    }
}

/// An image that was delivered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) name: String,
    /// Whether the nodes have the image already, so that none of them must pull it.
    pub(super) is_on_nodes: bool,
}

/// An archive in a file, which is deleted when this is dropped.
struct InFile {
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl InFile {
    fn write(image: &Archive) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("failed to make a folder for the image")?;
        let file = folder.path().join("nephele.tar");
        std::fs::write(&file, &image.content)
            .with_context(|| format!("failed to write {}", file.display()))?;
        Ok(Self {
            file,
            _folder: folder,
        })
    }
}

/// A program that pushes an archive to a registry.
#[derive(Clone, Copy)]
enum Pusher {
    Skopeo,
    Crane,
}

impl Pusher {
    fn command(self, file: &Path, name: &str) -> Command {
        match self {
            Self::Skopeo => {
                let mut skopeo = Command::new("skopeo");
                skopeo.args(["copy", "--quiet"]);
                // A registry of this machine rarely has a certificate; crane and Docker know that.
                if ["localhost", "127.0.0.1"].contains(&host(name)) {
                    skopeo.arg("--dest-tls-verify=false");
                }
                skopeo
                    .arg(format!("oci-archive:{}", file.display()))
                    .arg(format!("docker://{name}"));
                skopeo
            }
            Self::Crane => {
                let mut crane = Command::new("crane");
                crane.arg("push").arg(file).arg(name);
                crane
            }
        }
    }
}

/// The host of a registry in the name of an image, without the port.
fn host(image: &str) -> &str {
    let registry = image.split('/').next().unwrap_or_default();
    registry.split(':').next().unwrap_or_default()
}

/// Pushes with the first program that is installed.
fn push(pushers: &[Pusher], file: &Path, name: &str) -> anyhow::Result<()> {
    for pusher in pushers {
        match run(&mut pusher.command(file, name), &[]) {
            Err(error) if error.is::<NotInstalled>() => {}
            pushed => return pushed,
        }
    }
    bail!(
        "neither skopeo nor crane is installed, which push images: install one, or make an archive with `nephele \
         image`, push it and name it with --image"
    )
}

fn kind(cluster: &str, file: &Path) -> Command {
    let mut kind = Command::new("kind");
    kind.args(["load", "image-archive"])
        .arg(file)
        .args(["--name", cluster]);
    kind
}

fn containerd(socket: Option<&Path>) -> Command {
    let mut ctr = Command::new("ctr");
    if let Some(socket) = socket {
        ctr.arg("--address").arg(socket);
    }
    ctr.args([
        "--namespace",
        CONTAINERD_NAMESPACE,
        "images",
        "import",
        "--local",
        "-",
    ]);
    ctr
}

/// A program is not installed.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not installed: install it, or push the image to a registry and name it with --image")]
struct NotInstalled(String);

/// Runs a program with this input, and fails with what it says.
fn run(command: &mut Command, input: &[u8]) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(NotInstalled(program)),
        spawned => spawned.with_context(|| format!("failed to start {program}"))?,
    };
    // A program that fails early does not read all of its input; its own message says why.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let output = child
        .wait_with_output()
        .with_context(|| format!("failed to run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}", said.trim());
    written.with_context(|| format!("failed to send the image to {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_and_a_context_of_kind_names_its_cluster() {
        let kind = |cluster: &str| Destination::Kind {
            cluster: cluster.to_owned(),
        };
        assert_eq!("kind".parse(), Ok(kind("kind")));
        assert_eq!("kind:lab".parse(), Ok(kind("lab")));
        assert_eq!("containerd".parse(), Ok(Destination::Containerd { socket: None }));
        let socket = Some(PathBuf::from("/run/c.sock"));
        assert_eq!(
            "containerd:/run/c.sock".parse(),
            Ok(Destination::Containerd { socket })
        );
        let repository = "registry.example:5000/lab/nephele".to_owned();
        assert_eq!(
            format!("registry:{repository}").parse(),
            Ok(Destination::Registry { repository })
        );
        for wrong in ["docker", "registry", "registry:", "registry:nephele"] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong}");
        }
        assert_eq!(Destination::of_context("kind-lab"), Some(kind("lab")));
        assert_eq!(Destination::of_context("prod"), None);
    }

    #[test]
    fn only_a_registry_of_this_machine_may_have_no_certificate() {
        let words = |pusher: Pusher, name: &str| {
            let command = pusher.command(Path::new("/a.tar"), name);
            command
                .get_args()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            words(Pusher::Skopeo, "registry.example/nephele:1"),
            "copy --quiet oci-archive:/a.tar docker://registry.example/nephele:1"
        );
        assert_eq!(
            words(Pusher::Skopeo, "localhost:5000/nephele:1"),
            "copy --quiet --dest-tls-verify=false oci-archive:/a.tar docker://localhost:5000/nephele:1"
        );
        assert_eq!(
            words(Pusher::Crane, "localhost:5000/nephele:1"),
            "push /a.tar localhost:5000/nephele:1"
        );
    }

    #[test]
    fn without_a_program_that_pushes_the_error_names_them() {
        let error = push(&[], Path::new("/a.tar"), "registry.example/nephele:1").expect_err("none is there");
        assert!(
            error
                .to_string()
                .starts_with("neither skopeo nor crane is installed"),
            "{error}"
        );
    }

    #[test]
    fn what_a_program_says_is_in_the_error() {
        let mut command = Command::new("sh");
        let error = run(command.args(["-c", "echo no room >&2; exit 1"]), b"image").expect_err("it failed");
        assert_eq!(error.to_string(), "sh failed: no room");
    }
}
