//! Calls of Cluster API's hooks.

use std::{convert::Infallible, sync::Arc};

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use nephele_apiserver::{ApiServer, UserInfo};
use nephele_runtime_sdk::server::Service;
use nephele_test_extension::{Access, extension};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::{
    input::choice,
    server::{now, server},
};

thread_local! {
    static EXTENSION: Extension = Extension::new();
}

/// An extension, which takes long to build, with the API server in which it finds its ConfigMaps.
struct Extension {
    service: Service,
    api: Arc<Mutex<ApiServer>>,
    /// The client of the API server has a task on it.
    runtime: Runtime,
}

impl Extension {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let runtime = runtime.expect("a runtime starts");
        let api = Arc::new(Mutex::new(server()));
        let asked = Arc::clone(&api);
        let client = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let api = asked.lock().clone();
            request.extensions_mut().insert(UserInfo::default());
            async move { Ok::<_, Infallible>(api.handle(request.map(Body::new)).await) }
        });
        let service = {
            let _entered = runtime.enter();
            let access = Access::new(Client::new(client, "default"), Some("default".to_owned()));
            extension(&access, Arc::new(now))
                .build()
                .expect("the names of the handlers are valid")
        };
        Self {
            service,
            api,
            runtime,
        }
    }

    fn call(&self, data: &[u8]) {
        *self.api.lock() = server();
        let paths: Vec<_> = self.service.paths().collect();
        let Some((path, body)) = choice(data, paths.len()) else {
            return;
        };
        let request = Request::post(paths[path]).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_vec())).expect("the path is one");
        self.runtime.block_on(async {
            let Ok(response) = self.service.router().oneshot(request).await;
            assert_ne!(
                response.status(),
                StatusCode::INTERNAL_SERVER_ERROR,
                "{}",
                paths[path]
            );
            response
                .into_body()
                .collect()
                .await
                .expect("no answer breaks off");
        });
    }
}

/// How many hooks there are.
pub(crate) fn count() -> usize {
    EXTENSION.with(|extension| extension.service.paths().count())
}

/// A body for any hook.
pub(crate) fn hooks(data: &[u8]) {
    EXTENSION.with(|extension| extension.call(data));
}
