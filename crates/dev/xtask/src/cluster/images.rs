//! Images: one static program in an empty image, built with buildah, loaded into the node.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use super::{layout::Layout, tools::Tools};
use crate::{command::capture, files::write, paths};

/// The image of a pod's first container.
pub(super) const PAUSE: &str = "localhost/nephele-e2e/pause:e2e";

const CONTAINERFILE: &str = "FROM scratch
ARG PROGRAM
COPY ${PROGRAM} /manager
USER 65532:65532
ENTRYPOINT [\"/manager\"]
";

/// An image in an archive.
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) archive: PathBuf,
}

impl Image {
    /// The image of a tool, from the cache if it has it.
    pub(super) fn of_tool(tools: &Tools, program: &str) -> anyhow::Result<Self> {
        let name = name_of_tool(program);
        let archive = paths::cache()?
            .join("images")
            .join(format!("{}.tar", tools.key(program)));
        if !archive.exists() {
            let path = tools.program(program);
            let context = path.parent().expect("programs lie in folders");
            let recipe = paths::cache()?.join("images/Containerfile");
            write(&recipe, CONTAINERFILE)?;
            let mut buildah = Command::new("buildah");
            buildah.args(["build", "--quiet", "--layers=false", "--tag", &name]);
            buildah.arg("--build-arg").arg(format!("PROGRAM={program}"));
            // The folder has other programs too. Send only this one to the build.
            buildah.arg("--file").arg(&recipe).arg(context);
            capture(&mut buildah)?;
            save(&name, &archive)?;
        }
        Ok(Self { name, archive })
    }

    /// Imports the image into the node's containerd.
    pub(crate) fn load(&self, layout: &Layout, tools: &Tools) -> anyhow::Result<()> {
        let archive = self
            .archive
            .to_str()
            .context("the path of an archive is not text")?;
        ctr(
            layout,
            tools.program("ctr"),
            &["images", "import", "--local", archive],
        )
        .with_context(|| format!("failed to load image {}", self.name))
        .map(|_| ())
    }
}

/// The name of a tool's image.
pub(super) fn name_of_tool(program: &str) -> String {
    format!("localhost/nephele-e2e/{program}:e2e")
}

/// Moves an image from buildah's store to an archive.
pub(crate) fn save(name: &str, archive: &Path) -> anyhow::Result<()> {
    let unfinished = archive.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_file(&unfinished).with_context(|| format!("failed to remove {}", unfinished.display()))?;
    }
    let target = format!("docker-archive:{}:{name}", unfinished.display());
    capture(Command::new("buildah").args(["push", "--quiet", name, &target]))?;
    capture(Command::new("buildah").args(["rmi", name]))?;
    fs::rename(&unfinished, archive)
        .with_context(|| format!("failed to move {} into place", archive.display()))
}

/// How long a request to containerd may take. Imports of images are the longest.
const CTR_TIMEOUT: &str = "120s";

/// Runs containerd's client in the kubelet's namespace.
pub(super) fn ctr(layout: &Layout, program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.arg("--address").arg(layout.containerd_socket());
    command
        .args(["--namespace", "k8s.io", "--timeout", CTR_TIMEOUT])
        .args(args);
    capture(&mut command)
}
