//! The archive of an image: the layout of the Open Container Initiative in one tar file, with one layer. containerd,
//! kind, podman and skopeo read `index.json`; Docker reads `manifest.json`.
//!
//! Nothing in it depends on the time, so the same program always makes the same image.

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::program::Program;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Where the program is in the image, as in every provider of Cluster API.
const ENTRYPOINT: &str = "/manager";
/// The user that the program runs as; the image has no files of users.
const USER: &str = "65532:65532";

/// An image and its name.
pub(crate) struct Archive {
    /// The name of the image, whose tag follows from its content.
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// A file of the layout, which is named after its content.
struct Blob {
    digest: String,
    content: Vec<u8>,
}

impl Blob {
    fn new(content: Vec<u8>) -> Self {
        let digest = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { digest, content }
    }

    fn of_json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({
            "mediaType": media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.content.len(),
        })
    }
}

/// Packs a program into an image of this repository.
pub(super) fn pack(program: &Program, repository: &str) -> anyhow::Result<Archive> {
    let layer = Blob::new(layer(program).context("failed to pack the program")?);
    let config = Blob::of_json(&json!({
        "architecture": program.architecture,
        "os": "linux",
        "config": {"User": USER, "Entrypoint": [ENTRYPOINT], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)]},
    }));
    let manifest = Blob::of_json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": [layer.descriptor(LAYER)],
    }));
    let tag = manifest.digest[..12].to_owned();
    let name = format!("{repository}:{tag}");
    let mut descriptor = manifest.descriptor(MANIFEST);
    descriptor["platform"] = json!({"architecture": program.architecture, "os": "linux"});
    descriptor["annotations"] =
        json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
    let for_docker = json!([{"Config": config.path(), "RepoTags": [name], "Layers": [layer.path()]}]);
    let texts = [
        ("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string()),
        ("index.json", index.to_string()),
        ("manifest.json", for_docker.to_string()),
    ];
    let texts = texts
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes()));
    let blobs = [&config, &manifest, &layer].map(|blob| (blob.path(), blob.content.as_slice()));
    let content = tar(0o644, texts.chain(blobs)).context("failed to pack the image")?;
    Ok(Archive { name, content })
}

/// The program and its libraries as a file system.
fn layer(program: &Program) -> std::io::Result<Vec<u8>> {
    let libraries = program.libraries.iter();
    let libraries =
        libraries.map(|(path, content)| (path.to_string_lossy().into_owned(), content.as_slice()));
    tar(
        0o755,
        std::iter::once((ENTRYPOINT.to_owned(), program.content.as_slice())).chain(libraries),
    )
}

/// A tar file of files of the user root, with the same permissions.
fn tar<'a>(mode: u32, files: impl Iterator<Item = (String, &'a [u8])>) -> std::io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        tar.append_data(&mut header, path.trim_start_matches('/'), content)?;
    }
    tar.into_inner()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read as _, path::PathBuf};

    use super::*;

    fn program() -> Program {
        Program {
            architecture: "amd64",
            content: b"program".to_vec(),
            libraries: vec![(PathBuf::from("/lib64/ld.so"), b"loader".to_vec())],
        }
    }

    fn files(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().expect("a tar file");
        let read = |mut entry: tar::Entry<'_, &[u8]>| {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("a whole entry");
            (
                entry.path().expect("a path").to_string_lossy().into_owned(),
                content,
            )
        };
        entries.map(|entry| read(entry.expect("an entry"))).collect()
    }

    #[test]
    fn the_index_leads_to_the_layer_through_digests_that_are_right() {
        let archive = pack(&program(), "localhost/nephele").expect("packed");
        let files = files(&archive.content);
        let parse = |content: &[u8]| serde_json::from_slice::<Value>(content).expect("JSON");
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            let content = &files[&digest.replace("sha256:", "blobs/sha256/")];
            let actual: String = Sha256::digest(content)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(digest, format!("sha256:{actual}"));
            assert_eq!(descriptor["size"], content.len());
            content.clone()
        };
        let index = parse(&files["index.json"]);
        let manifest = &index["manifests"][0];
        assert_eq!(manifest["annotations"]["io.containerd.image.name"], archive.name);
        let manifest = parse(&blob(manifest));
        let config = parse(&blob(&manifest["config"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let expected = [("lib64/ld.so", "loader"), ("manager", "program")];
        let expected = expected.map(|(path, content)| (path.to_owned(), content.as_bytes().to_vec()));
        assert_eq!(
            super::tests::files(&blob(&manifest["layers"][0])),
            expected.into()
        );
    }

    #[test]
    fn the_same_program_is_the_same_image_and_another_program_has_another_name() {
        let [one, same] = [program(), program()].map(|program| pack(&program, "a").expect("packed"));
        assert!(one.content == same.content && one.name == same.name);
        let other = Program {
            content: b"other".to_vec(),
            ..program()
        };
        assert_ne!(pack(&other, "a").expect("packed").name, one.name);
    }
}
