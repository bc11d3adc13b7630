//! A token of a person.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};

use super::plan::{ACCOUNT, Person};
use crate::{diagnostics::request_token, exit::Problem};

/// A token, and until when it is valid.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) until: Option<Timestamp>,
}

impl Token {
    /// A token of a person for an audience, or for the API server.
    pub(super) async fn request(
        client: &Client,
        person: &Person,
        audience: Option<&str>,
        valid: Duration,
    ) -> anyhow::Result<Self> {
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &person.namespace);
        let answer = request_token(&accounts, ACCOUNT, audience, valid).await;
        let status = answer.map_err(|error| {
            let what = format!("request a token for namespace {}", person.namespace);
            Problem::request(&what, "create serviceaccounts/token", error)
        })?;
        let none = "failed to request a token: the answer has none";
        let status = status.context(none)?;
        Ok(Self {
            text: status.token.context(none)?,
            until: status.expiration_timestamp.map(|until| until.0),
        })
    }
}
