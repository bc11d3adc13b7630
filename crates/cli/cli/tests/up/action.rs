//! The script of the GitHub Action, against a release in a folder.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: small}
spec:
  topology:
    classRef: {name: in-memory}
    version: v1.36.3
    controlPlane: {replicas: 1}
";

/// A folder for a job, with a release in `releases`.
struct Job(tempfile::TempDir);

impl Job {
    fn new() -> Self {
        let job = Self(tempfile::tempdir().expect("a folder"));
        let arch = if cfg!(target_arch = "x86_64") {
            "amd64"
        } else {
            "arm64"
        };
        let os = if cfg!(target_os = "macos") {
            "darwin"
        } else {
            "linux"
        };
        let name = format!("nephele-v9.9.9-{os}-{arch}");
        let release = job.path("releases/v9.9.9");
        let packed = job.path(&name);
        fs::create_dir_all(&release).expect("a folder");
        fs::create_dir_all(&packed).expect("a folder");
        // The program itself is large, and would have to be packed and unpacked.
        let program = packed.join("nephele");
        let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_nephele"));
        fs::write(&program, text).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        let pack = "tar -czf releases/v9.9.9/$1.tar.gz $1 && cd releases/v9.9.9 && \
                    if command -v sha256sum >/dev/null; then sha256sum $1.tar.gz; else shasum -a 256 $1.tar.gz; fi >SHA256SUMS";
        let packed = Command::new("sh")
            .args(["-c", pack, "sh", &name])
            .current_dir(job.0.path())
            .status();
        assert!(packed.expect("sh").success());
        job
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.github/actions/nephele-up/up.sh");
        Command::new(script)
            .args(arguments)
            .env("NEPHELE_VERSION", "v9.9.9")
            .env("NEPHELE_FOLDER", self.path("job"))
            .env(
                "NEPHELE_DOWNLOADS",
                format!("file://{}", self.path("releases").display()),
            )
            .output()
            .expect("the script starts")
    }
}

/// The process outlives the step that started it, so the test has to end it.
impl Drop for Job {
    fn drop(&mut self) {
        if let Ok(id) = fs::read_to_string(self.path("job/pid")) {
            let _ = Command::new("kill").arg(id.trim()).status();
        }
    }
}

#[test]
fn the_action_runs_a_release_until_the_job_ends() {
    let job = Job::new();
    let installed = job.run(&["install"]);
    assert!(installed.status.success(), "{installed:?}");
    fs::write(job.path("cluster.yaml"), CLUSTER).expect("written");
    let file = job.path("cluster.yaml").display().to_string();
    let started = job.run(&[
        "start",
        "--file",
        &file,
        "--no-page",
        "--port-range",
        "29100-29199",
    ]);
    assert!(started.status.success(), "{started:?}");
    let line: serde_json::Value = serde_json::from_slice(&started.stdout).expect("a line of JSON");
    assert_eq!(line["clusters"][0]["name"], "small");
    let kubeconfig = job.path("job/up/management.kubeconfig");
    assert_eq!(line["management"]["kubeconfig"], kubeconfig.display().to_string());
    // The script has ended, and what it started answers.
    let mut get = Command::new(env!("CARGO_BIN_EXE_nephele"));
    let seen = get
        .args(["get", "clusters", "--kubeconfig"])
        .arg(kubeconfig)
        .output()
        .expect("it starts");
    assert!(
        String::from_utf8_lossy(&seen.stdout).contains("small"),
        "{seen:?}"
    );
}

#[test]
fn the_action_installs_nothing_whose_checksum_differs() {
    let job = Job::new();
    let sums = job.path("releases/v9.9.9/SHA256SUMS");
    let changed = fs::read_to_string(&sums).expect("readable").split_off(64);
    fs::write(&sums, "0".repeat(64) + &changed).expect("written");
    let installed = job.run(&["install"]);
    let said = String::from_utf8_lossy(&installed.stderr).into_owned();
    assert!(
        said.contains("is not what was released: its checksum differs"),
        "{said}"
    );
    assert_eq!(
        (installed.status.code(), job.path("job/nephele").exists()),
        (Some(1), false)
    );
}
