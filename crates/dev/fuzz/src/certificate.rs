//! Certificates of clients.

use http::StatusCode;
use nephele_apiserver::UserInfo;
use nephele_pki::parse_client;

use crate::{
    server::{JSON, send_as, server, types},
    simulated_time::run,
};

/// A certificate. The server tells its user who they are.
pub(crate) fn certificate(data: &[u8]) {
    let Ok(identity) = parse_client(data) else { return };
    let user = UserInfo {
        name: identity.common_name,
        groups: identity.organizations,
    };
    let server = server();
    let review = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    run(async {
        let answer = send_as(&server, user, review, types(JSON, JSON), b"{}")
            .await
            .expect("the path is one");
        assert_eq!(
            answer.status,
            StatusCode::CREATED,
            "every user may ask for their name"
        );
    });
}
