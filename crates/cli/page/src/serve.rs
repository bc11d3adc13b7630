//! The page on a socket of this machine.

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use axum::body::{Body, Bytes, HttpBody};
use futures::{Stream, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use maud::Markup;
use nephele_controller::Clock;
use nephele_listen::{Limits, RequestBody, session_of};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    task::spawn_blocking,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    actor::Actor,
    drawer::Drawer,
    drawer_html,
    elements::path,
    feed::{Feed, Shown},
    follow::Source,
    guard::{Guard, NoRandomness, Verdict},
    html::{self, Frame, Whose},
    hub::{Hub, NoFeed},
    library::SharedLibrary,
    library_html,
    objects::{Key, Objects},
    palette_html,
    preview::Matcher,
    recording::Recorder,
    recording_html,
    screen::Extent,
    table::table,
};

mod forms;
mod parts;
mod timeline;

/// Viewers of a command's page at a time. Each holds a connection, of which a server has 256, and one message. Differences have
/// 256 KiB at most, 16 MiB for all viewers. A whole page grows with the machines, and viewers that are sent the same version
/// share it.
const VIEWERS_MAX: usize = 64;
/// Namespaces of a command's page that are viewed at a time.
const FEEDS_MAX: usize = 64;
/// How long a page may wait for the first lists of the objects.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Previews that a process makes at a time, each on a thread of its own: with ten thousand machines one takes some 100 ms.
pub(crate) const PREVIEWS_MAX: usize = 2;
/// How often a stream without changes says that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

const MODULE: &str = include_str!("../assets/page.js");
const LIVE_MODULE: &str = include_str!("../assets/live.js");
const PART_MODULE: &str = include_str!("../assets/part.js");
const TIMELINE_MODULE: &str = include_str!("../assets/timeline.js");
pub(crate) const CSS: &str = "text/css; charset=utf-8";
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
pub(crate) const STYLE: &str = include_str!("../assets/page.css");
/// Nothing but what this server sends, and no code in the HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// No port of this machine.
    #[error("failed to listen for the page on {0}")]
    Listen(IpAddr, #[source] std::io::Error),
    /// No key for the first visit.
    #[error("failed to make the key of the page")]
    Key(#[source] NoRandomness),
    /// The server ended.
    #[error("failed to serve the page")]
    Serve(#[source] std::io::Error),
}

/// What the page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screens {
    /// All screens, with forms that act.
    All,
    /// The kiosk alone, which only shows.
    Kiosk,
}

/// A page that listens.
pub struct Page {
    listener: std::net::TcpListener,
    guard: Guard,
    screens: Screens,
    url: String,
}

/// What the page learns of Faults and scenarios from whoever starts it.
pub struct Means {
    /// It says what a Fault would select.
    pub matcher: Matcher,
    /// The scenarios that can be run.
    pub library: SharedLibrary,
}

/// What a page may take of the process.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) viewers: usize,
    /// Namespaces that are viewed at a time.
    pub(crate) feeds: usize,
    /// Places for previews, which pages of one process share.
    pub(crate) previews: Arc<Semaphore>,
    /// How many previews of this page are made at a time, or wait for such a place.
    pub(crate) own_previews: usize,
}

impl Bounds {
    /// For a process of its own.
    fn of_command() -> Self {
        Self {
            viewers: VIEWERS_MAX,
            feeds: FEEDS_MAX,
            previews: Arc::new(Semaphore::new(PREVIEWS_MAX)),
            own_previews: PREVIEWS_MAX,
        }
    }
}

/// One page: what it shows, and for whom.
#[derive(Clone)]
pub(crate) struct Server {
    hub: Hub,
    actor: Arc<Actor>,
    guard: Arc<Guard>,
    screens: Screens,
    whose: Whose,
    viewers_max: usize,
    viewers: Arc<Semaphore>,
    previews: Arc<Semaphore>,
    own_previews: Arc<Semaphore>,
    matcher: Matcher,
    library: SharedLibrary,
    recorder: Arc<Mutex<Recorder>>,
    /// The namespace that is meant where there is no cluster yet.
    home: String,
    clock: Clock,
}

