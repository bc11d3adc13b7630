//! Which program is run, and with which flags.

use std::{env, ffi::OsString, io, path::PathBuf};

use crate::{settings::Settings, start_error::StartError, unnamed::UnnamedFiles};

/// A program, and who named it.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) origin: &'static str,
}

impl Program {
    /// The one of the builder, of the environment, or on `PATH`, in this order.
    pub(crate) fn find(wanted: Option<PathBuf>) -> Self {
        let named = |variable| {
            env::var_os(variable)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        // The test may change its folder, and run further commands. A name alone is looked for on `PATH`.
        let absolute = |path: PathBuf| match path.components().count() {
            1 => path,
            _ => std::path::absolute(&path).unwrap_or(path),
        };
        if let Some(path) = wanted {
            Self {
                path: absolute(path),
                origin: "Builder::program",
            }
        } else if let Some(path) = named("NEPHELE") {
            Self {
                path: absolute(path),
                origin: "the environment variable NEPHELE",
            }
        } else {
            Self {
                path: "nephele".into(),
                origin: "PATH",
            }
        }
    }
}

/// The flags for these settings.
pub(crate) fn arguments(settings: Settings, unnamed: &mut UnnamedFiles) -> Result<Vec<OsString>, StartError> {
    let Settings {
        program: _,
        files,
        objects,
        attach,
        stand_in,
        providers,
        folder,
        time_limit,
        wait_limit: _,
    } = settings;
    let mut arguments: Vec<OsString> = vec!["up".into(), "--json".into(), "--time-limit".into()];
    // More is not a duration in Go, and is for ever.
    let nanoseconds = i64::try_from(time_limit.as_nanos()).unwrap_or(i64::MAX);
    arguments.push(format!("{nanoseconds}ns").into());
    for file in files {
        arguments.extend(["--file".into(), file.into()]);
    }
    let mut pass = |flag: &str, name, content: io::Result<Vec<u8>>| {
        let path = content.and_then(|content| unnamed.add(name, &content));
        let path = path.map_err(|source| StartError::Pass { name, source })?;
        arguments.extend([flag.into(), path.into()]);
        Ok::<_, StartError>(())
    };
    if !objects.is_empty() {
        pass("--file", "the objects", Ok(manifest(objects)?))?;
    }
    if let Some(kubeconfig) = attach {
        let content = serde_json::to_vec(&kubeconfig).map_err(io::Error::from);
        pass("--attach", "the kubeconfig to attach to", content)?;
    }
    if stand_in {
        arguments.push("--stand-in".into());
    }
    if !providers.is_empty() {
        arguments.push("--cluster-api".into());
    }
    for provider in providers {
        let mut run = OsString::from(provider.name);
        run.push("=");
        run.push(provider.program);
        arguments.extend([
            "--provider".into(),
            provider.components.into(),
            "--run".into(),
            run,
        ]);
    }
    if let Some(folder) = folder {
        arguments.extend(["--folder".into(), folder.into()]);
    }
    Ok(arguments)
}

/// A YAML stream of the objects. JSON is YAML.
fn manifest(objects: Vec<serde_json::Result<String>>) -> Result<Vec<u8>, StartError> {
    let mut stream = String::new();
    for (index, object) in objects.into_iter().enumerate() {
        let object = object.map_err(|source| StartError::EncodeObject {
            number: index + 1,
            source,
        })?;
        stream.extend(["---\n", &object, "\n"]);
    }
    Ok(stream.into_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use kube::config::Kubeconfig;
    use serde_json::json;

    use super::*;
    use crate::Builder;

    #[test]
    fn command_has_a_flag_for_each_option() {
        let builder = Builder::default()
            .file("a.yaml")
            .file("b.yaml")
            .object(json!({"kind": "A"}))
            .object(json!({"kind": "B"}))
            .attach(Kubeconfig::default())
            .stand_in()
            .provider("core.yaml", "cluster-api", "core")
            .provider("own.yaml", "own", "manager")
            .folder("folder")
            .time_limit(Duration::from_millis(2));
        let mut unnamed = UnnamedFiles::default();
        let arguments = arguments(builder.into_settings(), &mut unnamed).unwrap();
        let arguments: Vec<_> = arguments
            .iter()
            .map(|argument| argument.to_str().unwrap())
            .collect();
        let objects = arguments[9];
        let kubeconfig = arguments[11];
        let expected = [
            "up",
            "--json",
            "--time-limit",
            "2000000ns",
            "--file",
            "a.yaml",
            "--file",
            "b.yaml",
            "--file",
            objects,
            "--attach",
            kubeconfig,
            "--stand-in",
            "--cluster-api",
            "--provider",
            "core.yaml",
            "--run",
            "cluster-api=core",
            "--provider",
            "own.yaml",
            "--run",
            "own=manager",
            "--folder",
            "folder",
        ];
        assert_eq!(arguments, expected);
        assert_eq!(
            fs::read_to_string(objects).unwrap(),
            "---\n{\"kind\":\"A\"}\n---\n{\"kind\":\"B\"}\n"
        );
        let read = Kubeconfig::from_yaml(&fs::read_to_string(kubeconfig).unwrap()).unwrap();
        assert_eq!(json!(read), json!(Kubeconfig::default()));
    }

    #[test]
    fn object_that_has_no_json_is_named_by_its_number() {
        let unusable = std::collections::BTreeMap::from([((1, 2), 3)]);
        let settings = Builder::default()
            .object(json!({}))
            .object(unusable)
            .into_settings();
        let error = arguments(settings, &mut UnnamedFiles::default()).unwrap_err();
        assert_eq!(error.to_string(), "failed to encode object 2");
    }
}
