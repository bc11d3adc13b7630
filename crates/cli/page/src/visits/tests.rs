use axum::Router;
use kube::api::ListParams;
use nephele_api::cloud::v1alpha1::Fault;
use nephele_controller::wall_clock;
use nephele_testkit::ManagementApi;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::{library::tests::Two, preview::Selected};

/// Admits whoever says `token-` and a letter, as the user of this letter.
struct Letters {
    management: ManagementApi,
    /// Their tokens end with it.
    ended: CancellationToken,
}

impl Door for Letters {
    fn admit(&self, sign_in: SignIn) -> BoxFuture<'_, Result<Admitted, NotAdmitted>> {
        Box::pin(async move {
            let letter = match sign_in.token.strip_prefix("token-").map(str::as_bytes) {
                Some([letter]) => *letter,
                _ => return Err(NotAdmitted::UnknownToken),
            };
            if letter == b'z' {
                return Err(NotAdmitted::Forbidden("get inmemoryclusters".to_owned()));
            }
            Ok(Admitted {
                user: [letter; 32],
                source: Source {
                    client: self.management.client(),
                    namespace: sign_in.namespace,
                    journal: Router::new(),
                    allowance: Allowance::unlimited(),
                },
                library: Two::shared(),
                ended: Box::pin(self.ended.clone().cancelled_owned()),
            })
        })
    }
}

struct Host {
    visits: Visits,
    management: ManagementApi,
    ended: CancellationToken,
}

impl Host {
    fn new() -> Self {
        let management = ManagementApi::start();
        let ended = CancellationToken::new();
        let door = Letters {
            management: management.clone(),
            ended: ended.clone(),
        };
        let matcher: Matcher = |_, _| Ok(Selected::default());
        Self {
            visits: Visits::new(Arc::new(door), matcher, wall_clock(), CancellationToken::new()),
            management,
            ended,
        }
    }

    /// The status of an answer, its cookie, and its text.
    async fn ask(&self, request: http::request::Builder, form: &str) -> (u16, Option<String>, String) {
        let body = axum::body::Body::from(form.to_owned());
        let request = request.header(header::HOST, HERE).body(body).expect("a request");
        let answer = self.visits.answer(request).await;
        let cookie = answer.headers().get(header::SET_COOKIE);
        let cookie = cookie.map(|cookie| cookie.to_str().expect("text").to_owned());
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.expect("in memory").to_bytes();
        (status, cookie, String::from_utf8_lossy(&text).into_owned())
    }

    async fn get(&self, path: &str, session: &str) -> (u16, String) {
        let (status, _, text) = self
            .ask(Request::get(path).header(header::COOKIE, session), "")
            .await;
        (status, text)
    }

    /// Signs in, and returns what the browser then sends.
    async fn sign_in(&self, token: &str) -> String {
        let form = format!("token={token}&namespace=default");
        let (status, cookie, text) = self
            .ask(Request::post(SIGN_IN).header(header::ORIGIN, OURS), &form)
            .await;
        assert_eq!(status, 303, "{text}");
        let cookie = cookie.expect("a cookie");
        let (pair, rest) = cookie.split_once(';').expect("attributes");
        assert_eq!(rest, " Path=/; HttpOnly; SameSite=Strict; Secure");
        pair.to_owned()
    }
}

const HERE: &str = "page.example:8444";
const OURS: &str = "https://page.example:8444";

