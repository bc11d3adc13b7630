//! The line that `nephele up --json` prints when it is up.

use std::path::PathBuf;

use serde::Deserialize;

/// What this library uses of the report.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Report {
    pub(crate) folder: PathBuf,
    pub(crate) management: Management,
    pub(crate) journal: PathBuf,
    pub(crate) log: PathBuf,
    /// The address of the live page, if there is one.
    pub(crate) page: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Management {
    pub(crate) kubeconfig: PathBuf,
}

impl Report {
    pub(crate) fn parse(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_can_have_more_than_we_use() {
        let line = br#"{"folder":"/a","management":{"kubeconfig":"/a/m","server":"https://b"},"clusters":[],
            "journal":"/a/j","log":"/a/l","later":1}"#;
        let expected = Report {
            folder: "/a".into(),
            management: Management {
                kubeconfig: "/a/m".into(),
            },
            journal: "/a/j".into(),
            log: "/a/l".into(),
            page: None,
        };
        assert_eq!(Report::parse(line).unwrap(), expected);
        assert!(Report::parse(b"{}").is_err());
    }
}
