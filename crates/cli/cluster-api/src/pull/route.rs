//! Where a request goes next: after a redirect, or for a token. Pure.

use std::{collections::BTreeMap, net::IpAddr};

use http::{
    HeaderMap, StatusCode, Uri,
    header::{LOCATION, WWW_AUTHENTICATE},
    uri::Scheme,
};

use super::error::PullError;

/// What to do with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To read it: it has what was asked for.
    Read,
    Follow(Uri),
    /// To ask again with the token that is there.
    Token(Uri),
}

/// Decides by the status and the headers of an answer.
pub(super) fn next(at: &Uri, status: StatusCode, headers: &HeaderMap) -> Result<Next, PullError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let strange = |problem| PullError::Answer {
        at: shown(at),
        problem,
    };
    match status.as_u16() {
        200 => Ok(Next::Read),
        301 | 302 | 303 | 307 | 308 => {
            let location = text(LOCATION).ok_or_else(|| strange("it leads to nowhere"))?;
            let absolute = match location.starts_with('/') && !location.starts_with("//") {
                true => format!("{}{location}", origin(at)),
                false => location.to_owned(),
            };
            read(&absolute, at).map(Next::Follow)
        }
        401 => {
            let asked = text(WWW_AUTHENTICATE).and_then(token_url);
            let url = asked.ok_or_else(|| strange("it asks for something else than a token"))?;
            read(&url, at).map(Next::Token)
        }
        _ => Err(PullError::Status {
            at: shown(at),
            status,
        }),
    }
}

/// Reads a URL that a user or a server names. Without TLS, only this machine may be asked, and only by itself.
pub(super) fn read(url: &str, by: &Uri) -> Result<Uri, PullError> {
    let uri: Uri = url.parse().map_err(|_| PullError::Url(url.to_owned()))?;
    let has_user = uri
        .authority()
        .is_none_or(|authority| authority.as_str().contains('@'));
    let is_plain_here =
        |uri: &Uri| uri.scheme() == Some(&Scheme::HTTP) && uri.host().is_some_and(is_loopback);
    match uri.scheme() == Some(&Scheme::HTTPS) || (is_plain_here(&uri) && is_plain_here(by)) {
        true if !has_user => Ok(uri),
        _ => Err(PullError::Unsafe(shown(&uri))),
    }
}

/// Whether a host, with brackets or without, is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The server of a URL: a token of one goes to no other.
pub(super) fn origin(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default()).to_lowercase()
}

/// A URL without what may be secret in it: where blobs are, the query is a signature.
pub(super) fn shown(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!(
        "{}://{host}{port}{}",
        uri.scheme_str().unwrap_or_default(),
        uri.path()
    )
}

/// Where the token is for which a server asks, as in `Bearer realm="https://…",service="…",scope="…"`.
fn token_url(challenge: &str) -> Option<String> {
    let (scheme, rest) = challenge.trim_start().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut given = parameters(rest);
    let realm = given.remove("realm")?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    for name in ["service", "scope"] {
        if let Some(value) = given.get(name) {
            query.append_pair(name, value);
        }
    }
    let before = match realm.contains('?') {
        true => '&',
        false => '?',
    };
    Some(format!("{realm}{before}{}", query.finish()))
}

/// The parameters of a challenge. A value in quotes may have commas.
fn parameters(mut rest: &str) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    while let Some((name, after)) = rest.split_once('=') {
        let quoted = after.strip_prefix('"').and_then(|after| after.split_once('"'));
        let (value, after) = quoted.unwrap_or_else(|| after.split_once(',').unwrap_or((after, "")));
        let name = name.trim_matches([' ', ',']).to_lowercase();
        parameters.insert(name, value.trim().to_owned());
        rest = after;
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().expect("a URL")
    }

    fn after(at: &str, status: u16, header: Option<(http::HeaderName, &str)>) -> Result<Next, String> {
        let headers = header.map(|(name, value)| (name, value.parse().expect("a value")));
        let status = StatusCode::from_u16(status).expect("a status");
        let headers: HeaderMap = headers.into_iter().collect();
        next(&uri(at), status, &headers).map_err(|error| error.to_string())
    }

    #[test]
    fn redirects_lead_to_other_hosts_but_never_away_from_tls() {
        let at = "https://a.example/v2/b/blobs/c?d";
        let here = "http://127.0.0.1:1/v2";
        for (at, location, expected) in [
            (at, "https://b.example/x?y=%2F", Ok("https://b.example/x?y=%2F")),
            (at, "/x?y", Ok("https://a.example/x?y")),
            (here, "http://localhost:2/x", Ok("http://localhost:2/x")),
            (here, "https://b.example/x", Ok("https://b.example/x")),
            (at, "http://b.example/x?y", Err("http://b.example/x")),
            (at, "http://127.0.0.1/x", Err("http://127.0.0.1/x")),
            (here, "http://b.example/x", Err("http://b.example/x")),
            (at, "https://me:word@b.example/x", Err("https://b.example/x")),
            (at, "ftp://b.example/x", Err("ftp://b.example/x")),
        ] {
            let unsafe_ = |to| {
                format!(
                    "failed to use {to}: it has to be https without a user, or http on the loopback interface"
                )
            };
            let expected = expected.map(|to| Next::Follow(uri(to))).map_err(unsafe_);
            assert_eq!(after(at, 307, Some((LOCATION, location))), expected, "{location}");
        }
        assert_eq!(
            after(at, 302, None),
            Err("failed to get https://a.example/v2/b/blobs/c: it leads to nowhere".to_owned())
        );
    }

    #[test]
    fn a_server_that_asks_for_a_token_says_where_it_is() {
        let at = "https://a.example/v2/b/manifests/v1";
        let challenge = "bearer realm=\"https://auth.example/token\", service=\"a.example\",scope=\"repository:b:pull,push\"";
        let url = "https://auth.example/token?service=a.example&scope=repository%3Ab%3Apull%2Cpush";
        assert_eq!(
            after(at, 401, Some((WWW_AUTHENTICATE, challenge))),
            Ok(Next::Token(uri(url)))
        );
        let challenge = "Bearer realm=\"https://auth.example/t?a=b\",service=c";
        assert_eq!(
            after(at, 401, Some((WWW_AUTHENTICATE, challenge))),
            Ok(Next::Token(uri("https://auth.example/t?a=b&service=c")))
        );
        for challenge in [
            "Basic realm=\"https://auth.example\"",
            "Bearer service=\"a\"",
            "Bearer",
        ] {
            assert_eq!(
                after(at, 401, Some((WWW_AUTHENTICATE, challenge))),
                Err(format!(
                    "failed to get {at}: it asks for something else than a token"
                )),
                "{challenge}"
            );
        }
        let plain = after(
            at,
            401,
            Some((WWW_AUTHENTICATE, "Bearer realm=\"http://auth.example\"")),
        );
        assert!(plain.is_err(), "{plain:?}");
    }

    #[test]
    fn another_status_is_an_error() {
        let at = "https://a.example/v2/b/manifests/v1";
        assert_eq!(after(at, 200, None), Ok(Next::Read));
        assert_eq!(
            after(at, 404, None),
            Err(format!("failed to get {at}: 404 Not Found"))
        );
    }
}
