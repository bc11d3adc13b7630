//! The page of a manager: who may use it, and what they see.

use std::{io, sync::Arc};

use futures::future::BoxFuture;
use nephele_controller::chain;
use nephele_manager::{PagePort, VisitorError, Visitors};
use nephele_page::{Admitted, Allowance, Door, LibraryEntry, NotAdmitted, SignIn, Source, serve_visits};

use crate::{
    matcher::matcher,
    scenario::{page_entries, page_library_of},
};

/// Whoever the manager lets in. All see the same library.
struct ByToken {
    visitors: Visitors,
    entries: Arc<[LibraryEntry]>,
}

impl Door for ByToken {
    fn admit(&self, sign_in: SignIn) -> BoxFuture<'_, Result<Admitted, NotAdmitted>> {
        Box::pin(async move {
            let SignIn {
                token,
                namespace,
                from,
            } = sign_in;
            let visitor = self.visitors.admit(&token, namespace.as_deref(), from).await;
            let visitor = visitor.map_err(|error| refusal(error, namespace.as_deref()))?;
            let client = visitor.client.clone();
            let library = page_library_of(client.clone(), Arc::clone(&self.entries));
            Ok(Admitted {
                user: visitor.user(),
                source: Source {
                    client,
                    namespace,
                    journal: visitor.journal.clone(),
                    allowance: Allowance::unlimited(),
                },
                library,
                ended: Box::pin(visitor.ended()),
            })
        })
    }
}

fn refusal(error: VisitorError, namespace: Option<&str>) -> NotAdmitted {
    match error {
        VisitorError::Namespace(_) => NotAdmitted::NoNamespace(namespace.unwrap_or_default().to_owned()),
        VisitorError::UnknownToken => NotAdmitted::UnknownToken,
        VisitorError::Forbidden(what) => NotAdmitted::Forbidden(what),
        VisitorError::Busy => NotAdmitted::Busy,
        error @ (VisitorError::Review(_) | VisitorError::Client(_)) => {
            tracing::warn!(error = %chain(&error), "Failed to review who signs in to the page");
            NotAdmitted::Unanswered
        }
    }
}

/// Serves the page until the manager stops.
pub(crate) fn serve(port: PagePort) -> BoxFuture<'static, io::Result<()>> {
    Box::pin(async move {
        let PagePort {
            listener,
            tls,
            visitors,
            clock,
            stop,
        } = port;
        let entries = page_entries().map_err(|error| io::Error::other(chain(error.as_ref())))?;
        let door = Arc::new(ByToken { visitors, entries });
        let served = serve_visits(listener, tls, door, matcher, clock, stop).await;
        served.map_err(io::Error::other)
    })
}
