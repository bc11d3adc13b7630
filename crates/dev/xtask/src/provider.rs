//! Our own providers on the cluster: program, image, release folder, `clusterctl init`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    cluster::{self, Cluster, Image, Kubectl, Repository},
    command::{capture, show},
    files::{hex, write},
    paths, release,
    wait::{self, LOOK_EVERY, Look},
};

/// One of our providers, as clusterctl knows it.
struct Provider {
    kind: &'static str,
    name: &'static str,
    label: &'static str,
    namespace: &'static str,
}

const PROVIDERS: [Provider; 2] = [
    Provider {
        kind: "--infrastructure",
        name: "in-memory",
        label: release::LABEL,
        namespace: "nephele-system",
    },
    Provider {
        kind: "--ipam",
        name: "in-cluster",
        label: release::IPAM_LABEL,
        namespace: "capi-ipam-in-cluster-system",
    },
];

pub(crate) const AVAILABLE_LIMIT: Duration = Duration::from_secs(120);

/// How our program is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Compiled quickly, and with assertions, for tests.
    Dev,
    /// A little optimized, as people build it from the sources.
    Release,
    /// Optimized across crates, for people and benchmarks.
    Dist,
}

/// Our program on a cluster: the given one, or one built from the checkout.
pub(crate) struct Ready {
    pub(crate) program: PathBuf,
    /// The name of its image, which is on the node.
    pub(crate) image: String,
}

/// Builds the program and its image, and loads the image into the node.
pub(crate) fn prepare(cluster: &Cluster, program: Option<&Path>, profile: Profile) -> anyhow::Result<Ready> {
    let program = program.map_or_else(|| build(profile), |program| Ok(program.to_owned()))?;
    let image = image(&program)?;
    image.load(&cluster.layout, &cluster.tools)?;
    Ok(Ready {
        program,
        image: image.name,
    })
}

/// What tests look at in the manager on the node. Other managers share the ports of this machine.
const VARIABLES: [(&str, &str); 1] = [("NEPHELE_PAGE_ADDRESS", ":8444")];

/// Installs the providers, replacing existing ones.
pub(crate) fn install(cluster: &Cluster, image: &str) -> anyhow::Result<()> {
    release::lay_out(&Repository::folder(&cluster.layout), release::VERSION, image)?;
    let program = cluster.tools.program("clusterctl");
    let clusterctl = |args: &[&str]| cluster::clusterctl_with(&cluster.layout, program, args, &VARIABLES);
    for provider in &PROVIDERS {
        if cluster::is_installed(&cluster.kubectl, provider.label) {
            clusterctl(&["delete", provider.kind, provider.name])?;
        }
    }
    let providers: Vec<_> = PROVIDERS
        .iter()
        .flat_map(|provider| [provider.kind, provider.name])
        .collect();
    clusterctl(&[&["init"], providers.as_slice()].concat())?;
    for provider in &PROVIDERS {
        cluster
            .kubectl
            .wait_for_deployments(Some(provider.namespace), AVAILABLE_LIMIT)?;
        wait_for_leader(&cluster.kubectl, provider.namespace)?;
    }
    Ok(())
}

/// Whether one of the providers is installed.
pub(crate) fn is_installed(cluster: &Cluster) -> bool {
    PROVIDERS
        .iter()
        .any(|provider| cluster::is_installed(&cluster.kubectl, provider.label))
}

/// Waits until an existing manager leads. Otherwise it might acquire the lease just before it is uninstalled with its
/// permissions, and could not release it.
fn wait_for_leader(kubectl: &Kubectl, namespace: &str) -> anyhow::Result<()> {
    wait::until("the manager to lead", AVAILABLE_LIMIT, LOOK_EVERY, || {
        let pods = kubectl.items(&["pods", "-n", namespace])?;
        let leases = kubectl.items(&["leases", "-n", namespace])?;
        let holders: Vec<_> = leases
            .iter()
            .map(|lease| &lease["spec"]["holderIdentity"])
            .collect();
        let is_there = |holder: &&Value| pods.iter().any(|pod| pod["metadata"]["name"] == **holder);
        Ok(if holders.iter().any(is_there) {
            Look::Done(())
        } else {
            Look::NotYet(format!("held by {holders:?}"))
        })
    })
}

/// The static program.
pub(crate) fn build(profile: Profile) -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // The folder of the profile `dev` is `debug`.
    let (name, output) = match profile {
        Profile::Dev => ("dev", "debug"),
        Profile::Release => ("release", "release"),
        Profile::Dist => ("dist", "dist"),
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--profile",
        name,
        "--locked",
        "--package",
        "nephele-cli",
        "--target",
        &target,
    ]);
    cargo
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(paths::repository());
    show(&mut cargo)?;
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| paths::repository().join("target"), PathBuf::from);
    Ok(paths::repository()
        .join(folder)
        .join(target)
        .join(output)
        .join("nephele"))
}

/// The image, from the recipe of the released image. Its tag is a digest of its content, so a changed program gets a
/// different image.
fn image(program: &Path) -> anyhow::Result<Image> {
    let content = fs::read(program).with_context(|| format!("failed to read {}", program.display()))?;
    let tag = hex(&Sha256::digest(&content)[..6]);
    let name = format!("localhost/nephele-e2e/nephele:{tag}");
    let folder = paths::cache()?.join("images/nephele");
    write(&folder.join("nephele"), content)?;
    set_executable(&folder.join("nephele"))?;
    let archive = paths::cache()?.join("images/nephele.tar");
    let mut buildah = Command::new("buildah");
    buildah.args([
        "build",
        "--quiet",
        "--layers=false",
        "--target",
        "prebuilt",
        "--tag",
        &name,
    ]);
    buildah
        .arg("--file")
        .arg(paths::repository().join("Dockerfile"))
        .arg(&folder);
    capture(&mut buildah)?;
    cluster::save(&name, &archive)?;
    Ok(Image { name, archive })
}

/// Fails unless the recipe can also make an image for arm64 from a program that was built elsewhere. The program is a
/// dummy file here, because it does not run.
pub(crate) fn check_image_for_arm64() -> anyhow::Result<()> {
    const NAME: &str = "localhost/nephele-e2e/nephele:arm64";
    const FORMAT: &str =
        "{{.OCIv1.OS}}/{{.OCIv1.Architecture}} {{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}";
    let folder = paths::cache()?.join("images/arm64");
    write(&folder.join("nephele"), "no program")?;
    let mut buildah = Command::new("buildah");
    buildah.args([
        "build",
        "--quiet",
        "--layers=false",
        "--platform",
        "linux/arm64",
        "--target",
        "prebuilt",
    ]);
    buildah
        .args(["--tag", NAME, "--file"])
        .arg(paths::repository().join("Dockerfile"))
        .arg(&folder);
    capture(&mut buildah)?;
    let inspect = ["inspect", "--type", "image", "--format", FORMAT, NAME];
    let said = capture(Command::new("buildah").args(inspect))?;
    capture(Command::new("buildah").args(["rmi", NAME]))?;
    ensure!(
        said.trim() == "linux/arm64 65532:65532 [/manager]",
        "the image for arm64 is {said}"
    );
    Ok(())
}

fn set_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("failed to make {} executable", path.display()))
}
