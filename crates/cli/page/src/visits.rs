//! The page of a manager: many people, each signed in with a token of their own.
//!
//! ```text
//!  browser ──▶ cookie of a visit? ─┬ yes ─▶ page of the visit ──watches, acts──▶ API server, with the token of the visit
//!                                  └ no ──▶ form ──token, namespace──▶ Door ──▶ visit
//! ```
//!
//! Each visit has watches and tasks of its own, because each token may read something else. What all visits may take is
//! bounded: their number, the bytes of their objects ([`OBJECTS_OF_VISIT`], [`OBJECTS_MAX`]) and of their messages, and previews
//! that are made at a time. A visit ends when its token ends, after [`IDLE`] without a request, or when
//! the same user signs in too often.

use std::{collections::HashMap, net::IpAddr, ops::RangeInclusive, sync::Arc, time::Duration};

use axum::body::{Body, HttpBody};
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use nephele_controller::Clock;
use nephele_listen::{Limits, PeerAddress};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    allowance::{Allowance, Stock},
    follow::Source,
    guard::{Guard, cookie_at},
    html::SIGN_OUT,
    library::SharedLibrary,
    origin::{Hosts, Refusal, cookies, host, is_of_a_page},
    preview::Matcher,
    serve::{
        Bounds, CSS, Means, PLAIN, PREVIEWS_MAX, PageError, STYLE, Server, answer_all, hardened, markup,
        seen, text,
    },
    sign_in_html::{SIGN_IN, sign_in},
};

/// Visits at a time: a class of thirty, and then some.
const VISITS_MAX: usize = 48;
/// Visits of one user at a time. Another one ends the one that was not used for longest.
const OF_USER_MAX: usize = 4;
/// The bytes of objects that a visit may hold, as the API server sends them: the least is enough for some thirty machines with
/// all that belongs to them, and the most for some five hundred. A list that is read again counts beside the objects that it
/// replaces.
const OBJECTS_OF_VISIT: RangeInclusive<usize> = 256 * 1024..=4 * 1024 * 1024;
/// The bytes of objects beyond the least, of all visits.
const OBJECTS_MAX: usize = 8 * 1024 * 1024;
/// Records of the journal that a visit holds.
const RECORDS_MAX: usize = 1024;
/// Browsers open up to six connections each, or one of HTTP/2, on which they send few requests at a time.
const CONNECTIONS_MAX: usize = 128;
const STREAMS_MAX: u32 = 16;
/// How long a form may take to arrive.
const FORM_WITHIN: Duration = Duration::from_secs(10);
/// The bytes of answers that are not read.
const UNREAD_MAX: usize = 8 * 1024 * 1024;
/// Visits of one namespace at a time, so that accounts that someone makes there take no place of everybody else.
const OF_NAMESPACE_MAX: usize = 32;
/// Browser windows of one visit, and namespaces that they show: one, or all.
const WINDOWS_MAX: usize = 4;
const FEEDS_MAX: usize = 4;
/// Requests of one visit that are answered at a time, but streams.
const REQUESTS_MAX: usize = 2;
/// How long a visit stays that no browser window shows, and how often that is looked at.
const IDLE: Duration = Duration::from_mins(15);
const LOOK: Duration = Duration::from_mins(1);
/// The bytes of a form with a token. Tokens with many groups have several KiB.
const FORM_MAX: usize = 16 * 1024;

/// What someone signs in with.
pub struct SignIn {
    /// A token of the management API.
    pub token: String,
    /// The only namespace to show; all if there is none. It can be any text.
    pub namespace: Option<String>,
    /// From where it was sent.
    pub from: IpAddr,
}

/// Someone who may sign in.
pub struct Admitted {
    /// A digest of the name of the user.
    pub user: [u8; 32],
    /// What they see, with a client that has their token. The allowance is the page's.
    pub source: Source,
    /// The scenarios that they can run, with the same client.
    pub library: SharedLibrary,
    /// Ends when the token ends, or its rights.
    pub ended: BoxFuture<'static, ()>,
}

/// Why someone may not sign in.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The token is none of the management API.
    #[error("The API server does not know this token. It may have ended: create another one.")]
    UnknownToken,
    /// The user has not the rights for what the page shows.
    #[error("This token may not {0}.")]
    Forbidden(String),
    /// What was typed as a namespace is none.
    #[error("{0} is no name of a namespace.")]
    NoNamespace(String),
    /// Too many people sign in at the same time.
    #[error("Too many people sign in now. Try it again.")]
    Busy,
    /// Too many people are signed in, in this namespace or in all.
    #[error("Too many people are signed in. `nephele page` shows the same on your own machine.")]
    Full,
    /// The management API does not answer. Why is not for people who are not signed in.
    #[error("The API server did not say whether this token is one. Try it again.")]
    Unanswered,
}

