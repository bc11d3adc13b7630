//! The account for a reader of the journal, while the command runs.

use std::time::Duration;

use crate::{
    access::Access,
    diagnostics::{AccountFor, Manager, TokenArgs},
    provider::ProviderArgs,
};

/// The label of what the command creates.
const LABEL: &str = "nephele.dev/journal";
/// The longest time for which the journal is followed with one token.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(12 * 3600);

/// The manager. Without a token, creates an account that may read the journal, or its part about the only namespace that is
/// asked for, and nothing else.
pub(crate) async fn manager(
    access: &Access,
    provider: &ProviderArgs,
    token: &TokenArgs,
    namespace: Option<&str>,
) -> anyhow::Result<Manager> {
    let run = format!("{:08x}", fastrand::u32(..));
    let wanted = AccountFor {
        name: format!("nephele-journal-{run}"),
        label: (LABEL, &run),
        path: "/journal",
        verbs: &["get"],
        namespace,
        time_limit: TIME_LIMIT,
    };
    Manager::find(access, provider, token, wanted).await
}
