//! What a manifest says. Pure.

use serde::Deserialize;

use super::{digest::Digest, layer::Format};

/// The kinds of manifests that this client reads.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json";
/// The most layers of an image. containerd has no more, either.
const LAYERS_MAX: usize = 128;

/// What a manifest describes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Manifest {
    /// An image for many platforms, with the manifest for this one.
    Index(Digest),
    /// An image for one platform, with its uppermost layer first.
    Image(Vec<Layer>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) format: Format,
}

#[derive(Deserialize)]
struct Document {
    manifests: Option<Vec<Descriptor>>,
    layers: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

/// Reads an index or a manifest, of OCI or of Docker, for Linux on a processor. An error says what is wrong with it.
pub(super) fn read(text: &[u8], architecture: &str) -> Result<Manifest, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match (document.manifests, document.layers) {
        (Some(manifests), None) => {
            let is_here =
                |platform: &Platform| platform.os == "linux" && platform.architecture == architecture;
            let found = manifests
                .iter()
                .find(|manifest| manifest.platform.as_ref().is_some_and(is_here))
                .ok_or_else(|| format!("it has no image for linux/{architecture}"))?;
            digest(found).map(Manifest::Index)
        }
        (None, Some(layers)) if layers.len() <= LAYERS_MAX => {
            let layers: Result<_, _> = layers.iter().rev().map(Layer::of).collect();
            layers.map(Manifest::Image)
        }
        (None, Some(layers)) => Err(format!("it has {} layers, more than {LAYERS_MAX}", layers.len())),
        // One that could be read as either is a trick.
        _ => Err("it is neither an index nor the manifest of an image".to_owned()),
    }
}

impl Layer {
    fn of(descriptor: &Descriptor) -> Result<Self, String> {
        let format = Format::of(&descriptor.media_type);
        Ok(Self {
            digest: digest(descriptor)?,
            size: descriptor.size,
            format: format.ok_or_else(|| format!("a layer is of the kind {}", descriptor.media_type))?,
        })
    }
}

fn digest(descriptor: &Descriptor) -> Result<Digest, String> {
    Digest::read(&descriptor.digest).ok_or_else(|| format!("{:?} is no digest by SHA-256", descriptor.digest))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn described(content: &str, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": Digest::of(content.as_bytes()).to_string(), "size": content.len()})
    }

    fn for_platform(content: &str, os: &str, architecture: &str) -> Value {
        let mut described = described(content, "application/vnd.oci.image.manifest.v1+json");
        described["platform"] = json!({"os": os, "architecture": architecture});
        described
    }

    fn read(document: &Value) -> Result<Manifest, String> {
        super::read(document.to_string().as_bytes(), "arm64")
    }

    #[test]
    fn an_index_leads_to_the_manifest_of_this_platform() {
        let index = json!({"manifests": [
            described("attestation", "application/vnd.oci.image.manifest.v1+json"),
            for_platform("a", "linux", "amd64"),
            for_platform("b", "windows", "arm64"),
            for_platform("c", "linux", "arm64"),
        ]});
        assert_eq!(read(&index), Ok(Manifest::Index(Digest::of(b"c"))));
        let other = json!({"manifests": [for_platform("a", "linux", "amd64")]});
        assert_eq!(read(&other), Err("it has no image for linux/arm64".to_owned()));
    }

    #[test]
    fn the_uppermost_layer_comes_first() {
        let layers = [
            described("a", "application/vnd.docker.image.rootfs.diff.tar.gzip"),
            described("bc", "application/vnd.oci.image.layer.v1.tar"),
        ];
        let layer = |content: &str, format| Layer {
            digest: Digest::of(content.as_bytes()),
            size: content.len() as u64,
            format,
        };
        let expected = vec![layer("bc", Format::Tar), layer("a", Format::Gzip)];
        assert_eq!(read(&json!({"layers": layers})), Ok(Manifest::Image(expected)));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let zstd = "application/vnd.oci.image.layer.v1.tar+zstd";
        let tar = described("a", "application/vnd.oci.image.layer.v1.tar");
        let neither = "it is neither an index nor the manifest of an image";
        let mut sha512 = tar.clone();
        sha512["digest"] = json!("sha512:a");
        for (document, expected) in [
            (
                json!({"layers": [described("a", zstd)]}),
                format!("a layer is of the kind {zstd}"),
            ),
            (
                json!({"layers": [sha512]}),
                "\"sha512:a\" is no digest by SHA-256".to_owned(),
            ),
            (
                json!({"layers": vec![tar; 129]}),
                "it has 129 layers, more than 128".to_owned(),
            ),
            (json!({"layers": [], "manifests": []}), neither.to_owned()),
            (json!({}), neither.to_owned()),
        ] {
            assert_eq!(read(&document), Err(expected));
        }
    }
}
