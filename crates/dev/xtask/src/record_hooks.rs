//! `cargo xtask record-hooks`: Cluster API's calls of our runtime extension, as fixtures.
//!
//! ```text
//!  NEPHELE_RUNTIME_EXTENSION_RECORDINGS=FOLDER cargo xtask e2e extension
//!         │ a file for each call
//!         ▼
//!  without names, times and ids of the run ─▶ as few as show every field ─▶ crates/extensions/runtime-sdk/tests/recordings
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{files::write, paths};

/// Where the fixtures are, by release of Cluster API.
const FIXTURES: &str = "crates/extensions/runtime-sdk/tests/recordings";
/// The most recordings kept per hook.
const KEPT_MAX: usize = 6;
const TIME: &str = "2026-01-01T00:00:00Z";
/// Replaces the tokens with which machines join. It is the example in kubeadm's documentation.
const TOKEN: &str = "abcdef.0123456789abcdef";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of a manager's recordings.
    folder: PathBuf,
    /// The calling release of Cluster API.
    #[arg(long, default_value = "1.14")]
    release: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut by_hook: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for file in files(&args.folder)? {
        let attempt = || format!("failed to read {}", file.display());
        let mut recording: Value =
            serde_json::from_slice(&fs::read(&file).with_context(attempt)?).with_context(attempt)?;
        scrub(&mut recording);
        let text = recording.to_string();
        if let Some(place) = ["/home/", "/tmp/", "PRIVATE KEY"]
            .iter()
            .find(|place| text.contains(**place))
        {
            bail!("{} has {place} in it", file.display());
        }
        let kind = recording["request"]["kind"].as_str().unwrap_or_default();
        let hook = kind
            .strip_suffix("Request")
            .with_context(|| format!("{kind:?} is no request"))?;
        by_hook.entry(hook.to_owned()).or_default().push(recording);
    }
    for (hook, recordings) in by_hook {
        let all = recordings.len();
        let kept = fewest(recordings);
        println!("{hook}: {} of {all}", kept.len());
        let path = paths::repository()
            .join(FIXTURES)
            .join(&args.release)
            .join(format!("{hook}.json"));
        let text = serde_json::to_string_pretty(&kept).context("failed to write recordings")?;
        write(&path, text + "\n")?;
    }
    Ok(())
}

/// The files, sorted by time.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

/// As few recordings as have every field and every protocol of all recordings.
fn fewest(mut left: Vec<Value>) -> Vec<Value> {
    let shape = |recording: &Value| {
        let mut fields = BTreeSet::new();
        shape("", recording, &mut fields);
        fields
    };
    let mut kept = Vec::new();
    let mut covered = BTreeSet::new();
    while kept.len() < KEPT_MAX && !left.is_empty() {
        let new = |recording: &Value| shape(recording).difference(&covered).count();
        // Of the recordings that add the same number of fields, take the shortest, and of these the first.
        let by = |(index, recording): &(usize, &Value)| {
            (
                new(recording),
                usize::MAX - recording.to_string().len(),
                usize::MAX - index,
            )
        };
        let Some((index, best)) = left.iter().enumerate().max_by_key(by) else {
            break;
        };
        if new(best) == 0 {
            break;
        }
        let best = left.remove(index);
        covered.extend(shape(&best));
        kept.push(best);
    }
    kept
}

/// The paths of fields with their types. For inputs and answers of handlers, with their values.
fn shape(path: &str, value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            fields.insert(format!("{path} object"));
            for (key, value) in members {
                shape(&format!("{path}/{key}"), value, fields);
            }
        }
        Value::Array(elements) => {
            fields.insert(format!("{path} array of {}", elements.len().min(2)));
            elements
                .iter()
                .for_each(|element| shape(&format!("{path}/*"), element, fields));
        }
        Value::Null => drop(fields.insert(format!("{path} null"))),
        Value::Bool(_) => drop(fields.insert(format!("{path} boolean"))),
        Value::Number(_) => drop(fields.insert(format!("{path} number"))),
        Value::String(text) if ["/protocol", "/path", "/response/status"].contains(&path) => {
            fields.insert(format!("{path} {text}"));
        }
        Value::String(text) => drop(fields.insert(format!("{path} text {}", text.is_empty()))),
    }
}

