//! What a developer reads after a mistake.

use std::{fs, time::Duration};

use nepheletest::Nephele;
use serde_json::json;

use crate::objects::{cluster_with, expect_error};

#[tokio::test]
async fn missing_program_says_how_to_get_it() {
    let started = Nephele::builder().program("/absent/nephele").start().await;
    expect_error(
        started,
        &[
            "failed to run the program /absent/nephele (from Builder::program)",
            "cargo build",
            "set NEPHELE",
            "No such",
        ],
    );
}

#[tokio::test]
async fn stand_in_without_attach_is_refused() {
    expect_error(
        Nephele::builder().stand_in().start().await,
        &["stand_in needs attach"],
    );
}

#[tokio::test]
async fn mistake_in_a_file_reaches_the_developer() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let broken = temporary.path().join("broken.yaml");
    fs::write(&broken, "apiVersion: [")?;
    let cases = [
        (
            Nephele::builder().file(&broken),
            format!("failed to read document 1 of {}", broken.display()),
        ),
        (
            Nephele::builder().file("absent.yaml"),
            "failed to read absent.yaml".to_owned(),
        ),
        (
            Nephele::builder().object(json!({"kind": "A"})),
            "document 1 of the objects has no apiVersion".to_owned(),
        ),
        (
            Nephele::builder().object(cluster_with("default", "small", -1)),
            "Cluster default/small cannot be created".to_owned(),
        ),
    ];
    for (builder, expected) in cases {
        let started = builder.folder(temporary.path().join("nephele")).start().await;
        expect_error(started, &["failed to start nephele", &expected]);
    }
    Ok(())
}

#[tokio::test]
async fn cluster_that_is_not_available_in_time_is_an_error() -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let folder = temporary.path().join("nephele");
    // Nothing plays Cluster API for a Cluster without a topology.
    let mut lonely = cluster_with("default", "lonely", 0);
    lonely.data = json!({"spec": {}});
    let builder = Nephele::builder()
        .object(lonely)
        .time_limit(Duration::from_millis(100))
        .folder(&folder);
    let expected = [
        "not all Clusters are available within 100ms",
        "Cluster default/lonely: ",
        folder.to_str().expect("a temporary folder has a name in UTF-8"),
        "the last lines of the log",
    ];
    expect_error(builder.start().await, &expected);
    Ok(())
}