impl Page {
    /// Listens on a free port of this address.
    ///
    /// # Errors
    /// When there is no port, or no random key.
    pub fn listen(address: IpAddr, screens: Screens) -> Result<Self, PageError> {
        let failed = |error| PageError::Listen(address, error);
        let listener = std::net::TcpListener::bind((address, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(address).map_err(PageError::Key)?;
        let url = format!("http://{address}{}", guard.entrance());
        Ok(Self {
            listener,
            guard,
            screens,
            url,
        })
    }

    /// The address that lets one browser in.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves the page until `stop`.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub async fn serve(
        self,
        source: Source,
        means: Means,
        clock: Clock,
        stop: CancellationToken,
    ) -> Result<(), PageError> {
        let server = Server {
            screens: self.screens,
            ..Server::new(
                source,
                means,
                self.guard,
                Bounds::of_command(),
                clock,
                stop.clone(),
            )
        };
        let answer = move |request| {
            let server = server.clone();
            async move { server.answer(request).await }
        };
        answer_all(self.listener, None, Limits::DEFAULT, answer, stop).await
    }
}

/// Answers the requests to a page until `stop`.
///
/// # Errors
/// When the listener cannot be used.
pub(crate) async fn answer_all<R>(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    answer: impl Fn(Request<RequestBody>) -> R + Clone + Send + Sync + 'static,
    stop: CancellationToken,
) -> Result<(), PageError>
where
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let limits = Limits {
        // Streams do not end by themselves, and the end of the process waits for this time.
        drain: Duration::from_millis(200),
        ..limits
    };
    let session = move |_: nephele_listen::Peer<'_>| session_of(None::<()>, answer.clone());
    nephele_listen::serve(listener, move || tls.clone(), limits, session, stop)
        .await
        .map_err(PageError::Serve)
}

impl Server {
    /// A page with all screens. Its tasks end with `stop`.
    pub(crate) fn new(
        source: Source,
        means: Means,
        guard: Guard,
        bounds: Bounds,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        let Means { matcher, library } = means;
        let Bounds {
            viewers,
            feeds,
            previews,
            own_previews,
        } = bounds;
        Self {
            actor: Arc::new(Actor::new(source.client.clone(), Arc::clone(&library))),
            library,
            recorder: Arc::default(),
            matcher,
            home: source.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            hub: Hub::new(source, feeds, Arc::clone(&clock), stop),
            guard: Arc::new(guard),
            screens: Screens::All,
            whose: Whose::Command,
            viewers_max: viewers,
            viewers: Arc::new(Semaphore::new(viewers)),
            previews,
            own_previews: Arc::new(Semaphore::new(own_previews)),
            clock,
        }
    }

    /// The same page for someone who signed in.
    pub(crate) fn of_visit(self) -> Self {
        Self {
            whose: Whose::Visit,
            ..self
        }
    }

