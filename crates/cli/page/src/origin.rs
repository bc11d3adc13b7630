//! From where a request may come: from the browser's address bar or from a page of ours, never from another site.

use http::{HeaderMap, HeaderName, StatusCode, Uri, header};

/// The names of the page.
#[derive(Debug)]
pub(crate) enum Hosts {
    /// These values of the header Host, over plain HTTP.
    These(Vec<String>),
    /// Whatever leads to it, over TLS. The page of a manager has many names: those of a Service, of an Ingress, and `localhost`
    /// with any port of a port-forward. A site that takes another name for this address does not have the cookie, which is
    /// bound to the host that it was set for.
    Any,
}

/// Why a request is refused, with the status of the answer.
pub(crate) type Refusal = (StatusCode, &'static str);

impl Hosts {
    /// Whether a request is for one of our names, and comes from no other site.
    ///
    /// # Errors
    /// With the answer to one that is not.
    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = host(uri, headers);
        if !self.are(host) {
            return Err((StatusCode::MISDIRECTED_REQUEST, "this page has another name\n"));
        }
        let origin = text(headers, header::ORIGIN);
        if origin.is_some_and(|origin| !self.have_origin(origin, host)) {
            return Err((StatusCode::FORBIDDEN, "another page may not read this one\n"));
        }
        Ok(())
    }

    fn are(&self, host: &str) -> bool {
        match self {
            Self::These(ours) => ours.iter().any(|ours| ours == host),
            Self::Any => !host.is_empty(),
        }
    }

    /// Whether this is the origin of a page of ours, in a request to this host.
    fn have_origin(&self, origin: &str, host: &str) -> bool {
        match self {
            Self::These(_) => origin.strip_prefix("http://").is_some_and(|host| self.are(host)),
            Self::Any => origin.strip_prefix("https://") == Some(host),
        }
    }
}

/// The host that a request is for, with its port. HTTP/2 has it in the address.
pub(crate) fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    let named = text(headers, header::HOST).or_else(|| uri.authority().map(http::uri::Authority::as_str));
    named.unwrap_or_default()
}

/// Whether an admitted request says that a page of ours sends it. Browsers say so of each form.
pub(crate) fn is_of_a_page(headers: &HeaderMap) -> bool {
    let site = text(headers, HeaderName::from_static("sec-fetch-site"));
    headers.contains_key(header::ORIGIN) && site.is_none_or(|site| site == "same-origin")
}

/// The value of a cookie that a request has.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.filter_map(move |(name, value)| (name == wanted).then_some(value))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}
