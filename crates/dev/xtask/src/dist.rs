//! `cargo xtask dist`: everything that a release publishes, for the processor of this machine.
//!
//! ```text
//!  nephele-VERSION-linux-ARCH.tar.gz   the static program, completions, man pages, licence
//!  nephele-VERSION-image-ARCH.tar      the image, as OCI archive
//!  nephele-VERSION.tgz                 the Helm chart
//!  *-components.yaml, cluster-template*.yaml, metadata.yaml   for clusterctl
//!  nephele-VERSION-sbom.cdx.json       what the program is made of, as CycloneDX
//!  SHA256SUMS
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use sha2::{Digest as _, Sha256};

use crate::{
    cargo_tool::CYCLONEDX,
    chart::Helm,
    command::{capture, show},
    files::{self, hex, write},
    paths,
    provider::{self, Profile},
    release::{self, VERSION},
};

/// The file with the checksums.
const SUMS: &str = "SHA256SUMS";
/// The shells with completions, and the file name that each expects.
const SHELLS: [(&str, &str); 3] = [("bash", "nephele"), ("zsh", "_nephele"), ("fish", "nephele.fish")];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output folder.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Use this static program, instead of building one with the profile `dist`.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("failed to create {}", args.out.display()))?;
    let program = args
        .program
        .clone()
        .map_or_else(|| provider::build(Profile::Dist), Ok)?;
    let architecture = architecture()?;
    pack_program(&program, &args.out, architecture)?;
    let image = args
        .out
        .join(format!("nephele-{VERSION}-image-{architecture}.tar"));
    let mut make = Command::new(&program);
    capture(
        make.args(["image", "--program"])
            .arg(&program)
            .arg("--output")
            .arg(&image),
    )
    .context("failed to make the image")?;
    Helm::new()?
        .package(&args.out)
        .context("failed to pack the chart")?;
    release::flatten(&args.out)?;
    write_sbom(&args.out)?;
    let sums = sums(&args.out)?;
    print!("{sums}");
    write(&args.out.join(SUMS), sums)
}

/// The processor, by the name that images and other releases use.
fn architecture() -> anyhow::Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("there are no releases for {other}"),
    }
}

/// Packs the program with what packages install beside it.
fn pack_program(program: &Path, out: &Path, architecture: &str) -> anyhow::Result<()> {
    let name = format!("nephele-{VERSION}-linux-{architecture}");
    let folder = out.join(&name);
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)
        .with_context(|| format!("failed to create {}", completions.display()))?;
    for (shell, file) in SHELLS {
        let text = capture(Command::new(program).args(["completion", shell]))
            .with_context(|| format!("failed to write the completions of {shell}"))?;
        write(&completions.join(file), text)?;
    }
    capture(Command::new(program).arg("manual").arg(folder.join("man")))
        .context("failed to write the man pages")?;
    let licence = paths::repository().join("LICENSE");
    for (source, file) in [(program, "nephele"), (&licence, "LICENSE")] {
        fs::copy(source, folder.join(file))
            .with_context(|| format!("failed to copy {}", source.display()))?;
    }
    // The same files make the same archive, whoever packs them and when.
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--gzip",
        "--create",
        "--file",
    ]);
    show(
        tar.arg(out.join(format!("{name}.tar.gz")))
            .arg("--directory")
            .arg(out)
            .arg(&name)
            .env("GZIP", "-n"),
    )?;
    fs::remove_dir_all(&folder).with_context(|| format!("failed to remove {}", folder.display()))
}

/// Writes the crates that the program is made of.
fn write_sbom(out: &Path) -> anyhow::Result<()> {
    let name = format!("nephele-{VERSION}-sbom.cdx");
    let root = paths::repository();
    let file = format!("{name}.json");
    let member = root.join("crates/cli/cli");
    let mut tool = Command::new(CYCLONEDX.program()?);
    tool.args([
        "cyclonedx",
        "--format",
        "json",
        "--override-filename",
        &name,
        "--manifest-path",
    ]);
    show(tool.arg(member.join("Cargo.toml")).current_dir(root))?;
    let written = files::read(&member.join(&file)).context("failed to read the bill of materials")?;
    write(&out.join(&file), without_folder(&written, root))?;
    // The tool writes a file beside the manifest of each member of the workspace.
    let members = paths::crates()?.into_iter().map(|(_, folder)| folder);
    for made in members.chain(["e2e", "e2e/tests"].map(|member| root.join(member))) {
        let made = made.join(&file);
        if made.exists() {
            fs::remove_file(&made).with_context(|| format!("failed to remove {}", made.display()))?;
        }
    }
    Ok(())
}

/// A bill of materials in which our crates lie in the folder `/nephele`, wherever the checkout is.
fn without_folder(sbom: &str, checkout: &Path) -> String {
    sbom.replace(&format!("file://{}/", checkout.display()), "file:///nephele/")
}

/// The checksums of the files in a folder, as `sha256sum` prints them.
fn sums(folder: &Path) -> anyhow::Result<String> {
    let mut sums = String::new();
    for name in files::names(folder)?.iter().filter(|name| *name != SUMS) {
        let path = folder.join(name);
        if path.is_file() {
            let content = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
            sums += &format!("{}  {name}\n", hex(&Sha256::digest(&content)));
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_of_all_files_by_name() {
        let folder = std::env::temp_dir().join(format!("nephele-dist-test-{}", std::process::id()));
        for (name, content) in [("b", "two"), ("a", ""), ("SHA256SUMS", "old")] {
            write(&folder.join(name), content).expect("written");
        }
        let sums = sums(&folder).expect("read");
        fs::remove_dir_all(&folder).expect("ours to remove");
        let expected = "\
            e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
            3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3  b\n";
        assert_eq!(sums, expected);
    }

    #[test]
    fn a_bill_of_materials_names_no_folder_of_a_machine() {
        let sbom = "\"path+file:///home/me/nephele/crates/cli/cli#nephele-cli@0.1.0\"";
        let expected = "\"path+file:///nephele/crates/cli/cli#nephele-cli@0.1.0\"";
        assert_eq!(without_folder(sbom, Path::new("/home/me/nephele")), expected);
    }
}
