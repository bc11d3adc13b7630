//! Requests to the API server.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use nephele_apiserver::ApiServer;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use crate::{
    input::{choice, halves},
    server::{COLLECTIONS, JSON, PROTOBUF, TABLE, send, server, shows, types},
    simulated_time::run,
};

const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The headers that the server reads.
const HEADERS: [&str; 7] = [
    "accept",
    "content-type",
    "accept-encoding",
    "impersonate-user",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-extra-a%2fb",
];

/// A patch of any type. A merge patch and a configuration that are sent again change nothing.
pub(crate) fn patch(data: &[u8]) {
    let Some((kind, rest)) = choice(data, PATCHES.len()) else {
        return;
    };
    let Some((collection, body)) = choice(rest, COLLECTIONS.len()) else {
        return;
    };
    let force = if kind == 3 { "&force=true" } else { "" };
    let uri = format!("{}/a?fieldManager=fuzz{force}", COLLECTIONS[collection]);
    let server = server();
    run(async {
        if patched(&server, &uri, PATCHES[kind], body).await.is_success() && matches!(kind, 1 | 3) {
            let before = server.store().resource_version();
            patched(&server, &uri, PATCHES[kind], body).await;
            assert_eq!(
                server.store().resource_version(),
                before,
                "the second patch changes nothing"
            );
        }
        shows(&server, collection).await;
    });
}

async fn patched(server: &ApiServer, uri: &str, content_type: &str, body: &[u8]) -> StatusCode {
    send(server, ("PATCH", uri), types(content_type, JSON), body)
        .await
        .expect("the path is one")
        .status
}

/// Configurations that two managers apply in turn.
pub(crate) fn apply(data: &[u8]) {
    let Some((collection, rest)) = choice(data, COLLECTIONS.len()) else {
        return;
    };
    let Some((force, bodies)) = choice(rest, 2) else {
        return;
    };
    let (first, second) = halves(bodies);
    let server = server();
    run(async {
        for (manager, body) in [("one", first), ("two", second), ("one", first)] {
            let uri = format!(
                "{}/a?fieldManager={manager}&force={}",
                COLLECTIONS[collection],
                force == 1
            );
            patched(&server, &uri, PATCHES[3], body).await;
        }
        shows(&server, collection).await;
    });
}

/// Selectors of labels and of fields, for a list, a watch and a deletion.
pub(crate) fn selectors(data: &[u8]) {
    let Some((collection, texts)) = choice(data, COLLECTIONS.len()) else {
        return;
    };
    let (labels, fields) = halves(texts);
    let encoded = |text| percent_encode(text, NON_ALPHANUMERIC);
    let uri = COLLECTIONS[collection];
    let selected = format!(
        "{uri}?labelSelector={}&fieldSelector={}",
        encoded(labels),
        encoded(fields)
    );
    let server = server();
    run(async {
        let listed = send(&server, ("GET", &selected), types(JSON, JSON), &[])
            .await
            .expect("the path is one");
        let watch = format!("{selected}&watch=true");
        let watched = send(&server, ("GET", &watch), types(JSON, JSON), &[])
            .await
            .expect("the path is one");
        assert_eq!(watched.status, listed.status, "{selected}");
        send(&server, ("DELETE", &selected), types(JSON, JSON), &[]).await;
        shows(&server, collection).await;
    });
}

/// An object in protobuf, of any kind.
pub(crate) fn protobuf(data: &[u8]) {
    let server = server();
    let Some((kind, body)) = choice(data, server.store().resource_types().len()) else {
        return;
    };
    let uri = collection(&server, kind);
    run(async {
        let created = send(&server, ("POST", &uri), types(PROTOBUF, JSON), body)
            .await
            .expect("the path is one");
        if created.status.is_success() {
            shows_rows(&server, &uri).await;
        }
    });
}

/// An object of any kind, that is shown as a row.
pub(crate) fn table(data: &[u8]) {
    let server = server();
    let Some((kind, body)) = choice(data, server.store().resource_types().len()) else {
        return;
    };
    let uri = collection(&server, kind);
    run(async {
        let created = send(&server, ("POST", &uri), types(JSON, TABLE), body)
            .await
            .expect("the path is one");
        if created.status.is_success() {
            shows_rows(&server, &uri).await;
        }
    });
}

/// The path of the collection of a kind.
fn collection(server: &ApiServer, kind: usize) -> String {
    let kind = &server.store().resource_types()[kind];
    let group = if kind.group.is_empty() {
        "api".to_owned()
    } else {
        format!("apis/{}", kind.group)
    };
    let namespace = if kind.namespaced {
        "namespaces/default/"
    } else {
        ""
    };
    format!("/{group}/{}/{namespace}{}", kind.versions[0], kind.plural)
}

async fn shows_rows(server: &ApiServer, uri: &str) {
    let listed = send(server, ("GET", uri), types(JSON, TABLE), &[])
        .await
        .expect("the path is one");
    assert_eq!(listed.status, StatusCode::OK, "{uri}");
}

/// Any path and query, with any body.
pub(crate) fn request(data: &[u8]) {
    const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
    let Some((method, rest)) = choice(data, METHODS.len()) else {
        return;
    };
    let Some((content_type, rest)) = choice(rest, PATCHES.len() + 1) else {
        return;
    };
    let (uri, body) = halves(rest);
    let Ok(uri) = std::str::from_utf8(uri) else { return };
    let content_type = PATCHES.get(content_type).copied().unwrap_or(JSON);
    let server = server();
    run(async {
        send(&server, (METHODS[method], uri), types(content_type, JSON), body).await;
        for collection in 0..COLLECTIONS.len() {
            shows(&server, collection).await;
        }
    });
}

/// A list, a watch or a review with any values of the headers that the server reads.
pub(crate) fn headers(data: &[u8]) {
    const TARGETS: [(&str, &str); 5] = [
        ("GET", COLLECTIONS[2]),
        (
            "GET",
            "/api/v1/namespaces/default/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ),
        ("GET", "/apis"),
        ("GET", "/openapi/v2"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ];
    let Some((target, mut rest)) = choice(data, TARGETS.len()) else {
        return;
    };
    let mut headers = HeaderMap::new();
    while let Some((name, line)) = choice(rest, HEADERS.len()) {
        let (value, next) = halves(line);
        rest = next;
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(HEADERS[name]), value);
        }
    }
    let server = server();
    run(async {
        send(&server, TARGETS[target], headers, b"{}").await;
    });
}
