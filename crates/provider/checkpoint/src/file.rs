//! The file of a checkpoint: lines of JSON.
//!
//! ```text
//!  {"checkpoint":1,"time":…,"version":…,"namespaces":[…]}
//!  {"object":{…}}                   an object of the management cluster
//!  {"cluster":{…}}                  the objects of a workload cluster, as the manager's /checkpoint has them
//!  {"objects":2,"clusters":1}       the end, so that a file that was cut off is not taken for a whole one
//! ```

use std::io::{BufRead, Write};

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::FileError;

/// The format that this release writes.
const FORMAT: u64 = 1;

/// Clusters with everything in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub header: Header,
    /// The objects of the management cluster.
    pub objects: Vec<DynamicObject>,
    /// The objects of each workload cluster, as the manager's `/checkpoint` has them.
    pub clusters: Vec<Value>,
}

/// The first line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    checkpoint: u64,
    pub time: Timestamp,
    /// The version of the program that saved it.
    pub version: String,
    /// The namespaces that it has everything of.
    pub namespaces: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Object(Box<DynamicObject>),
    Cluster(Value),
    #[serde(untagged)]
    End(End),
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    objects: usize,
    clusters: usize,
}

impl Header {
    /// The header of a checkpoint that is saved now.
    #[must_use]
    pub fn new(time: Timestamp, version: &str, namespaces: Vec<String>) -> Self {
        Self {
            checkpoint: FORMAT,
            time,
            version: version.to_owned(),
            namespaces,
        }
    }
}

impl Checkpoint {
    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, mut file: impl Write) -> Result<(), FileError> {
        let Self {
            header,
            objects,
            clusters,
        } = self;
        write_line(&mut file, header)?;
        for object in objects {
            write_line(&mut file, &Line::Object(Box::new(object.clone())))?;
        }
        for cluster in clusters {
            write_line(&mut file, &Line::Cluster(cluster.clone()))?;
        }
        write_line(&mut file, &self.end())?;
        Ok(file.flush()?)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or is not a whole checkpoint.
    pub fn read(file: impl BufRead) -> Result<Self, FileError> {
        let mut lines = file.lines().zip(1..);
        let (first, _) = lines.next().ok_or(FileError::NotACheckpoint)?;
        let first: Value = serde_json::from_str(&first?).map_err(|_| FileError::NotACheckpoint)?;
        match first.get("checkpoint").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(other) => return Err(FileError::Format(other)),
            None => return Err(FileError::NotACheckpoint),
        }
        let damaged = |number| move |source| FileError::Line { number, source };
        let header = serde_json::from_value(first).map_err(damaged(1))?;
        let mut checkpoint = Self {
            header,
            objects: Vec::new(),
            clusters: Vec::new(),
        };
        for (line, number) in lines {
            match serde_json::from_str(&line?).map_err(damaged(number))? {
                Line::Object(object) => checkpoint.objects.push(*object),
                Line::Cluster(cluster) => checkpoint.clusters.push(cluster),
                Line::End(end) if end == checkpoint.end() => return Ok(checkpoint),
                Line::End(_) => break,
            }
        }
        Err(FileError::Incomplete)
    }

    fn end(&self) -> End {
        End {
            objects: self.objects.len(),
            clusters: self.clusters.len(),
        }
    }
}

fn write_line(file: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *file, value)?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checkpoint() -> Checkpoint {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "one"}, "data": {"b": "Yw=="},
        });
        Checkpoint {
            header: Header::new(Timestamp::UNIX_EPOCH, "1.2.3", vec!["one".to_owned()]),
            objects: vec![serde_json::from_value(object).expect("an object")],
            clusters: vec![json!({"namespace": "one", "name": "demo", "objects": []})],
        }
    }

    fn text(checkpoint: &Checkpoint) -> String {
        let mut text = Vec::new();
        checkpoint.write(&mut text).expect("in memory");
        String::from_utf8(text).expect("JSON")
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let written = checkpoint();
        assert_eq!(
            Checkpoint::read(text(&written).as_bytes()).expect("whole"),
            written
        );
    }

    #[test]
    fn a_file_that_was_cut_off_or_is_another_one_is_refused_with_a_reason() {
        let whole = text(&checkpoint());
        let lines: Vec<_> = whole.lines().collect();
        let refused = |text: &str| {
            Checkpoint::read(text.as_bytes())
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            refused(""),
            "it is not a checkpoint: its first line is not {\"checkpoint\":1,…}"
        );
        assert_eq!(refused("kind: Cluster"), refused(""));
        assert_eq!(refused(&lines[1..].join("\n")), refused(""));
        assert_eq!(
            refused("{\"checkpoint\":2}"),
            "it is a checkpoint of format 2; this release reads format 1"
        );
        assert_eq!(refused(&lines[..3].join("\n")), "the file is not complete");
        assert_eq!(
            refused(&[lines[0], lines[1], lines[3]].join("\n")),
            "the file is not complete"
        );
        assert_eq!(
            refused(&[lines[0], "{\"object\":1}"].join("\n")),
            "failed to understand line 2"
        );
    }
}