    /// Whether someone looks at it now.
    pub(crate) fn is_viewed(&self) -> bool {
        self.viewers.available_permits() < self.viewers_max
    }

    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let verdict = self
            .guard
            .judge(request.method(), request.uri(), request.headers());
        hardened(match verdict {
            Verdict::Refuse(status, why) => text(status, PLAIN, why),
            Verdict::Enter(cookie) => entered(&cookie),
            Verdict::Pass if request.method() == Method::POST => self.act(request).await,
            Verdict::Pass => self.resource(&request).await,
        })
    }

    async fn resource<B>(&self, request: &Request<B>) -> Response<Body> {
        let Some(parts) = parts(request.uri().path()) else {
            return not_found();
        };
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let query = request.uri().query().unwrap_or_default();
        match parts[..] {
            ["page.js"] => text(StatusCode::OK, SCRIPT, MODULE),
            ["live.js"] => text(StatusCode::OK, SCRIPT, LIVE_MODULE),
            ["part.js"] => text(StatusCode::OK, SCRIPT, PART_MODULE),
            ["timeline.js"] => text(StatusCode::OK, SCRIPT, TIMELINE_MODULE),
            ["page.css"] => text(StatusCode::OK, CSS, STYLE),
            ["stream"] => self.stream(request),
            ["fragment", "kiosk"] => self.kiosk(Extent::Part).await,
            ["kiosk"] => self.kiosk(Extent::Page).await,
            [""] if self.screens == Screens::Kiosk => self.kiosk(Extent::Page).await,
            _ if self.screens == Screens::Kiosk => not_found(),
            [""] => self.document(None, None, query).await,
            ["ns", namespace] => self.document(Some(namespace), None, query).await,
            ["timeline"] => self.timeline(query).await,
            ["timeline.svg"] => self.timeline_picture(query).await,
            ["timeline.jsonl"] => self.timeline_records(query).await,
            ["fragment", "timeline"] => self.timeline_lanes(query).await,
            ["pools"] => self.pools(Extent::Page, query).await,
            ["fragment", "pools"] => self.pools(Extent::Part, query).await,
            ["observed"] => self.observed(Extent::Page, query).await,
            ["fragment", "observed"] => self.observed(Extent::Part, query).await,
            ["table"] => self.table(&Key::default()).await,
            ["table", namespace, name] => self.table(&Key::new(namespace, name)).await,
            ["fragment", kind, namespace, name] => {
                self.fragment(kind, &Key::new(namespace, name), query).await
            }
            [kind, namespace, name] => {
                let selected = Some((kind, Key::new(namespace, name)));
                self.document(None, selected, query).await
            }
            _ => not_found(),
        }
    }

    /// The machines after a key, as a table.
    async fn table(&self, after: &Key) -> Response<Body> {
        match self.shown(None).await {
            Ok((shown, _)) => markup(StatusCode::OK, table(&shown.model, after)),
            Err(refusal) => refusal,
        }
    }

    /// The whole page, with what is selected.
    async fn document(
        &self,
        namespace: Option<&str>,
        selected: Option<(&str, Key)>,
        query: &str,
    ) -> Response<Body> {
        let (shown, version) = match self.shown(namespace).await {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        let frame = Frame {
            namespace: namespace.map(str::to_owned),
            version,
            whose: self.whose,
        };
        let drawer = match &selected {
            None => None,
            Some((kind, key)) => match self.drawer(&shown, kind, key, query).await {
                Some((_, drawer)) => Some(drawer),
                None => return not_found(),
            },
        };
        markup(
            StatusCode::OK,
            html::document(&shown.elements, &frame, drawer.as_ref()),
        )
    }

    /// What the Drawer shows of an object.
    async fn fragment(&self, kind: &str, key: &Key, query: &str) -> Response<Body> {
        match self.shown(None).await {
            Ok((shown, _)) => match self.drawer(&shown, kind, key, query).await {
                Some((status, drawer)) => markup(status, drawer),
                None => not_found(),
            },
            Err(refusal) => refusal,
        }
    }

    /// What the Drawer shows of an object, or that it is gone. None for a kind that has no Drawer.
    async fn drawer(
        &self,
        shown: &Arc<Shown>,
        kind: &str,
        key: &Key,
        query: &str,
    ) -> Option<(StatusCode, Markup)> {
        match kind {
            palette_html::KIND => return self.palette(shown, key, query).await,
            library_html::KIND => return self.library(shown, key).await,
            recording_html::KIND => return self.recording(shown, key).await,
            _ => {}
        }
        let Some(drawer) = selected(shown, kind, key)? else {
            return Some((StatusCode::NOT_FOUND, drawer_html::gone(&key.name)));
        };
        let forms = self
            .forms(path(kind, key), drawer.doable.permission(), &key.namespace)
            .await;
        Some((StatusCode::OK, drawer_html::drawer(&drawer, &forms)))
    }

    /// What is shown now, and the name of its version.
    async fn shown(&self, namespace: Option<&str>) -> Result<(Arc<Shown>, String), Response<Body>> {
        let feed = self.hub.feed(namespace).map_err(no_feed)?;
        let mut changes = feed.changes();
        let read = async {
            loop {
                changes.mark_unchanged();
                if let Some(now) = feed.now() {
                    return Some(now);
                }
                if feed.is_closed() {
                    return None;
                }
                changes.changed().await.ok()?;
            }
        };
        match timeout(READ_WITHIN, read).await {
            Ok(Some(now)) => Ok(now),
            // The hub knows why.
            Ok(None) => Err(self.hub.feed(namespace).map_or_else(no_feed, |_| unanswered())),
            Err(_) => Err(unanswered()),
        }
    }

    /// A place for a preview. None at the end of the page.
    async fn preview(&self) -> Option<[SemaphorePermit<'_>; 2]> {
        let own = self.own_previews.acquire().await.ok()?;
        Some([own, self.previews.acquire().await.ok()?])
    }

    /// What is made of the objects that are there now, on a thread of its own: with ten thousand machines it takes as long as
    /// a preview, and has the place of one.
    async fn made_of_objects(
        &self,
        make: impl FnOnce(&Objects) -> Response<Body> + Send + 'static,
    ) -> Response<Body> {
        let objects = match self.shown(None).await {
            Ok((shown, _)) => Arc::clone(&shown.objects),
            Err(refusal) => return refusal,
        };
        let Some(_place) = self.preview().await else {
            return unavailable("the page ends\n");
        };
        let made = spawn_blocking(move || make(&objects)).await;
        made.unwrap_or_else(|_| unavailable("the page ends\n"))
    }

    /// The stream of differences.
    fn stream<B>(&self, request: &Request<B>) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.viewers).try_acquire_owned() else {
            return unavailable("too many viewers\n");
        };
        let mut since = None;
        let mut namespace = None;
        for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            match &*name {
                "since" => since = Some(value.into_owned()),
                "namespace" if !value.is_empty() => namespace = Some(value.into_owned()),
                _ => {}
            }
        }
        // A browser that connects again by itself says what it has.
        let last = request.headers().get("last-event-id");
        let since = last
            .and_then(|last| last.to_str().ok())
            .map(str::to_owned)
            .or(since);
        let feed = match self.hub.feed(namespace.as_deref()) {
            Ok(feed) => feed,
            Err(why) => return no_feed(why),
        };
        let last = since.and_then(|since| feed.number(&since));
        let viewer = Viewer {
            feed,
            last,
            is_new: true,
            clock: Arc::clone(&self.clock),
            _place: place,
        };
        let mut response = Response::new(Body::from_stream(viewer.messages()));
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// An answer with the headers that all have.
pub(crate) fn hardened(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without any referrer, browsers would not say from where a form comes.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
    response
}