#[tokio::test]
async fn without_a_visit_there_is_a_form_and_nothing_else() {
    let host = Host::new();
    for path in [
        "/",
        "/stream",
        "/page.js",
        "/table",
        "/fragment/pools",
        "/machine/a/b",
        "/%ff",
    ] {
        let (status, text) = host.get(path, "__Host-nephele-page=guessed").await;
        assert_eq!(status, 401, "{path}");
        assert!(
            text.contains(r#"action="/sign-in""#) && !text.contains("Break something"),
            "{text}"
        );
    }
    assert_eq!(host.get("/page.css", "").await.0, 200);
    let (status, ..) = host
        .ask(
            Request::post("/act/fault/default/a").header(header::ORIGIN, OURS),
            "",
        )
        .await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn a_token_opens_the_page_and_its_end_closes_it() {
    let host = Host::new();
    for (form, expected, said) in [
        ("token=", 401, "does not know this token"),
        ("token=other&namespace=team", 401, r#"value="team""#),
        ("token=token-z", 403, "This token may not get inmemoryclusters."),
        (&*format!("token={}", "x".repeat(FORM_MAX)), 413, "too long"),
    ] {
        let (status, cookie, text) = host
            .ask(Request::post(SIGN_IN).header(header::ORIGIN, OURS), form)
            .await;
        assert_eq!((status, cookie), (expected, None), "{form:.40}");
        assert!(text.contains(said), "{text}");
    }
    let one = host.sign_in("token-a").await;
    let other = host.sign_in("token-b").await;
    for session in [&one, &other] {
        let (status, text) = host.get("/", session).await;
        assert_eq!(status, 200);
        assert!(
            text.contains("Break something") && text.contains("Sign out"),
            "{text}"
        );
    }
    let leave = Request::post(SIGN_OUT)
        .header(header::ORIGIN, OURS)
        .header(header::COOKIE, &one);
    assert_eq!(host.ask(leave, "").await.0, 303);
    assert_eq!(host.get("/", &one).await.0, 401);
    assert_eq!(host.get("/", &other).await.0, 200);
    let again = Request::post(SIGN_IN)
        .header(header::ORIGIN, OURS)
        .header(header::COOKIE, &other);
    let (_, cookie, _) = host.ask(again, "token=token-c").await;
    assert_eq!(
        host.get("/", &other).await.0,
        401,
        "a browser has one visit at a time"
    );
    let cookie = cookie.expect("a cookie");
    let other = cookie.split(';').next().expect("a pair").to_owned();
    assert_eq!(host.get("/", &other).await.0, 200);
    host.ended.cancel();
    while host.get("/", &other).await.0 != 401 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(host.visits.under_way.lock().len(), 0);
}

/// Each of these requests has what a browser adds by itself for a site that is not ours.
#[tokio::test]
async fn no_other_site_signs_a_browser_in_or_out_or_acts() {
    let host = Host::new();
    let session = host.sign_in("token-a").await;
    let fault = json!({ "metadata": { "name": "one", "namespace": "default" }, "spec": { "effect": { "freeze": {} } } });
    let fault: Fault = serde_json::from_value(fault).expect("a Fault");
    host.management.create(&fault).await;
    let (_, html) = host.get("/fault/default/one", &session).await;
    let (_, rest) = html.split_once(r#"name="token" value=""#).expect("a form");
    let (token, _) = rest.split_once('"').expect("a value");
    let form = format!("token={token}");
    for path in [SIGN_IN, SIGN_OUT, "/act/fault/default/one"] {
        for (origin, site) in [
            (Some("https://other.example"), None),
            (Some("http://page.example:8444"), None),
            (Some("https://page.example"), None),
            (Some("null"), None),
            (None, None),
            (Some(OURS), Some("cross-site")),
            (Some(OURS), Some("same-site")),
        ] {
            let mut request = Request::post(path).header(header::COOKIE, &session);
            if let Some(origin) = origin {
                request = request.header(header::ORIGIN, origin);
            }
            if let Some(site) = site {
                request = request.header("sec-fetch-site", site);
            }
            let (status, cookie, _) = host.ask(request, &form).await;
            assert_eq!((status, cookie), (403, None), "{path} {origin:?} {site:?}");
        }
    }
    assert_eq!(host.get("/", &session).await.0, 200, "it is still signed in");
    let listed = host.management.api::<Fault>().list(&ListParams::default()).await;
    assert_eq!(listed.expect("a list").items.len(), 1);
    let act = Request::post("/act/fault/default/one").header(header::COOKIE, &session);
    let act = act
        .header(header::ORIGIN, OURS)
        .header("sec-fetch-site", "same-origin");
    assert_eq!(host.ask(act, &form).await.0, 303);
    host.management.eventually_gone::<Fault>("one").await;
}

#[tokio::test]
async fn a_user_a_namespace_and_all_have_a_share_of_the_visits() {
    let host = Host::new();
    let mut sessions = Vec::new();
    for _ in 0..=OF_USER_MAX {
        sessions.push(host.sign_in("token-a").await);
        sleep(Duration::from_millis(1)).await;
    }
    let mut statuses = Vec::new();
    for session in &sessions {
        statuses.push(host.get("/table", session).await.0);
    }
    assert_eq!(statuses, [401, 200, 200, 200, 200], "the oldest has ended");
    let sign_in = async |letter: u8, namespace: &str| {
        let request = Request::post(SIGN_IN).header(header::ORIGIN, OURS);
        let form = format!("token=token-{}&namespace={namespace}", char::from(letter));
        let (status, _, text) = host.ask(request, &form).await;
        (status, text.contains("Too many people are signed in."))
    };
    for number in OF_USER_MAX..OF_NAMESPACE_MAX {
        let letter = b'A' + u8::try_from(number / OF_USER_MAX).expect("few");
        assert_eq!(sign_in(letter, "default").await, (303, false));
    }
    assert_eq!(sign_in(b'b', "default").await, (503, true));
    for number in OF_NAMESPACE_MAX..VISITS_MAX {
        let letter = b'A' + u8::try_from(number / OF_USER_MAX).expect("few");
        assert_eq!(sign_in(letter, "").await, (303, false));
    }
    assert_eq!(sign_in(b'c', "").await, (503, true));
    assert_eq!(
        sign_in(b'a', "default").await.0,
        303,
        "in the place of one of their own"
    );
    let again = Request::post(SIGN_IN)
        .header(header::ORIGIN, OURS)
        .header(header::COOKIE, &sessions[4]);
    let (status, ..) = host.ask(again, "token=token-d").await;
    assert_eq!(status, 303, "in the place of the former visit of the browser");
}

#[tokio::test(start_paused = true)]
async fn a_visit_without_a_window_ends_after_a_quarter_of_an_hour() {
    let host = Host::new();
    let session = host.sign_in("token-a").await;
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(host.get("/page.js", &session).await.0, 200);
    let stream = Request::get("/stream")
        .header(header::COOKIE, &session)
        .header(header::HOST, HERE);
    let stream = stream.body(axum::body::Body::empty()).expect("a request");
    let window = host.visits.answer(stream).await;
    assert_eq!(window.status(), 200);
    sleep(4 * IDLE).await;
    assert_eq!(host.get("/page.js", &session).await.0, 200);
    drop(window);
    sleep(IDLE + Duration::from_secs(1)).await;
    assert_eq!(host.get("/page.js", &session).await.0, 401);
}

#[tokio::test]
async fn a_page_with_more_objects_than_it_may_hold_says_so_and_holds_none() {
    let host = Host::new();
    let session = host.sign_in("token-a").await;
    let visit = host
        .visits
        .under_way
        .lock()
        .values()
        .next()
        .cloned()
        .expect("a visit");
    let mut stream = {
        let stream = Request::get("/stream")
            .header(header::COOKIE, &session)
            .header(header::HOST, HERE);
        let stream = stream.body(axum::body::Body::empty()).expect("a request");
        host.visits.answer(stream).await.into_body()
    };
    assert_eq!(host.get("/", &session).await.0, 200);
    let text = "x".repeat(200 * 1024);
    for number in 0..=OBJECTS_OF_VISIT.end() / text.len() {
        let fault = json!({
            "metadata": { "name": format!("f{number}"), "namespace": "default", "annotations": { "large": text } },
            "spec": { "effect": { "freeze": {} } },
        });
        host.management
            .create(&serde_json::from_value::<Fault>(fault).expect("a Fault"))
            .await;
    }
    // The stream ends.
    while stream.frame().await.is_some() {}
    let (status, said) = host.get("/", &session).await;
    assert_eq!(status, 503);
    assert!(said.contains("more than this page may hold"), "{said}");
    drop(visit);
    while host.visits.objects.left() != OBJECTS_MAX {
        sleep(Duration::from_millis(1)).await;
    }
}

/// The book says how much memory the page of a manager may take: of the objects three times their text in memory, and as much
/// as half of that for what is made of them; a KiB for a record, and 100 KiB for a connection.
#[test]
fn the_book_says_what_all_visits_may_hold() {
    const MIB: usize = 1024 * 1024;
    let objects = (VISITS_MAX * OBJECTS_OF_VISIT.start() + OBJECTS_MAX) * 9 / 2;
    let messages = VISITS_MAX * FEEDS_MAX * crate::feed::BYTES_MAX;
    assert!(
        size_of::<nephele_cloud::JournalLine>() < 512,
        "{}",
        size_of::<nephele_cloud::JournalLine>()
    );
    let records = VISITS_MAX * RECORDS_MAX * 1024;
    let connections = CONNECTIONS_MAX * 100 * 1024;
    let forms = CONNECTIONS_MAX * STREAMS_MAX as usize * FORM_MAX;
    // Of the client of visitors: eight answers of a MiB, in up to four shapes while they are parsed.
    let answers = 8 * 4 * MIB;
    let sum = (objects + messages + records + connections + UNREAD_MAX + forms + answers).div_ceil(MIB);
    let page = include_str!("../../../../../docs/src/security.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        format!("may take {sum} MiB"),
        format!("{VISITS_MAX} browsers"),
        format!("{OF_USER_MAX} of a user and {OF_NAMESPACE_MAX} of a namespace"),
        format!("{} KiB of objects", OBJECTS_OF_VISIT.start() / 1024),
        format!(
            "up to {} MiB while others leave that",
            OBJECTS_OF_VISIT.end() / MIB
        ),
    ] {
        assert!(page.contains(&told), "{told}");
    }
}
