//! A token of a person.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};

use super::plan::{ACCOUNT, Person};
use crate::exit::Problem;

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
        let seconds = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: audience.map(|audience| vec![audience.to_owned()]),
                expiration_seconds: Some(seconds),
                bound_object_ref: None,
            }),
            ..TokenRequest::default()
        };
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &person.namespace);
        let answer = accounts
            .create_token_request(ACCOUNT, &PostParams::default(), &request)
            .await;
        let answer = answer.map_err(|error| {
            let what = format!("request a token for namespace {}", person.namespace);
            Problem::request(&what, "create serviceaccounts/token", error)
        })?;
        let status = answer
            .status
            .context("failed to request a token: the answer has none")?;
        Ok(Self {
            text: status.token.unwrap_or_default(),
            until: status.expiration_timestamp.map(|until| until.0),
        })
    }
}