/// Someone who looks.
struct Viewer {
    feed: Arc<Feed>,
    last: Option<u64>,
    is_new: bool,
    clock: Clock,
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    fn messages(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        let changes = self.feed.changes();
        stream::unfold((self, changes), |(mut viewer, mut changes)| async move {
            if std::mem::take(&mut viewer.is_new) {
                return Some((Ok(Bytes::from_static(b"retry: 1000\n\n")), (viewer, changes)));
            }
            loop {
                changes.mark_unchanged();
                if let Some((last, message)) = viewer.feed.after(viewer.last) {
                    viewer.last = Some(last);
                    return Some((Ok(message), (viewer, changes)));
                }
                if viewer.feed.is_closed() {
                    return None;
                }
                match timeout(ALIVE, changes.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return None,
                    Err(_) => return Some((Ok(Bytes::from_static(b": alive\n\n")), (viewer, changes))),
                }
            }
        })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.touch((self.clock)());
    }
}

/// A selected object; the inner None if it is gone, the outer one for a kind that has no Drawer.
fn selected(shown: &Shown, kind: &str, key: &Key) -> Option<Option<Drawer>> {
    Some(match kind {
        "machine" => Drawer::machine(&shown.objects, key),
        "cluster" => Drawer::cluster(&shown.objects, key),
        "cloud" => Drawer::cloud(&shown.objects, key),
        "fault" => Drawer::fault(&shown.objects, key),
        "scenario" => Drawer::scenario(&shown.objects, key),
        _ => return None,
    })
}

/// The parts of a path. None if one is no text.
fn parts(path: &str) -> Option<Vec<String>> {
    let parts = path.strip_prefix('/')?.split('/');
    let text = |part| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned());
    parts.map(text).collect()
}

fn entered(cookie: &str) -> Response<Body> {
    let mut response = seen("/");
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Leads to a path.
pub(crate) fn seen(path: &str) -> Response<Body> {
    let mut response = text(StatusCode::SEE_OTHER, PLAIN, "");
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

pub(crate) fn markup(status: StatusCode, markup: Markup) -> Response<Body> {
    text(status, "text/html; charset=utf-8", markup.into_string())
}

fn not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, PLAIN, "there is no such page\n")
}

fn no_feed(why: NoFeed) -> Response<Body> {
    unavailable(format!("{why}\n"))
}

fn unanswered() -> Response<Body> {
    unavailable("the management API does not answer\n")
}

pub(crate) fn unavailable(why: impl Into<Body>) -> Response<Body> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(crate) fn text(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
