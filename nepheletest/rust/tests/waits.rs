//! Waits say what was missing, and end with Nephele.

use std::{error::Error, process::Command, time::Duration};

use nepheletest::{Nephele, StopError, WaitError};

use crate::objects::expect_error;

#[tokio::test]
async fn wait_says_what_was_seen_last() -> anyhow::Result<()> {
    let nephele = Nephele::builder()
        .wait_limit(Duration::from_millis(500))
        .start()
        .await?;
    let log = nephele.log().display().to_string();
    let unripe = std::fmt::Error;
    let waited = nephele
        .wait_until("the fruit is ripe", async || Err::<(), _>(unripe))
        .await;
    let Err(error @ WaitError::Time { .. }) = &waited else {
        panic!("{waited:?}")
    };
    assert!(error.source().is_some());
    let seen = format!("last seen: {unripe}");
    expect_error(
        waited,
        &[
            "failed to wait until the fruit is ripe",
            "500ms",
            &seen,
            &log,
            "Starting",
        ],
    );
    let waited = nephele.wait_for_cluster("default", "absent").await;
    expect_error(waited, &["the Cluster default/absent is available", "not found"]);
    let waited = nephele
        .wait_until("it answers", async || {
            std::future::pending::<Result<(), String>>().await
        })
        .await;
    expect_error(waited, &["last seen: nothing"]);
    Ok(nephele.stop().await?)
}

#[tokio::test]
async fn end_of_nephele_ends_waits() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let nephele = Nephele::builder()
        .folder(temporary.path().join("nephele"))
        .start()
        .await?;
    let id = nephele.process_id().to_string();
    let waited = nephele
        .wait_until("it is over", async || {
            let killed = Command::new("kill").args(["-9", &id]).status();
            Err::<(), _>(format!("not yet: {killed:?}"))
        })
        .await;
    expect_error(
        waited,
        &["failed to wait until it is over: nephele has ended", "signal: 9"],
    );
    let stopped = nephele.stop().await;
    assert!(matches!(stopped, Err(StopError::Early(_))), "{stopped:?}");
    Ok(())
}
