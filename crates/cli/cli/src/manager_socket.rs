//! The manager in the process of `nephele up --cluster-api`: the API server there is not ours, so the routes of the cloud are
//! served by a socket beside the kubeconfig. Only who may read the one may connect to the other.
//!
//! ```text
//!  nephele journal --kubeconfig up/management.kubeconfig ──▶ up/manager.sock ──▶ manager
//! ```

use std::{
    fs::{self, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use axum::Router;
use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

/// The name of the socket, in the folder of the kubeconfig.
const NAME: &str = "manager.sock";

/// The kubeconfig of an administrator in that folder. Others lead to other clusters.
const KUBECONFIG: &str = "management.kubeconfig";

/// The socket beside the kubeconfig of a `nephele up`, if there is one. In a folder where others may write, one of theirs does not count, nor a
/// link to another.
pub(crate) fn beside(kubeconfig: &Path) -> Option<PathBuf> {
    kubeconfig.file_name().filter(|name| *name == KUBECONFIG)?;
    let socket = kubeconfig.with_file_name(NAME);
    let found = fs::symlink_metadata(&socket).ok()?;
    let is_of_its_owner = found.uid() == fs::metadata(kubeconfig).ok()?.uid();
    (found.file_type().is_socket() && is_of_its_owner).then_some(socket)
}

/// Listens in a folder, in place of a process that has ended there.
///
/// # Errors
/// When the path is longer than that of a socket may be, or the folder refuses it.
pub(crate) fn listen(folder: &Path) -> anyhow::Result<UnixListener> {
    let path = folder.join(NAME);
    let bind = || -> io::Result<UnixListener> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    bind().with_context(|| format!("failed to listen on {}", path.display()))
}

/// Serves the routes of a cloud until `stop`, and removes the socket. Whoever follows the journal is not waited for.
pub(crate) async fn serve(
    listener: UnixListener,
    routes: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let address = listener
        .local_addr()
        .context("failed to find the manager's socket")?;
    let served = stop
        .run_until_cancelled(axum::serve(listener, routes).into_future())
        .await;
    if let Some(path) = address.as_pathname() {
        // The next run replaces one that stays.
        drop(fs::remove_file(path));
    }
    served
        .unwrap_or(Ok(()))
        .context("failed to serve the manager's socket")
}

/// A client of the manager behind a socket. Each request has a connection of its own.
pub(crate) fn client(socket: PathBuf) -> Client {
    let ask = move |request| send(socket.clone(), request);
    Client::new(tower::service_fn(ask), "default")
}

async fn send(socket: PathBuf, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
    let stream = UnixStream::connect(&socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // It ends when the answer was read or dropped.
    tokio::spawn(connection);
    let host = header::HeaderValue::from_static("localhost");
    request.headers_mut().insert(header::HOST, host);
    Ok(sender.send_request(request).await?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn a_socket_serves_its_owner_replaces_one_that_was_left_and_is_gone_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("management.kubeconfig");
        fs::write(&kubeconfig, "").expect("written");
        assert_eq!(beside(&kubeconfig), None);
        drop(listen(folder.path()).expect("it listens"));
        let listener = listen(folder.path()).expect("it listens again");
        let socket = beside(&kubeconfig).expect("there is one");
        let mode = fs::metadata(&socket).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let routes = Router::new().route("/journal", get(async || "records\n"));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, routes, stop.clone()));
        let request = Request::get("/journal?follow=false")
            .body(Vec::new())
            .expect("a request");
        let said = client(socket.clone()).request_text(request).await;
        assert_eq!(said.expect("an answer"), "records\n");
        // One that stays connected is not waited for.
        let _open = UnixStream::connect(&socket).await.expect("it connects");
        stop.cancel();
        serving.await.expect("no panic").expect("it ends");
        assert_eq!(beside(&kubeconfig), None);
    }

    #[tokio::test]
    async fn a_socket_of_another_user_and_a_link_do_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("management.kubeconfig");
        fs::write(&kubeconfig, "").expect("written");
        let _listener = listen(folder.path()).expect("it listens");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let linked = elsewhere.path().join("management.kubeconfig");
        fs::write(&linked, "").expect("written");
        symlink(folder.path().join(NAME), elsewhere.path().join(NAME)).expect("linked");
        assert_eq!(beside(&linked), None);
        assert!(beside(&kubeconfig).is_some());
        // Only root may give files away.
        if chown(folder.path().join(NAME), Some(1), None).is_ok() {
            assert_eq!(beside(&kubeconfig), None);
        }
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_for_a_socket_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a".repeat(120));
        fs::create_dir(&deep).expect("a folder");
        let error = listen(&deep).expect_err("108 bytes at most");
        assert!(error.to_string().starts_with("failed to listen on "), "{error:#}");
    }
}
