//! Who may see the page: the browser that opened the printed address, and no other page of any browser.
//!
//! A web page of another origin can send requests to this machine, also under a name of its own that resolves to 127.0.0.1.
//! So each request has to name one of our hosts, must not come from another origin, and needs the cookie. One that changes
//! something has to say that it comes from our origin, and needs the token that only our pages have. The key in the printed
//! address is good once: it is in the history of the browser, and perhaps in a log.

use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use parking_lot::Mutex;

/// Bytes of a key, and of a session: no one guesses 128 bits.
const SECRET_BYTES: usize = 16;

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("failed to draw a random key")]
pub struct NoRandomness;

/// What the page has to know to let a browser in.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The values of the header Host that are ours.
    hosts: Vec<String>,
    /// It lets one browser in; none after that.
    key: Mutex<Option<String>>,
    session: String,
    /// What each form of our pages sends.
    token: String,
    /// Browsers do not tell ports apart: its name has the port.
    cookie: String,
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Answer it.
    Pass,
    /// Set this cookie, and redirect to the page.
    Enter(String),
    Refuse(StatusCode, &'static str),
}

/// What everybody may have: it holds nothing of the cloud.
const OPEN: [&str; 1] = ["/page.css"];

/// The paths of requests that change something.
const ACTS: &str = "/act/";

impl Guard {
    /// A guard of the page at this address and port.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub(crate) fn new(address: std::net::SocketAddr) -> Result<Self, NoRandomness> {
        let port = address.port();
        Ok(Self {
            hosts: vec![address.to_string(), format!("localhost:{port}")],
            key: Mutex::new(Some(secret()?)),
            session: secret()?,
            token: secret()?,
            cookie: format!("nephele-page-{port}"),
        })
    }

    /// The path of the address that lets one browser in.
    pub(crate) fn entrance(&self) -> String {
        let key = self.key.lock();
        format!("/?key={}", key.as_deref().unwrap_or_default())
    }

    /// What to do with a request. A right key is used up.
    pub(crate) fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or_default();
        if !self.hosts.iter().any(|ours| ours == host) {
            return Verdict::Refuse(StatusCode::MISDIRECTED_REQUEST, "this page has another name\n");
        }
        if text(header::ORIGIN).is_some_and(|origin| !self.is_ours(origin)) {
            return Verdict::Refuse(StatusCode::FORBIDDEN, "another page may not read this one\n");
        }
        let is_act = *method == Method::POST && uri.path().starts_with(ACTS);
        if !is_act && !matches!(*method, Method::GET | Method::HEAD) {
            return Verdict::Refuse(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n");
        }
        let is_from_here = text(header::ORIGIN).is_some()
            && text(HeaderName::from_static("sec-fetch-site")).is_none_or(|site| site == "same-origin");
        if is_act && !is_from_here {
            return Verdict::Refuse(StatusCode::FORBIDDEN, "only this page may change something\n");
        }
        if OPEN.contains(&uri.path()) || self.has_cookie(headers) {
            return Verdict::Pass;
        }
        if is_act {
            return Verdict::Refuse(StatusCode::FORBIDDEN, "open the page first\n");
        }
        let given = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let given = given
            .filter(|(name, _)| name == "key")
            .map(|(_, value)| value)
            .next();
        let mut key = self.key.lock();
        match (given, key.as_deref()) {
            (Some(given), Some(known)) if uri.path() == "/" && is_same(&given, known) => {
                *key = None;
                Verdict::Enter(format!(
                    "{}={}; Path=/; HttpOnly; SameSite=Strict",
                    self.cookie, self.session
                ))
            }
            (Some(_), None) => Verdict::Refuse(
                StatusCode::FORBIDDEN,
                "this address was used once already, by another browser or before its cookies were deleted; start the \
                 command again for a new one\n",
            ),
            _ => Verdict::Refuse(
                StatusCode::FORBIDDEN,
                "open the address that the command printed, with its key\n",
            ),
        }
    }

    /// What each form of our pages sends.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether a form is one of our pages.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        is_same(given, &self.token)
    }

    fn is_ours(&self, origin: &str) -> bool {
        origin
            .strip_prefix("http://")
            .is_some_and(|host| self.hosts.iter().any(|ours| ours == host))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && is_same(value, &self.session))
    }
}

fn secret() -> Result<String, NoRandomness> {
    let mut bytes = [0; SECRET_BYTES];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Whether two texts are the same, in a time that does not depend on where they differ.
fn is_same(given: &str, known: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(given.as_bytes(), known.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests;
