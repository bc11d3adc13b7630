//! The folder of what was pulled before.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use super::{digest::Digest, error::PullError, image::Image};

/// Files that were pulled. Each is whole: it is written to a draft beside it, which then gets its name.
///
/// ```text
///  managers/DIGEST/manager                         a program, by the manifest of its image
///  references/ARCHITECTURE/REGISTRY/NAME:TAG       the digest that an image had when it was pulled
///  components/VERSION/FILE                         a file of a release
/// ```
#[derive(Clone, Debug)]
pub(super) struct Cache(PathBuf);

impl Cache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The program of an image, if it was pulled.
    pub(super) fn program(&self, manifest: &Digest) -> Option<PathBuf> {
        Some(self.place_of(manifest)).filter(|path| path.is_file())
    }

    /// The program that an image had when its registry was last reached.
    pub(super) fn last(&self, image: &Image, architecture: &str) -> Option<PathBuf> {
        let text = fs::read_to_string(self.reference(image, architecture)).ok()?;
        self.program(&Digest::read(text.trim())?)
    }

    /// Remembers which program an image has.
    pub(super) fn remember(
        &self,
        image: &Image,
        architecture: &str,
        manifest: &Digest,
    ) -> Result<(), PullError> {
        write(
            &self.reference(image, architecture),
            format!("{manifest}\n").as_bytes(),
        )
    }

    /// A file for a program, until it is kept.
    pub(super) fn draft(&self, manifest: &Digest) -> Result<NamedTempFile, PullError> {
        draft(&self.place_of(manifest))
    }

    /// Keeps a program.
    pub(super) fn keep(&self, manifest: &Digest, program: NamedTempFile) -> Result<PathBuf, PullError> {
        let path = self.place_of(manifest);
        fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).map_err(keeping(&path))?;
        persist(program, &path)?;
        Ok(path)
    }

    /// A file without a name, for what is thrown away.
    pub(super) fn scratch(&self) -> Result<fs::File, PullError> {
        fs::create_dir_all(&self.0).map_err(keeping(&self.0))?;
        tempfile::tempfile_in(&self.0).map_err(keeping(&self.0))
    }

    /// Where a file of a release is, or will be.
    pub(super) fn component(&self, version: &str, file: &str) -> PathBuf {
        self.0.join("components").join(version).join(file)
    }

    fn place_of(&self, manifest: &Digest) -> PathBuf {
        self.0.join("managers").join(manifest.hex()).join("manager")
    }

    fn reference(&self, image: &Image, architecture: &str) -> PathBuf {
        self.0
            .join("references")
            .join(architecture)
            .join(image.to_string())
    }
}

/// Writes a small file of the cache.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), PullError> {
    let mut file = draft(path)?;
    file.write_all(content).map_err(keeping(path))?;
    persist(file, path)
}

fn draft(path: &Path) -> Result<NamedTempFile, PullError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(keeping(folder))?;
    NamedTempFile::new_in(folder).map_err(keeping(folder))
}

fn persist(draft: NamedTempFile, path: &Path) -> Result<(), PullError> {
    draft
        .persist(path)
        .map(drop)
        .map_err(|error| keeping(path)(error.error))
}

fn keeping(path: &Path) -> impl Fn(io::Error) -> PullError + use<> {
    let path = path.to_owned();
    move |source| PullError::Keep {
        path: path.clone(),
        source,
    }
}