impl NotAdmitted {
    fn status(&self) -> StatusCode {
        match self {
            Self::UnknownToken => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NoNamespace(_) => StatusCode::BAD_REQUEST,
            Self::Busy | Self::Full | Self::Unanswered => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Decides who may sign in.
pub trait Door: Send + Sync + 'static {
    /// What someone sees.
    ///
    /// # Errors
    /// With what they read instead.
    fn admit(&self, sign_in: SignIn) -> BoxFuture<'_, Result<Admitted, NotAdmitted>>;
}

/// Serves the page over TLS to whoever `door` admits, until `stop`.
///
/// # Errors
/// When the listener cannot be used.
pub async fn serve_visits(
    listener: std::net::TcpListener,
    tls: TlsAcceptor,
    door: Arc<dyn Door>,
    matcher: Matcher,
    clock: Clock,
    stop: CancellationToken,
) -> Result<(), PageError> {
    let visits = Visits::new(door, matcher, clock, stop.clone());
    let limits = Limits {
        connections_max: CONNECTIONS_MAX,
        unauthenticated_max: CONNECTIONS_MAX,
        responses_bytes_max: UNREAD_MAX,
        streams_max: STREAMS_MAX,
        body: FORM_WITHIN,
        ..Limits::DEFAULT
    };
    let answer = move |request| {
        let visits = visits.clone();
        async move { visits.answer(request).await }
    };
    answer_all(listener, Some(tls), limits, answer, stop).await
}

/// All visits.
#[derive(Clone)]
struct Visits {
    door: Arc<dyn Door>,
    matcher: Matcher,
    clock: Clock,
    stop: CancellationToken,
    objects: Arc<Stock>,
    previews: Arc<Semaphore>,
    /// By what the cookie of the visit says.
    under_way: Arc<Mutex<HashMap<String, Arc<Visit>>>>,
}

/// One browser that is signed in.
struct Visit {
    session: String,
    user: [u8; 32],
    namespace: Option<String>,
    server: Server,
    /// Places for requests but streams.
    requests: Semaphore,
    used: Mutex<Instant>,
    stop: CancellationToken,
}

impl Visit {
    /// Until when it stays without another request.
    fn stays(&self) -> Instant {
        *self.used.lock() + IDLE
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Ends when no window has shown it for some time.
    async fn idle(&self) {
        loop {
            sleep_until(self.stays().min(Instant::now() + LOOK)).await;
            if self.server.is_viewed() {
                self.touch();
            } else if self.stays() <= Instant::now() {
                return;
            }
        }
    }
}

impl Visits {
    fn new(door: Arc<dyn Door>, matcher: Matcher, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            door,
            matcher,
            clock,
            stop,
            objects: Stock::new(OBJECTS_MAX),
            previews: Arc::new(Semaphore::new(PREVIEWS_MAX)),
            under_way: Arc::default(),
        }
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let is_form = *request.method() == Method::POST;
        let visit = self.visit(&request);
        match (request.uri().path(), is_form, visit) {
            (SIGN_IN, true, former) => hardened(self.sign_in(request, former).await),
            (SIGN_OUT, true, visit) => hardened(self.sign_out(&request, visit)),
            (SIGN_IN, false, Some(_)) => hardened(seen("/")),
            (path, _, Some(visit)) => {
                visit.touch();
                // A stream lasts, and has a place of its own.
                let _place = match path {
                    "/stream" => None,
                    _ => visit.requests.acquire().await.ok(),
                };
                visit.server.answer(request).await
            }
            ("/page.css", _, None) => hardened(text(StatusCode::OK, CSS, STYLE)),
            (_, _, None) => hardened(markup(StatusCode::UNAUTHORIZED, sign_in("", None))),
        }
    }

    /// The visit of a browser.
    fn visit<B>(&self, request: &Request<B>) -> Option<Arc<Visit>> {
        let name = cookie_at(host(request.uri(), request.headers()));
        let under_way = self.under_way.lock();
        cookies(request.headers(), &name).find_map(|session| under_way.get(session).cloned())
    }

    async fn sign_in<B>(&self, request: Request<B>, former: Option<Arc<Visit>>) -> Response<Body>
    where
        B: HttpBody<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        if let Err((status, why)) = of_our_page(&request) {
            return text(status, PLAIN, why);
        }
        let cookie = cookie_at(host(request.uri(), request.headers()));
        let from = request.extensions().get::<PeerAddress>();
        let from = from.map_or(IpAddr::from([0; 4]), |PeerAddress(address)| {
            address.ip().to_canonical()
        });
        let Ok(form) = Limited::new(request.into_body(), FORM_MAX).collect().await else {
            let why = "This is too long for a token.";
            return markup(StatusCode::PAYLOAD_TOO_LARGE, sign_in("", Some(why)));
        };
        let form = form.to_bytes();
        let field = |wanted: &str| {
            let mut fields = form_urlencoded::parse(&form);
            let found = fields.find(|(name, _)| name == wanted);
            found
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let namespace = field("namespace");
        let asked = SignIn {
            token: field("token"),
            namespace: Some(namespace.clone()).filter(|name| !name.is_empty()),
            from,
        };
        let admitted = match self.door.admit(asked).await {
            Ok(admitted) => self.enter(admitted, former, cookie),
            Err(why) => Err(why),
        };
        match admitted {
            Ok(cookie) => {
                let mut response = seen("/");
                response.headers_mut().insert(header::SET_COOKIE, cookie);
                response
            }
            Err(why) => markup(why.status(), sign_in(&namespace, Some(&why.to_string()))),
        }
    }

    /// Begins a visit, in the place of a former one of the same browser. Returns its cookie.
    fn enter(
        &self,
        admitted: Admitted,
        former: Option<Arc<Visit>>,
        cookie: String,
    ) -> Result<HeaderValue, NotAdmitted> {
        let Admitted {
            user,
            source,
            library,
            ended,
        } = admitted;
        let namespace = source.namespace.clone();
        let source = Source {
            allowance: Allowance::of(&self.objects, OBJECTS_OF_VISIT, RECORDS_MAX),
            ..source
        };
        let means = Means {
            matcher: self.matcher,
            library,
        };
        let bounds = Bounds {
            viewers: WINDOWS_MAX,
            feeds: FEEDS_MAX,
            previews: Arc::clone(&self.previews),
            own_previews: 1,
        };
        let guard = Guard::of_visit(cookie).map_err(|_| NotAdmitted::Busy)?;
        let session = guard.session().to_owned();
        let cookie = HeaderValue::try_from(guard.cookie()).map_err(|_| NotAdmitted::Busy)?;
        let stop = self.stop.child_token();
        let server = Server::new(
            source,
            means,
            guard,
            bounds,
            Arc::clone(&self.clock),
            stop.clone(),
        );
        let visit = Arc::new(Visit {
            session: session.clone(),
            user,
            namespace,
            server: server.of_visit(),
            requests: Semaphore::new(REQUESTS_MAX),
            used: Mutex::new(Instant::now()),
            stop,
        });
        let mut under_way = self.under_way.lock();
        if let Some(former) = former {
            former.stop.cancel();
            under_way.remove(&former.session);
        }
        let of_user = || under_way.values().filter(|known| known.user == user);
        if of_user().count() >= OF_USER_MAX
            && let Some(oldest) = of_user().min_by_key(|known| *known.used.lock()).cloned()
        {
            oldest.stop.cancel();
            under_way.remove(&oldest.session);
        }
        let of_namespace = under_way
            .values()
            .filter(|known| known.namespace == visit.namespace);
        let is_full = visit.namespace.is_some() && of_namespace.count() >= OF_NAMESPACE_MAX;
        if is_full || under_way.len() >= VISITS_MAX {
            return Err(NotAdmitted::Full);
        }
        under_way.insert(session, Arc::clone(&visit));
        drop(under_way);
        tokio::spawn(self.clone().keep(visit, ended));
        Ok(cookie)
    }

    /// Waits for the end of a visit.
    async fn keep(self, visit: Arc<Visit>, ended: BoxFuture<'static, ()>) {
        tokio::select! {
            () = ended => {}
            () = visit.idle() => {}
            () = visit.stop.cancelled() => {}
        }
        self.leave(&visit);
    }

    fn leave(&self, visit: &Visit) {
        visit.stop.cancel();
        self.under_way.lock().remove(&visit.session);
    }

    fn sign_out<B>(&self, request: &Request<B>, visit: Option<Arc<Visit>>) -> Response<Body> {
        if let Err((status, why)) = of_our_page(request) {
            return text(status, PLAIN, why);
        }
        if let Some(visit) = visit {
            self.leave(&visit);
        }
        seen("/")
    }
}

/// Whether a form comes from a page of ours, so that no other site signs a browser in or out.
fn of_our_page<B>(request: &Request<B>) -> Result<(), Refusal> {
    Hosts::Any.admit(request.uri(), request.headers())?;
    if !is_of_a_page(request.headers()) {
        return Err((StatusCode::FORBIDDEN, "only this page may sign in or out\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
