//! A complete extension: a cluster is created only if an annotation names its cost center.
//!
//! `cargo run --example before_create -- /path/to/certificates` serves it on 9443 with `tls.crt` and `tls.key` from there.

use std::{env, error::Error, net::TcpListener};

use nephele_runtime_sdk::{
    hooks::{BeforeClusterCreate, BeforeClusterCreateResponse},
    server::{Extension, Tls, TlsFiles, serve},
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let extension = Extension::new().on(BeforeClusterCreate, "cost-center", |request, _call| async move {
        if request.cluster.annotation("example.com/cost-center").is_none() {
            return Ok(BeforeClusterCreateResponse::retry_after(
                30,
                "annotate who pays: example.com/cost-center",
            ));
        }
        Ok(BeforeClusterCreateResponse::default())
    });
    let folder = env::args()
        .nth(1)
        .unwrap_or_else(|| "/tmp/k8s-webhook-server/serving-certs".to_owned());
    let tls = Tls::load(TlsFiles::in_folder(folder)).await?;
    let shutdown = CancellationToken::new();
    let ended = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        ended.cancel();
    });
    serve(
        extension.build()?,
        TcpListener::bind("0.0.0.0:9443")?,
        tls,
        shutdown,
    )
    .await?;
    Ok(())
}
