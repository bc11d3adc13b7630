//! The program that goes into an image, with the files that it needs to start.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use object::{
    Endianness,
    elf::{EM_AARCH64, EM_X86_64, FileHeader64},
    read::elf::{FileHeader as _, ProgramHeader as _},
};

/// Where Linux shows what a process has mapped into its memory.
const MAPS: &str = "/proc/self/maps";

/// A program for Linux.
pub(super) struct Program {
    /// The processor, as images name it: `amd64`, `arm64`.
    pub(super) architecture: &'static str,
    pub(super) content: Vec<u8>,
    /// The other files that the program needs, with their absolute paths: none for a static program.
    pub(super) libraries: Vec<(PathBuf, Vec<u8>)>,
}

impl Program {
    /// This program. If it is not static, its libraries are the files that this process has loaded.
    pub(super) fn own() -> anyhow::Result<Self> {
        ensure!(
            cfg!(target_os = "linux"),
            "this program does not run in a container, because it was built for another system: name one for Linux \
             with --program, or an image in a registry with --image"
        );
        let path = std::env::current_exe().context("failed to find this program")?;
        let (architecture, content, interpreter) = read(&path)?;
        let mut paths = BTreeSet::new();
        if let Some(interpreter) = interpreter {
            let maps = fs::read_to_string(MAPS).with_context(|| format!("failed to read {MAPS}"))?;
            paths = libraries(&maps);
            paths.insert(interpreter);
        }
        let read = |path: PathBuf| {
            let content = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
            Ok((path, content))
        };
        let libraries = paths.into_iter().map(read).collect::<anyhow::Result<_>>()?;
        Ok(Self {
            architecture,
            content,
            libraries,
        })
    }

    /// The static program in a file.
    pub(super) fn of_file(path: &Path) -> anyhow::Result<Self> {
        let (architecture, content, interpreter) = read(path)?;
        ensure!(
            interpreter.is_none(),
            "{} is not static: build it with RUSTFLAGS=\"-C target-feature=+crt-static\" and --target",
            path.display()
        );
        Ok(Self {
            architecture,
            content,
            libraries: Vec::new(),
        })
    }
}

/// The processor, the content and the interpreter of a program; a static one has no interpreter.
fn read(path: &Path) -> anyhow::Result<(&'static str, Vec<u8>, Option<PathBuf>)> {
    let content = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    let (architecture, interpreter) =
        inspect(&content).with_context(|| format!("{} is not a program for Linux", path.display()))?;
    Ok((architecture, content, interpreter))
}

fn inspect(content: &[u8]) -> anyhow::Result<(&'static str, Option<PathBuf>)> {
    let header = FileHeader64::<Endianness>::parse(content)?;
    let endian = header.endian()?;
    let architecture = match header.e_machine(endian) {
        EM_X86_64 => "amd64",
        EM_AARCH64 => "arm64",
        other => bail!("processor {other} of the ELF format is neither amd64 nor arm64"),
    };
    for segment in header.program_headers(endian, content)? {
        if let Some(interpreter) = segment.interpreter(endian, content)? {
            return Ok((
                architecture,
                Some(PathBuf::from(std::str::from_utf8(interpreter)?)),
            ));
        }
    }
    Ok((architecture, None))
}

/// The shared libraries in the text of `/proc/self/maps`, whose sixth column is a path.
fn libraries(maps: &str) -> BTreeSet<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths
        .filter(|path| path.starts_with('/') && path.contains(".so"))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_mapped_files_that_are_libraries() {
        let maps = "\
55d0-55d1 r--p 00000000 fe:00 12   /usr/bin/nephele
7f00-7f01 r-xp 00000000 fe:00 34   /usr/lib/x86_64-linux-gnu/libc.so.6
7f01-7f02 r--p 00000000 fe:00 34   /usr/lib/x86_64-linux-gnu/libc.so.6
7f02-7f03 rw-p 00000000 00:00 0
7ffc-7ffd rw-p 00000000 00:00 0    [stack]
";
        assert_eq!(
            libraries(maps),
            BTreeSet::from([PathBuf::from("/usr/lib/x86_64-linux-gnu/libc.so.6")])
        );
    }

    #[test]
    fn this_program_is_one_for_linux_and_a_text_is_none() {
        let program = Program::own().expect("a program for Linux");
        assert!(
            ["amd64", "arm64"].contains(&program.architecture),
            "{}",
            program.architecture
        );
        assert!(inspect(b"#!/bin/sh\n").is_err());
    }
}
