//! What the page shows, for others who show it.

use std::sync::Arc;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use nephele_cloud::JournalLine;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    follow::{Source, follow},
    model::Model,
};

/// What is there at a time.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    pub model: Arc<Model>,
    /// The last records of the journal, at most 4,096; the oldest is the first.
    pub journal: Vec<Arc<JournalLine>>,
}

/// What is there, and again whenever it has changed, at most six times a second. It ends with `stop`.
#[must_use]
pub fn sights(source: Source, stop: CancellationToken) -> BoxStream<'static, Sight> {
    let (published, objects) = watch::channel(None);
    let following = follow(source, published, || true);
    tokio::spawn(stop.run_until_cancelled_owned(following));
    let next = |(mut objects, before): (watch::Receiver<Option<Arc<_>>>, Arc<Model>)| async move {
        loop {
            objects.changed().await.ok()?;
            let Some(now) = objects.borrow_and_update().clone() else {
                continue;
            };
            let model = Arc::new(Model::after(&before, &now, None));
            let sight = Sight {
                model: Arc::clone(&model),
                journal: now.journal.clone(),
            };
            return Some((sight, (objects, model)));
        }
    };
    stream::unfold((objects, Arc::default()), next).boxed()
}
