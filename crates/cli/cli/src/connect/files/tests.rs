use super::*;

const SECRET: &str = "{current-context: c, clusters: [{name: c, cluster: {server: 'https://h:1'}}],
    users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}";

fn entry(name: &str) -> Entry {
    Entry::new(SECRET, name, ([127, 0, 0, 1], 20_000).into()).expect("a kubeconfig")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_cluster_has_a_file_that_only_its_owner_reads_and_that_goes_at_the_end() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("kubeconfigs");
    let destination = Destination::folder(folder.clone()).expect("a folder");
    let arguments = destination.put(&entry("default-demo")).await.expect("written");
    let file = folder.join("default-demo.kubeconfig");
    assert_eq!(arguments, ["--kubeconfig", &file.display().to_string()]);
    assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    assert_eq!(names(&folder), ["default-demo.kubeconfig"]);
    // Writing it again is fine: a former run may have been killed.
    destination.put(&entry("default-demo")).await.expect("written");
    destination
        .close(&[entry("default-demo")])
        .await
        .expect("removed");
    assert!(!folder.exists());
}

#[tokio::test]
async fn files_of_others_in_the_folder_stay() {
    let base = tempfile::tempdir().expect("a folder");
    let destination = Destination::folder(base.path().to_owned()).expect("a folder");
    let file = base.path().join("a-b.kubeconfig");
    fs::write(&file, "contexts: [{name: a-b}]").expect("written");
    assert!(destination.put(&entry("a-b")).await.is_err());
    destination.close(&[entry("a-b")]).await.expect("closed");
    assert_eq!(
        fs::read_to_string(&file).expect("a file"),
        "contexts: [{name: a-b}]"
    );
}

#[tokio::test]
async fn link_and_permissions_of_the_users_file_stay() {
    let base = tempfile::tempdir().expect("a folder");
    let file = base.path().join("real");
    let link = base.path().join("config");
    fs::write(&file, "current-context: kind\n").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("permissions");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let destination = Destination::File {
        path: link.clone(),
        usual: true,
    };
    assert_eq!(
        destination.put(&entry("a-b")).await.expect("written"),
        ["--context", "a-b"]
    );
    assert!(fs::read_to_string(&file).expect("a file").contains("name: a-b"));
    assert!(link.is_symlink());
    assert_eq!(mode(&file), 0o640);
    destination.close(&[entry("a-b")]).await.expect("removed");
    let left: kube::config::Kubeconfig = kube::config::Kubeconfig::read_from(&file).expect("a kubeconfig");
    assert_eq!(
        (left.current_context.as_deref(), left.contexts.len()),
        (Some("kind"), 0)
    );
    assert_eq!(names(base.path()), ["config", "real"]);
}

#[tokio::test(start_paused = true)]
async fn lock_of_another_program_is_respected() {
    let base = tempfile::tempdir().expect("a folder");
    let file = base.path().join("config");
    let lock = base.path().join("config.lock");
    fs::write(&lock, "").expect("written");
    let destination = Destination::File {
        path: file.clone(),
        usual: true,
    };
    let error = destination.put(&entry("a-b")).await.expect_err("locked");
    assert!(error.to_string().contains("config.lock"), "{error}");
    assert!(lock.exists() && !file.exists());
    fs::remove_file(&lock).expect("removed");
    destination.put(&entry("a-b")).await.expect("written");
    assert!(!lock.exists() && file.exists());
}

#[test]
fn usual_kubeconfig_is_that_of_client_go() {
    let base = tempfile::tempdir().expect("a folder");
    let there = base.path().join("there");
    fs::write(&there, "").expect("written");
    let of = |variable: Option<&str>| usual_kubeconfig(variable.map(OsStr::new), Some(Path::new("/home/me")));
    assert_eq!(of(None), Some("/home/me/.kube/config".into()));
    assert_eq!(of(Some("")), Some("/home/me/.kube/config".into()));
    assert_eq!(of(Some("/nowhere/a:/nowhere/b")), Some("/nowhere/b".into()));
    assert_eq!(
        of(Some(&format!("/nowhere/a:{}:/nowhere/b", there.display()))),
        Some(there)
    );
}
