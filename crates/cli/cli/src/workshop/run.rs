//! A Scenario of a check runs in place of a former one.

use std::time::Duration;

use kube::{Api, ResourceExt as _};
use nephele_api::cloud::v1alpha1::Scenario;
use tokio_util::sync::CancellationToken;

use crate::scenario::{create, delete, followed};

/// How long a check may take: more than the limits of its steps together.
const CHECKED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Where Scenarios of a check run.
pub(super) struct Run<'a> {
    pub(super) api: &'a Api<Scenario>,
    pub(super) namespace: &'a str,
    /// The Scenarios of chapters before the check.
    pub(super) former: &'a [Scenario],
    pub(super) shutdown: &'a CancellationToken,
}

impl Run<'_> {
    /// Runs a Scenario in place of a former one of its name, and returns it when it is over. None when it is interrupted.
    pub(super) async fn followed(&self, wanted: &Scenario) -> anyhow::Result<Option<Scenario>> {
        let name = wanted.name_any();
        let former = self.former.iter().find(|former| former.name_any() == name);
        if let Some(former) = former {
            delete(self.api, former).await?;
        }
        let name = create(self.api, self.namespace, wanted).await?;
        followed(self.api, &name, CHECKED_WITHIN, self.shutdown.clone()).await
    }
}
