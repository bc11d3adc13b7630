//! Who may see the page: the browser that opened the printed address, or in which someone has signed in, and no other page of any
//! browser.
//!
//! A web page of another origin can send requests to this machine, also under a name of its own that resolves to 127.0.0.1.
//! So each request has to name one of our hosts, must not come from another origin, and needs the cookie. One that changes
//! something has to say that it comes from our origin, and needs the token that only our pages have. The key in the printed
//! address is good once: it is in the history of the browser, and perhaps in a log.

use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, Method, StatusCode, Uri};
use parking_lot::Mutex;

use crate::origin::{Hosts, cookies, is_of_a_page};

/// Bytes of a key, and of a session: no one guesses 128 bits.
const SECRET_BYTES: usize = 16;

/// The name of the cookie of a visit to a host. Browsers take a name with this prefix only over TLS, and send it only to the host
/// that has set it. They do not tell ports apart, so it has the port: that of a port-forward to one of several managers.
pub(crate) fn cookie_at(host: &str) -> String {
    const OF_VISIT: &str = "__Host-nephele-page";
    match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => format!("{OF_VISIT}-{port}"),
        _ => OF_VISIT.to_owned(),
    }
}

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("failed to draw a random key")]
pub struct NoRandomness;

/// What the page has to know to let a browser in.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Hosts,
    /// It lets one browser in; none after that.
    key: Mutex<Option<String>>,
    session: String,
    /// What each form of our pages sends.
    token: String,
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
            hosts: Hosts::These(vec![address.to_string(), format!("localhost:{port}")]),
            key: Mutex::new(Some(secret()?)),
            session: secret()?,
            token: secret()?,
            // Browsers do not tell ports apart.
            cookie: format!("nephele-page-{port}"),
        })
    }

    /// A guard of one visit to the page of a manager, with a cookie of this name.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub(crate) fn of_visit(cookie: String) -> Result<Self, NoRandomness> {
        Ok(Self {
            hosts: Hosts::Any,
            key: Mutex::new(None),
            session: secret()?,
            token: secret()?,
            cookie,
        })
    }

    /// The value of the cookie that lets a browser in.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// The header `Set-Cookie` that lets a browser in.
    pub(crate) fn cookie(&self) -> String {
        let only = match self.hosts {
            Hosts::These(_) => "",
            Hosts::Any => "; Secure",
        };
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict{only}",
            self.cookie, self.session
        )
    }

    /// The path of the address that lets one browser in.
    pub(crate) fn entrance(&self) -> String {
        let key = self.key.lock();
        format!("/?key={}", key.as_deref().unwrap_or_default())
    }

    /// What to do with a request. A right key is used up.
    pub(crate) fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        if let Err((status, why)) = self.hosts.admit(uri, headers) {
            return Verdict::Refuse(status, why);
        }
        let is_act = *method == Method::POST && uri.path().starts_with(ACTS);
        if !is_act && !matches!(*method, Method::GET | Method::HEAD) {
            return Verdict::Refuse(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n");
        }
        if is_act && !is_of_a_page(headers) {
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
                Verdict::Enter(self.cookie())
            }
            (Some(_), None) => Verdict::Refuse(
                StatusCode::FORBIDDEN,
                "this address was used once already, by another browser or before its cookies were deleted; `nephele page` \
                 prints a new one\n",
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

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        cookies(headers, &self.cookie).any(|value| is_same(value, &self.session))
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
