//! A layer of an image: an archive, in which the program is one file.

use std::{
    fs::File,
    io::{self, BufReader, Read},
};

use flate2::read::MultiGzDecoder;
use tar::Archive;

/// The most bytes that a layer may have once it is unpacked.
const UNPACKED_MAX: u64 = 4 << 30;

/// How a layer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Tar,
    Gzip,
}

impl Format {
    /// The format of a media type of OCI or Docker.
    pub(super) fn of(media_type: &str) -> Option<Self> {
        if media_type.ends_with(".tar+gzip") || media_type.ends_with(".tar.gzip") {
            Some(Self::Gzip)
        } else if media_type.ends_with(".tar") {
            Some(Self::Tar)
        } else {
            None
        }
    }
}

/// Copies the program out of a layer. Returns whether the layer has it. No path of the archive becomes one here.
pub(super) fn extract(layer: File, format: Format, program: &mut File) -> io::Result<bool> {
    let packed = BufReader::new(layer);
    match format {
        Format::Tar => extract_within(packed, UNPACKED_MAX, program),
        Format::Gzip => extract_within(MultiGzDecoder::new(packed), UNPACKED_MAX, program),
    }
}

fn extract_within(unpacked: impl Read, max: u64, program: &mut dyn io::Write) -> io::Result<bool> {
    let mut archive = Archive::new(unpacked.take(max));
    let found = copy(&mut archive, program);
    match archive.into_inner().limit() {
        0 => Err(io::Error::other(format!("it has more than {max} bytes unpacked"))),
        _ => found,
    }
}

fn copy(archive: &mut Archive<impl Read>, program: &mut dyn io::Write) -> io::Result<bool> {
    // Raw: names that are too long for a header would be read into memory, and ours is short.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() && is_program(&entry.header().path_bytes()) {
            let size = entry.size();
            return match io::copy(&mut entry, program)? {
                copied if copied == size => Ok(true),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
    }
    Ok(false)
}

/// Whether a path of an archive is that of the program of every provider of Cluster API, in the root of the image.
fn is_program(path: &[u8]) -> bool {
    matches!(path, b"manager" | b"/manager" | b"./manager")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An archive with files, whatever their paths are.
    pub(in crate::pull) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(content.len() as u64);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            archive.append(&header, *content).expect("memory");
        }
        archive.into_inner().expect("memory")
    }

    fn extracted(archive: &[u8], max: u64) -> Result<Option<Vec<u8>>, String> {
        let mut program = Vec::new();
        let found = extract_within(archive, max, &mut program).map_err(|error| error.to_string())?;
        Ok(found.then_some(program))
    }

    #[test]
    fn only_a_file_in_the_root_is_the_program() {
        for path in ["manager", "/manager", "./manager"] {
            assert!(is_program(path.as_bytes()), "{path}");
        }
        for path in [
            "../manager",
            "..manager",
            ".manager",
            "//manager",
            "a/manager",
            "manager/",
            "managers",
            "",
        ] {
            assert!(!is_program(path.as_bytes()), "{path}");
        }
        let mut link = tar::Header::new_ustar();
        link.as_old_mut().name[..7].copy_from_slice(b"manager");
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        link.set_cksum();
        let mut links = tar::Builder::new(Vec::new());
        links.append(&link, &b""[..]).expect("memory");
        assert_eq!(extracted(&links.into_inner().expect("memory"), 1 << 20), Ok(None));
        let files = archive(&[("../manager", b"a"), ("a/manager", b"b"), ("./manager", b"c")]);
        assert_eq!(extracted(&files, 1 << 20), Ok(Some(b"c".to_vec())));
    }

    #[test]
    fn a_layer_that_is_cut_or_too_large_is_refused() {
        let files = archive(&[("other", &[0; 4096]), ("manager", &[1; 4096])]);
        assert_eq!(
            extracted(&files, 2048),
            Err("it has more than 2048 bytes unpacked".to_owned())
        );
        assert_eq!(
            extracted(&files[..6144], 1 << 20),
            Err("unexpected end of file".to_owned())
        );
    }
}