/// Removes what is specific to one run.
fn scrub(recording: &mut Value) {
    if let Some(host) = recording["headers"].get_mut("host") {
        let name = host
            .as_str()
            .and_then(|host| host.split(':').next())
            .unwrap_or_default();
        *host = Value::String(format!("{name}:443"));
    }
    Scrub::default().value(recording);
}

/// Ids, times, versions of objects, and the numbers in names of namespaces.
#[derive(Default)]
struct Scrub {
    ids: BTreeMap<String, usize>,
}

impl Scrub {
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                if members.contains_key("resourceVersion") {
                    members.insert("resourceVersion".to_owned(), "1".into());
                }
                if members.contains_key("token") {
                    members.insert("token".to_owned(), TOKEN.into());
                }
                members.values_mut().for_each(|value| self.value(value));
            }
            Value::Array(elements) => elements.iter_mut().for_each(|value| self.value(value)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) -> String {
        if text.parse::<jiff::Timestamp>().is_ok() {
            return TIME.to_owned();
        }
        // The text is split into words, so that an id inside a text is found too.
        let mut words = String::new();
        for piece in text.split_inclusive([' ', '/', '"', ',']) {
            let word = piece.trim_end_matches([' ', '/', '"', ',']);
            words.push_str(&self.word(word));
            words.push_str(&piece[word.len()..]);
        }
        words
    }

    fn word(&mut self, word: &str) -> String {
        let lengths: Vec<_> = word.split('-').map(str::len).collect();
        let is_id =
            lengths == [8, 4, 4, 4, 12] && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if is_id {
            let next = self.ids.len() + 1;
            let number = self.ids.entry(word.to_owned()).or_insert(next);
            return format!("00000000-0000-4000-8000-{number:012}");
        }
        let namespace = word.strip_prefix("e2e-").and_then(|rest| rest.rsplit_once('-'));
        match namespace {
            Some((test, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("e2e-{test}"),
            _ => word.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_a_run_is_left() {
        let mut recording = json!({
            "headers": {"host": "localhost:9242", "user-agent": "Go-http-client/2.0"},
            "request": {"metadata": {
                "uid": "0f8fad5b-d9cb-469f-a165-70867728950e", "creationTimestamp": "2026-11-21T15:00:00Z",
                "namespace": "e2e-hooks-123456", "resourceVersion": "812", "name": "e2e-hooks",
            }, "spec": {"host": "127.0.0.1"}},
            "response": {"uid": "0f8fad5b-d9cb-469f-a165-70867728950e", "message": "e2e-hooks-123456/c: 5"},
        });
        scrub(&mut recording);
        let expected = json!({
            "headers": {"host": "localhost:443", "user-agent": "Go-http-client/2.0"},
            "request": {"metadata": {
                "uid": "00000000-0000-4000-8000-000000000001", "creationTimestamp": "2026-01-01T00:00:00Z",
                "namespace": "e2e-hooks", "resourceVersion": "1", "name": "e2e-hooks",
            }, "spec": {"host": "127.0.0.1"}},
            "response": {"uid": "00000000-0000-4000-8000-000000000001", "message": "e2e-hooks/c: 5"},
        });
        assert_eq!(recording, expected);
    }

    #[test]
    fn as_few_are_kept_as_show_every_field() {
        let recordings = vec![
            json!({"a": 1}),
            json!({"a": 2, "b": [1]}),
            json!({"a": 3, "b": [1], "c": null}),
            json!({"protocol": "HTTP/1.1"}),
            json!({"protocol": "HTTP/2.0"}),
            json!({"protocol": "HTTP/2.0"}),
        ];
        let kept = [
            json!({"a": 3, "b": [1], "c": null}),
            json!({"protocol": "HTTP/1.1"}),
            json!({"protocol": "HTTP/2.0"}),
        ];
        assert_eq!(fewest(recordings), kept);
    }
}
