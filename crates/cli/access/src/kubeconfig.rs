//! Kubeconfigs of users, read and merged as client-go does (`tools/clientcmd/loader.go`).

use std::{
    ffi::OsStr,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use kube::config::Kubeconfig;
use nephele_yaml::{Bounds, Dialect, YamlError};
use serde_json::{Map, Value};

/// Large ones have some hundred clusters of a few kilobytes. The file is the user's own, who runs this.
const BOUNDS: Bounds = Bounds {
    text: 16 << 20,
    memory: 256 << 20,
    depth: 64,
    dialect: Dialect::Go,
};

/// The lists of a kubeconfig, and what their entries have beside the name.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// The fields that are paths, relative to the folder of the file.
const PATHS: [&str; 4] = [
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
];

/// The fields that are base64. Go reads over line breaks in it, and kube does not.
const DATA: [&str; 3] = [
    "certificate-authority-data",
    "client-certificate-data",
    "client-key-data",
];

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("failed to read kubeconfig {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// A file is not YAML.
    #[error("failed to read kubeconfig {}", .0.display())]
    Yaml(PathBuf, #[source] YamlError),
    /// A file is something else.
    #[error("failed to read kubeconfig {}", .0.display())]
    Shape(PathBuf, #[source] serde_json::Error),
    /// None of the usual files is there.
    #[error("no kubeconfig is there: {0}")]
    Missing(String),
    /// There is no usual file.
    #[error("neither KUBECONFIG nor the home directory is known")]
    Unknown,
}

/// The files of a user's kubeconfig: those of the variable `KUBECONFIG`, which it separates with `:`, or else the one in
/// the home directory.
#[must_use]
pub fn usual_files(variable: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
    let named = variable.map(std::env::split_paths).into_iter().flatten();
    let named: Vec<_> = named.filter(|path| !path.as_os_str().is_empty()).collect();
    match named.is_empty() {
        true => home
            .map(|home| home.join(".kube").join("config"))
            .into_iter()
            .collect(),
        false => named,
    }
}

/// Reads one file, which must be there.
///
/// # Errors
/// When it cannot be read, or is not a kubeconfig.
pub fn read_file(path: &Path) -> Result<Kubeconfig, ReadError> {
    let text = std::fs::read_to_string(path).map_err(|error| ReadError::File(path.to_owned(), error))?;
    parse_kubeconfig(path, &text)
}

/// Reads and merges the usual files. Those that are not there are skipped while another one is there. The first file that
/// has an entry or a current context wins.
///
/// # Errors
/// When there is none, or one of them cannot be read, or is not a kubeconfig.
pub fn read_usual(files: &[PathBuf]) -> Result<Kubeconfig, ReadError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = String::new();
    for path in files {
        match read_file(path) {
            Ok(next) => {
                merged = Some(match merged {
                    Some(first) => merge(first, next),
                    None => next,
                });
            }
            Err(ReadError::File(path, error)) if error.kind() == io::ErrorKind::NotFound => {
                let separator = if missing.is_empty() { "" } else { ", " };
                let _ = write!(missing, "{separator}{}", path.display());
            }
            Err(error) => return Err(error),
        }
    }
    match merged {
        Some(merged) => Ok(merged),
        None if missing.is_empty() => Err(ReadError::Unknown),
        None => Err(ReadError::Missing(missing)),
    }
}

fn merge(first: Kubeconfig, next: Kubeconfig) -> Kubeconfig {
    fn added<T>(first: Vec<T>, next: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<T> {
        let known: std::collections::BTreeSet<_> = first.iter().map(|entry| name(entry).clone()).collect();
        first
            .into_iter()
            .chain(next.into_iter().filter(|entry| !known.contains(name(entry))))
            .collect()
    }
    Kubeconfig {
        clusters: added(first.clusters, next.clusters, |entry| &entry.name),
        auth_infos: added(first.auth_infos, next.auth_infos, |entry| &entry.name),
        contexts: added(first.contexts, next.contexts, |entry| &entry.name),
        current_context: first.current_context.or(next.current_context),
        ..first
    }
}

/// Reads the text of a file.
///
/// # Errors
/// When it is not a kubeconfig.
pub fn parse_kubeconfig(path: &Path, text: &str) -> Result<Kubeconfig, ReadError> {
    // As everywhere in client-go, the first document counts.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents = nephele_yaml::read_all(text, &BOUNDS);
    let documents = documents.map_err(|error| ReadError::Yaml(path.to_owned(), error))?;
    let first = documents
        .into_iter()
        .map(|(_, document)| document)
        .find(|document| !document.is_null());
    let Some(mut document) = first else {
        return Ok(Kubeconfig::default());
    };
    normalize(&mut document, path.parent().unwrap_or(Path::new("")));
    serde_json::from_value(document).map_err(|error| ReadError::Shape(path.to_owned(), error))
}

/// Go does not tell an empty text or null from a field that is not there. Paths are relative to the file.
fn normalize(document: &mut Value, folder: &Path) {
    let Some(document) = document.as_object_mut() else {
        return;
    };
    remove_empty(document);
    for (list, kind) in LISTS {
        let entries = document.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            let Some(fields) = entry.get_mut(kind).and_then(Value::as_object_mut) else {
                continue;
            };
            remove_empty(fields);
            for name in PATHS {
                if let Some(path) = fields.get_mut(name) {
                    resolve(path, folder);
                }
            }
            for name in DATA {
                if let Some(Value::String(data)) = fields.get_mut(name) {
                    data.retain(|character| !matches!(character, '\r' | '\n'));
                }
            }
            // A command without a folder is looked for on the PATH.
            let command = fields.get_mut("exec").and_then(|exec| exec.get_mut("command"));
            if let Some(command) = command
                && command.as_str().is_some_and(|command| command.contains('/'))
            {
                resolve(command, folder);
            }
        }
    }
}

fn remove_empty(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
}

fn resolve(path: &mut Value, folder: &Path) {
    if let Some(text) = path.as_str()
        && let Some(resolved) = folder.join(text).to_str()
    {
        *path = resolved.into();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
    use kube::config::KubeConfigOptions;
    use nephele_error_chain::chain;

    use super::*;
    use crate::{Environment, Server};

    fn entry(name: &str, server: &str) -> String {
        format!(
            "clusters: [{{name: {name}, cluster: {{server: '{server}'}}}}]\n\
             users: [{{name: {name}, user: {{token: of-{name}}}}}]\n\
             contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]\n"
        )
    }

    /// The server and namespace that the files of a list lead to, or why there is none.
    async fn found(folder: &Path, list: &[&str]) -> String {
        let files: Vec<_> = list.iter().map(|name| folder.join(name)).collect();
        let read = match read_usual(&files) {
            Ok(read) => read,
            Err(error) => return chain(&error).replace(folder.to_str().expect("text"), "DIR"),
        };
        match Server::of(read, &KubeConfigOptions::default(), &Environment::default()).await {
            Ok(server) => {
                format!(
                    "{} {}",
                    server.config.cluster_url, server.config.default_namespace
                )
            }
            Err(error) => chain(&error),
        }
    }

    #[tokio::test]
    async fn certificates_may_be_written_in_several_lines() {
        let certificate = rcgen::generate_simple_self_signed(["api.example".to_owned()])
            .expect("made")
            .cert;
        let wrapped = |text: &[u8]| {
            let text = BASE64.encode(text).into_bytes();
            let lines: Vec<_> = text
                .chunks(76)
                .map(|line| format!("\n      {}", String::from_utf8_lossy(line)))
                .collect();
            lines.concat()
        };
        let pem = certificate.pem().into_bytes();
        let once = wrapped(&pem);
        // What is between the spaces of the indentation.
        let lines = once.replace(' ', "");
        for data in [
            BASE64.encode(&pem),
            format!("|{once}"),
            format!("|-{once}"),
            format!("|{}", once.replace('\n', "\r\n")),
            // As some writers of YAML write what has line breaks: base64 of base64.
            format!("!!binary |{}", wrapped(lines.trim_start().as_bytes())),
        ] {
            let text = format!(
                "current-context: a\nclusters:\n- name: a\n  cluster:\n    server: https://api.example\n    \
                 certificate-authority-data: {data}\ncontexts: [{{name: a, context: {{cluster: a}}}}]\n"
            );
            let read = parse_kubeconfig(Path::new("config"), &text)
                .unwrap_or_else(|error| panic!("{}: {text}", chain(&error)));
            let server = Server::of(read, &KubeConfigOptions::default(), &Environment::default()).await;
            let server = server.unwrap_or_else(|error| panic!("{}: {text}", chain(&error)));
            assert_eq!(
                server.config.root_cert,
                Some(vec![certificate.der().to_vec()]),
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn files_of_a_list_are_merged_as_client_go_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        write(
            "a",
            &format!("{}current-context: a\n", entry("a", "https://a.example")),
        );
        write(
            "other-a",
            &format!("{}current-context: a\n", entry("a", "https://other.example")),
        );
        write(
            "b",
            &format!("{}current-context: b\n", entry("b", "https://b.example")),
        );
        // As `kubectl config unset current-context` leaves an empty file.
        let unset = "apiVersion: v1\nkind: Config\nclusters: null\nusers: null\ncontexts: null\n\
            current-context: ''\npreferences: {}\n";
        write("unset", unset);
        write("only-context", "current-context: b\n");
        write("empty", "");
        write("broken", "clusters: [");
        write("foreign", "[1, 2]");
        let empty_fields = "contexts: [{name: a, context: {cluster: a, user: '', namespace: ''}}]\n\
            clusters: [{name: a, cluster: {server: 'https://a.example', certificate-authority-data: '',
              certificate-authority: null, tls-server-name: '', proxy-url: ''}}]\ncurrent-context: a\n";
        write("empty-fields", empty_fields);
        write(
            "bom",
            &format!("\u{feff}{}current-context: a\n", entry("a", "https://a.example")),
        );
        let a = "https://a.example/ default";
        let b = "https://b.example/ default";
        let rows: [(&[&str], &str); 17] = [
            (&["a"], a),
            (&["a", "b"], a),
            (&["b", "a"], b),
            (&["missing", "a"], a),
            (&["a", "missing"], a),
            (&["missing", "a", "missing-too", "b"], a),
            (&["a", "other-a"], a),
            (&["unset", "b"], b),
            (&["empty", "b"], b),
            (&["only-context", "a", "b"], b),
            (&["empty-fields"], a),
            (&["bom"], a),
            (
                &["missing", "missing-too"],
                "no kubeconfig is there: DIR/missing, DIR/missing-too",
            ),
            (&["missing"], "no kubeconfig is there: DIR/missing"),
            (&[], "neither KUBECONFIG nor the home directory is known"),
            (&["unset"], "failed to determine current context"),
            (
                &["foreign", "a"],
                "failed to read kubeconfig DIR/foreign: invalid type: sequence",
            ),
        ];
        for (list, expected) in rows {
            let found = found(folder.path(), list).await;
            assert!(found.starts_with(expected), "{list:?}: {found}");
        }
        // What is there must be readable, even where another file has everything.
        for list in [["a", "broken"], ["broken", "a"]] {
            let found = found(folder.path(), &list).await;
            assert!(
                found.starts_with("failed to read kubeconfig DIR/broken: document 1 must be YAML"),
                "{found}"
            );
        }
    }

    #[test]
    fn paths_are_relative_to_the_file_that_has_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: ca.crt}}]\n\
            users:\n- name: a\n  user: {client-certificate: pki/a.crt, client-key: /abs/a.key, tokenFile: ''}\n\
            - name: b\n  user: {exec: {command: ./login, args: ['']}}\n- name: c\n  user: {exec: {command: aws}}\n";
        let path = folder.path().join("config");
        fs::write(&path, config).expect("written");
        let read = read_usual(&[PathBuf::from("/nonexistent/kubeconfig"), path]).expect("readable");
        let cluster = read.clusters[0].cluster.as_ref().expect("a cluster");
        let user = |index: usize| read.auth_infos[index].auth_info.as_ref().expect("a user");
        let command = |index| user(index).exec.as_ref().and_then(|exec| exec.command.clone());
        let of_folder = |name: &str| Some(folder.path().join(name).to_str().expect("text").to_owned());
        assert_eq!(cluster.certificate_authority, of_folder("ca.crt"));
        assert_eq!(user(0).client_certificate, of_folder("pki/a.crt"));
        assert_eq!(user(0).client_key.as_deref(), Some("/abs/a.key"));
        assert_eq!(user(0).token_file, None);
        assert_eq!(
            (command(1), command(2)),
            (of_folder("./login"), Some("aws".to_owned()))
        );
    }

    #[test]
    fn the_variable_names_files_or_else_the_home_directory_does() {
        let files = |variable: Option<&str>, home: Option<&str>| {
            let files = usual_files(variable.map(OsStr::new), home.map(Path::new));
            files
                .iter()
                .map(|file| file.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(files(Some("a::/b:"), Some("/home/me")), ["a", "/b"]);
        assert_eq!(files(Some(""), Some("/home/me")), ["/home/me/.kube/config"]);
        assert_eq!(files(Some("::"), None), [""; 0]);
        assert_eq!(files(None, Some("/home/me")), ["/home/me/.kube/config"]);
    }
}
