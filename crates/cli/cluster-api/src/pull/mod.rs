//! Programs of managers out of their images, and files of components of a release.
//!
//! ```text
//!  Deployment ─▶ image ─▶ index ─▶ manifest ─▶ layers, the uppermost first ─▶ /manager ─▶ cache, by digest
//! ```
//!
//! Everything that arrives has its digest checked, except for files of components, whose releases have none.

mod cache;
mod client;
mod digest;
mod error;
mod image;
mod layer;
mod manifest;
mod route;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::Seek as _,
    path::PathBuf,
};

use cache::Cache;
use client::Client;
use digest::Digest;
pub use error::{FILES_TO_BRING, PullError};
use image::Image;
pub use image::{Registry, Version};
use manifest::{Layer, Manifest};
use nephele_access::Environment;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::{manager::Manager, manifests::Components};

/// Where the releases of Cluster API are.
pub const RELEASES: &str = "https://github.com/kubernetes-sigs/cluster-api/releases/download";
/// The files of components of a release that a cluster needs.
const COMPONENTS: [&str; 3] = [
    "core-components.yaml",
    "bootstrap-components.yaml",
    "control-plane-components.yaml",
];
const COMPONENTS_MAX: u64 = 64 << 20;
const MANIFEST_MAX: u64 = 4 << 20;
const LAYER_MAX: u64 = 1 << 30;
/// In which a registry says what digest a manifest has.
const DIGEST_HEADER: &str = "docker-content-digest";

/// Pulls what a version of Cluster API consists of, and keeps it.
pub struct Puller {
    version: Version,
    /// It stands for the registry that a Deployment names.
    registry: Option<Registry>,
    client: Client,
    cache: Cache,
}

impl Puller {
    /// Pulls a version, from a registry or else from those that Deployments name, and keeps it in a folder.
    #[must_use]
    pub fn new(
        version: Version,
        registry: Option<Registry>,
        folder: PathBuf,
        environment: Environment,
    ) -> Self {
        Self {
            version,
            registry,
            client: Client::new(environment),
            cache: Cache::new(folder),
        }
    }

    /// The files of components of the version, from below a URL such as [`RELEASES`].
    ///
    /// # Errors
    /// When a file was not pulled before, and cannot be pulled now.
    pub async fn components(&mut self, releases: &str) -> Result<Vec<PathBuf>, PullError> {
        let mut paths = Vec::new();
        for file in COMPONENTS {
            let path = self.cache.component(&self.version.to_string(), file);
            if !path.is_file() {
                let url = format!("{}/{}/{file}", releases.trim_end_matches('/'), self.version);
                let uri = url.parse().map_err(|_| PullError::Url(url.clone()))?;
                let uri = route::read(&url, &uri)?;
                info!(url, "Pulling components");
                let (_, text) = self.client.text(&uri, "*/*", COMPONENTS_MAX).await?;
                if !is_components(&text) {
                    return Err(PullError::Answer {
                        at: url,
                        problem: "it is not a file of components, which has a Deployment",
                    });
                }
                cache::write(&path, &text)?;
            }
            paths.push(path);
        }
        Ok(paths)
    }

    /// The programs of all providers: those that are given, and those of images.
    ///
    /// # Errors
    /// When a program was not pulled before and cannot be pulled now, or would not run on this machine.
    pub async fn programs(
        &mut self,
        components: &Components,
        mut given: BTreeMap<String, PathBuf>,
    ) -> anyhow::Result<BTreeMap<String, PathBuf>> {
        for deployment in &components.deployments {
            let manager = Manager::read(deployment)?;
            if let Entry::Vacant(missing) = given.entry(manager.label.clone()) {
                let program = self.program(&manager).await;
                missing.insert(program.map_err(|source| PullError::Provider {
                    provider: manager.label.clone(),
                    source: Box::new(source),
                })?);
            }
        }
        Ok(given)
    }

