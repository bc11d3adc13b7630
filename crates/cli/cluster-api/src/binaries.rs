//! Where kube-apiserver and etcd are, in the order in which envtest looks (controller-runtime, `pkg/internal/testing/process`).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::bail;

/// Where envtest's binaries are when nothing says otherwise.
const USUAL_FOLDER: &str = "/usr/local/kubebuilder/bin";

/// The programs of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    pub api_server: PathBuf,
    pub etcd: PathBuf,
    /// kube-controller-manager, if it lies beside kube-apiserver. envtest has none; without it, no garbage is collected.
    pub controller_manager: Option<PathBuf>,
}

/// The programs that a user named.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub api_server: Option<PathBuf>,
    pub etcd: Option<PathBuf>,
}

/// Finds the programs: those that are given, else those that the environment names, else those of envtest's usual folder.
///
/// # Errors
/// When a program is not there. The message names the ways to say where it is.
pub fn find(
    given: Given,
    environment: &dyn Fn(&str) -> Option<OsString>,
    is_file: &dyn Fn(&Path) -> bool,
) -> anyhow::Result<Binaries> {
    let folder = environment("KUBEBUILDER_ASSETS").map_or_else(|| USUAL_FOLDER.into(), PathBuf::from);
    let mut missing = Vec::new();
    let mut place = |given: Option<PathBuf>, flag: &str, variable: &str, name: &str| {
        let place = given
            .or_else(|| environment(variable).map(PathBuf::from))
            .unwrap_or_else(|| folder.join(name));
        if !is_file(&place) {
            missing.push(format!("{name} is not at {} (--{flag})", place.display()));
        }
        place
    };
    let api_server = place(
        given.api_server,
        "api-server",
        "TEST_ASSET_KUBE_APISERVER",
        "kube-apiserver",
    );
    let etcd = place(given.etcd, "etcd", "TEST_ASSET_ETCD", "etcd");
    if !missing.is_empty() {
        bail!(
            "{}; name the files, or set KUBEBUILDER_ASSETS to the folder that `setup-envtest use -p path` prints, or use \
             a running API server with --attach",
            missing.join(", and ")
        );
    }
    let controller_manager = api_server.with_file_name("kube-controller-manager");
    Ok(Binaries {
        controller_manager: Some(controller_manager).filter(|place| is_file(place)),
        api_server,
        etcd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(given: Given, environment: &[(&str, &str)], files: &[&str]) -> Result<Binaries, String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let is_file = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        find(given, &variable, &is_file).map_err(|error| error.to_string())
    }

    fn binaries(api_server: &str, etcd: &str, controller_manager: Option<&str>) -> Binaries {
        Binaries {
            api_server: api_server.into(),
            etcd: etcd.into(),
            controller_manager: controller_manager.map(PathBuf::from),
        }
    }

    #[test]
    fn flags_come_before_variables_and_these_before_folders() {
        let files = [
            "/usr/local/kubebuilder/bin/kube-apiserver",
            "/usr/local/kubebuilder/bin/etcd",
            "/assets/kube-apiserver",
            "/assets/etcd",
            "/assets/kube-controller-manager",
            "/own/etcd",
            "/flag/kube-apiserver",
        ];
        let usual = binaries(files[0], files[1], None);
        assert_eq!(look(Given::default(), &[], &files), Ok(usual));
        let assets = ("KUBEBUILDER_ASSETS", "/assets");
        assert_eq!(
            look(
                Given::default(),
                &[assets, ("TEST_ASSET_ETCD", "/own/etcd")],
                &files
            ),
            Ok(binaries(
                "/assets/kube-apiserver",
                "/own/etcd",
                Some("/assets/kube-controller-manager")
            ))
        );
        let given = Given {
            api_server: Some("/flag/kube-apiserver".into()),
            etcd: None,
        };
        assert_eq!(
            look(given, &[assets], &files),
            Ok(binaries("/flag/kube-apiserver", "/assets/etcd", None))
        );
    }

    #[test]
    fn what_is_missing_is_named_with_the_ways_to_name_it() {
        let error =
            look(Given::default(), &[], &["/usr/local/kubebuilder/bin/etcd"]).expect_err("no API server");
        assert_eq!(
            error,
            "kube-apiserver is not at /usr/local/kubebuilder/bin/kube-apiserver (--api-server); name the files, or set \
             KUBEBUILDER_ASSETS to the folder that `setup-envtest use -p path` prints, or use a running API server with \
             --attach"
        );
    }
}
