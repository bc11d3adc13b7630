//! Files that only this process and the program have. Nothing of them stays behind when the test is killed.

use std::{
    fs::File,
    io::{self, Seek, Write},
    os::fd::AsRawFd,
};

use rustix::io::{FdFlags, fcntl_setfd};

/// The files of one start. The program opens them; once it is up, they can be closed.
#[derive(Default)]
pub(crate) struct UnnamedFiles {
    files: Vec<File>,
    names: Names,
}

impl UnnamedFiles {
    /// Makes a file, and returns the path at which the program finds it.
    pub(crate) fn add(&mut self, name: &'static str, content: &[u8]) -> io::Result<String> {
        let mut file = tempfile::tempfile()?;
        file.write_all(content)?;
        file.rewind()?;
        // The program inherits it, under the same number. A program that another thread starts at this moment does,
        // too; it has no use for it.
        fcntl_setfd(&file, FdFlags::empty())?;
        let path = format!("/dev/fd/{}", file.as_raw_fd());
        self.files.push(file);
        self.names.0.push((path.clone(), name));
        Ok(path)
    }

    pub(crate) fn names(&self) -> Names {
        self.names.clone()
    }
}

/// The paths of unnamed files, and what a developer knows the files as.
#[derive(Clone, Default)]
pub(crate) struct Names(Vec<(String, &'static str)>);

impl Names {
    /// Replaces the paths in what the program says.
    pub(crate) fn replace(&self, said: &str) -> String {
        // The last one first: it may begin with the path of an earlier one.
        let longest_first = self.0.iter().rev();
        longest_first.fold(said.to_owned(), |said, (path, name)| said.replace(path, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_file_can_be_read_from_its_start() {
        let mut files = UnnamedFiles::default();
        let path = files.add("the objects", b"content").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "content");
        let said = format!("document 1 of {path}");
        assert_eq!(files.names().replace(&said), "document 1 of the objects");
    }

    #[test]
    fn name_that_begins_like_another_is_replaced_as_a_whole() {
        let names = Names(vec![
            ("/dev/fd/9".to_owned(), "first"),
            ("/dev/fd/91".to_owned(), "second"),
        ]);
        assert_eq!(names.replace("/dev/fd/91 and /dev/fd/9"), "second and first");
    }
}