    async fn program(&mut self, manager: &Manager) -> Result<PathBuf, PullError> {
        let image = manager.image.as_ref();
        let image = image.ok_or_else(|| PullError::NoImage(manager.label.clone()))?;
        let image = Image::of(image, &self.version, self.registry.as_ref())?;
        let architecture = image::architecture(std::env::consts::OS, std::env::consts::ARCH)?;
        self.client.forget_tokens();
        let (manifest, layers) = match self.resolve(&image, architecture).await {
            Ok(resolved) => resolved,
            Err(error) if error.is_unreachable() => {
                let last = self.cache.last(&image, architecture).ok_or(error)?;
                warn!(%image, "The registry cannot be reached; the program of an earlier run is used");
                return Ok(last);
            }
            Err(error) => return Err(error),
        };
        let program = match self.cache.program(&manifest) {
            Some(program) => program,
            None => {
                info!(%image, %manifest, "Pulling a program");
                self.extract(&image, &manifest, layers).await?
            }
        };
        self.cache.remember(&image, architecture, &manifest)?;
        Ok(program)
    }

    /// The manifest of an image for this machine, by its digest, and the layers in it.
    async fn resolve(
        &mut self,
        image: &Image,
        architecture: &str,
    ) -> Result<(Digest, Vec<Layer>), PullError> {
        let strange = |problem| PullError::Manifest {
            image: image.to_string(),
            problem,
        };
        let (headers, text) = self
            .client
            .text(&image.manifest(), manifest::ACCEPTED, MANIFEST_MAX)
            .await?;
        let digest = Digest::of(&text);
        let said = headers.get(DIGEST_HEADER).and_then(|value| value.to_str().ok());
        // A registry may say it in another algorithm, or not at all.
        let said = said.and_then(Digest::read);
        check(image, &digest, said.as_ref().unwrap_or(&digest))?;
        match manifest::read(&text, architecture).map_err(strange)? {
            Manifest::Image(layers) => Ok((digest, layers)),
            Manifest::Index(expected) => {
                let uri = image.manifest_of(&expected);
                let (_, text) = self.client.text(&uri, manifest::ACCEPTED, MANIFEST_MAX).await?;
                check(image, &Digest::of(&text), &expected)?;
                match manifest::read(&text, architecture).map_err(strange)? {
                    Manifest::Image(layers) => Ok((expected, layers)),
                    Manifest::Index(_) => Err(strange("an index leads to another index".to_owned())),
                }
            }
        }
    }

    /// Pulls layers until one has the program, and keeps that.
    async fn extract(
        &mut self,
        image: &Image,
        manifest: &Digest,
        layers: Vec<Layer>,
    ) -> Result<PathBuf, PullError> {
        for layer in layers {
            let uri = image.blob(&layer.digest);
            if layer.size > LAYER_MAX {
                return Err(PullError::TooLarge {
                    at: route::shown(&uri),
                    max: LAYER_MAX,
                });
            }
            let (mut file, digest) = self.client.blob(&uri, layer.size, self.cache.scratch()?).await?;
            check(image, &digest, &layer.digest)?;
            let mut draft = self.cache.draft(manifest)?;
            let extracted = spawn_blocking(move || {
                file.rewind()?;
                let found = layer::extract(file, layer.format, draft.as_file_mut())?;
                Ok(found.then_some(draft))
            });
            let extracted = extracted.await.expect("it does not panic and is not aborted");
            let found = extracted.map_err(|source| PullError::Layer {
                digest: digest.to_string(),
                source,
            })?;
            if let Some(program) = found {
                return self.cache.keep(manifest, program);
            }
        }
        Err(PullError::NoProgram(image.to_string()))
    }
}

fn check(image: &Image, found: &Digest, expected: &Digest) -> Result<(), PullError> {
    if found == expected {
        return Ok(());
    }
    Err(PullError::Digest {
        at: image.to_string(),
        expected: expected.to_string(),
    })
}

/// Whether a text is what a release has, and not the page of a network that wants a password first.
fn is_components(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.lines().any(|line| line == "kind: Deployment")
}

#[cfg(test)]
mod tests;
