//! The library of scenarios for the page.

use std::sync::Arc;

use anyhow::Context as _;
use futures::future::BoxFuture;
use kube::Client;
use nephele_controller::chain;
use nephele_page::{Lacks, Library, LibraryEntry};
use nephele_scenario_library::{self as library, Entry};

use super::{
    list::short,
    needs::{Lack, Seen, lacks, told},
    setting::Setting,
};

/// The library, on a management cluster.
struct PageLibrary {
    client: Client,
    entries: Arc<[LibraryEntry]>,
}

/// The library, on the management cluster of a client.
///
/// # Errors
/// When an entry cannot be read.
pub(crate) fn page_library(client: Client) -> anyhow::Result<Arc<dyn Library>> {
    Ok(page_library_of(client, page_entries()?))
}

/// The entries of the library, for pages that share them.
///
/// # Errors
/// When an entry cannot be read.
pub(crate) fn page_entries() -> anyhow::Result<Arc<[LibraryEntry]>> {
    let entries = library::all()?.into_iter().map(of_page);
    entries.collect()
}

/// The library with these entries, on the management cluster of a client.
pub(crate) fn page_library_of(client: Client, entries: Arc<[LibraryEntry]>) -> Arc<dyn Library> {
    Arc::new(PageLibrary { client, entries })
}

fn of_page(entry: Entry) -> anyhow::Result<LibraryEntry> {
    let scenario = serde_json::from_value(entry.scenario);
    Ok(LibraryEntry {
        shows: entry.about.shows,
        takes: short(entry.about.takes),
        // It is written for a terminal.
        story: entry.story.replace('`', ""),
        needs: entry.needs.word(),
        scenario: scenario.with_context(|| format!("failed to read the scenario {}", entry.name))?,
    })
}

impl PageLibrary {
    /// An entry, the management cluster, and what is there of what the entry needs.
    async fn seen(&self, namespace: &str, name: &str) -> anyhow::Result<(Entry, Setting, Seen)> {
        let entry = super::library::entry(name)?;
        let setting = Setting::new(self.client.clone(), namespace);
        let seen = setting.see(&entry.scenario, Some(&entry.cluster)).await?;
        Ok((entry, setting, seen))
    }

    async fn lacks(&self, namespace: &str, name: &str) -> anyhow::Result<Lacks> {
        let (entry, _, seen) = self.seen(namespace, name).await?;
        let lacks = lacks(&entry.scenario, &entry.cluster, &seen);
        let is_object = |lack: &Lack| matches!(lack, Lack::Object { .. });
        Ok(Lacks {
            told: lacks.iter().map(|lack| told(lack, namespace)).collect(),
            can_be_made: !lacks.is_empty() && lacks.iter().all(is_object),
        })
    }

    async fn make(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let (entry, setting, seen) = self.seen(namespace, name).await?;
        setting.create_missing(&entry.cluster, &seen, |_| Ok(())).await
    }
}

impl Library for PageLibrary {
    fn entries(&self) -> &[LibraryEntry] {
        &self.entries
    }

    fn lacks<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Lacks, String>> {
        Box::pin(async move {
            let lacks = self.lacks(namespace, name).await;
            lacks.map_err(|error| chain(error.as_ref()))
        })
    }

    fn make<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let made = self.make(namespace, name).await;
            made.map_err(|error| chain(error.as_ref()))
        })
    }
}

#[cfg(test)]
mod tests {
    use nephele_testkit::{ManagementApi, objects};

    use super::*;

    #[tokio::test]
    async fn what_an_entry_lacks_is_told_and_can_be_made() {
        let management = ManagementApi::start();
        let library = page_library(management.client()).expect("readable");
        assert_eq!(library.entries().len(), library::names().count());
        let lacks = library
            .lacks(objects::NAMESPACE, "quota")
            .await
            .expect("it is known");
        assert!(lacks.can_be_made, "{lacks:?}");
        assert!(
            lacks
                .told
                .contains(&"there is no Cluster demo in namespace default".to_owned()),
            "{lacks:?}"
        );
        library
            .make(objects::NAMESPACE, "quota")
            .await
            .expect("it is taken");
        let lacks = library
            .lacks(objects::NAMESPACE, "quota")
            .await
            .expect("it is known");
        assert_eq!(lacks, Lacks::default());
    }
}
