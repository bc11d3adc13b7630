//! The chapters of the workshop with Cluster API itself, as processes beside `nephele up`. Those that need it are compared with the book.

use crate::lifecycle::{
    chapters::{Player, SAID, play, shell},
    cluster_api::up_with_cluster_api,
};

#[tokio::test]
async fn chapters_pass_with_cluster_api_itself() -> anyhow::Result<()> {
    let (shell, up) = up_with_cluster_api(
        shell("workshop-cluster-api")?,
        "nephele",
        &format!("--no-page >{SAID}"),
    )
    .await?;
    println!("{}", play(&shell, up, Player::ClusterApi).await?);
    Ok(())
}
