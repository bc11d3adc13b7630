//! An API server's own metrics.

use anyhow::Context;
use http::Request;
use nephele_e2e::Management;

/// The current metrics.
pub(super) async fn metrics(management: &Management) -> anyhow::Result<String> {
    let request = Request::get("/metrics")
        .body(Vec::new())
        .context("failed to write a request")?;
    let text = management.client().request_text(request).await;
    text.context("failed to read the metrics of the API server")
}
