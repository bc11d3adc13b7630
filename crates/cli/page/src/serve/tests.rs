use axum::Router;
use http_body_util::BodyExt as _;
use kube::api::ListParams;
use nephele_api::cloud::v1alpha1::{Fault, Scenario};
use nephele_controller::wall_clock;
use nephele_testkit::ManagementApi;
use serde_json::json;

use super::{
    forms::{FORM_MAX, FRAGMENT},
    *,
};
use crate::{allowance::Allowance, library::tests::Two, preview::Selected};

#[test]
fn a_path_is_names_and_never_leads_anywhere_else() {
    let read = |path| parts(path).map(|parts| parts.join("|"));
    assert_eq!(read("/machine/team/a"), Some("machine|team|a".to_owned()));
    assert_eq!(
        read("/machine/..%2F..%2Fetc/%3Cb%3E"),
        Some("machine|../../etc|<b>".to_owned())
    );
    assert_eq!(read("/%ff"), None);
    assert_eq!(read("/"), Some(String::new()));
}

fn server(management: &ManagementApi) -> Server {
    server_of(management, Screens::All)
}

fn server_of(management: &ManagementApi, screens: Screens) -> Server {
    let source = Source {
        client: management.client(),
        namespace: None,
        journal: Router::new(),
        allowance: Allowance::unlimited(),
    };
    let means = Means {
        matcher: |_, _| Ok(Selected::default()),
        library: Two::shared(),
    };
    let guard = Guard::new(([127, 0, 0, 1], 4123).into()).expect("randomness");
    Server {
        screens,
        ..Server::new(
            source,
            means,
            guard,
            Bounds::of_command(),
            wall_clock(),
            CancellationToken::new(),
        )
    }
}

/// The status of the answer to a form, where it leads, and what it says.
async fn sent(server: &Server, path: &str, form: &str, is_fragment: bool) -> (u16, String, String) {
    let mut request = Request::post(path);
    if is_fragment {
        request = request.header(FRAGMENT, "1");
    }
    let request = request.body(Body::from(form.to_owned())).expect("a request");
    let answer = server.act(request).await;
    let leads_to = answer.headers().get(header::LOCATION);
    let leads_to = leads_to.map(|path| path.to_str().expect("text").to_owned());
    let status = answer.status().as_u16();
    let said = answer.into_body().collect().await.expect("in memory").to_bytes();
    let said = String::from_utf8(said.to_vec()).expect("text");
    (status, leads_to.unwrap_or_default(), said)
}

#[tokio::test]
async fn a_form_with_the_token_is_carried_out_and_any_other_is_not() {
    let management = ManagementApi::start();
    for name in ["one", "two"] {
        let fault = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "effect": { "freeze": {} } } });
        management
            .create(&serde_json::from_value::<Fault>(fault).expect("a Fault"))
            .await;
    }
    let server = server(&management);
    let token = format!("token={}", server.guard.token());
    let one = "/act/fault/default/one";
    for (path, form, expected) in [
        (one, "", 403),
        (one, "token=guessed", 403),
        (one, &*format!("{}{token}", "x&".repeat(12)), 403),
        (one, &*format!("{token}&x={}", "x".repeat(FORM_MAX)), 413),
        ("/act/fault/default/absent", &*token, 404),
        ("/act/secret/default/one", &*token, 404),
        ("/act/fault/default", &*token, 404),
    ] {
        let (status, ..) = sent(&server, path, form, true).await;
        assert_eq!(status, expected, "{path} {form:.80}");
    }
    let (status, _, said) = sent(&server, one, &token, true).await;
    assert_eq!(
        (status, said.as_str()),
        (200, "Fault one is gone: what it broke heals.")
    );
    let (status, leads_to, _) = sent(&server, "/act/fault/default/two", &token, false).await;
    assert_eq!((status, leads_to.as_str()), (303, "/fault/default/two"));
    for name in ["one", "two"] {
        management.eventually_gone::<Fault>(name).await;
    }
}

#[tokio::test]
async fn the_palette_makes_a_fault_or_leads_to_its_preview() {
    let management = ManagementApi::start();
    let server = server(&management);
    let token = format!("token={}", server.guard.token());
    let palette = "/act/palette/default/new";
    let form = format!("{token}&effect=freeze&zone=n1&for=5m&count=2");
    let (status, leads_to, _) = sent(&server, palette, &format!("{form}&act=preview"), false).await;
    assert_eq!(
        (status, leads_to.as_str()),
        (303, "/palette/default/new?effect=freeze&zone=n1&for=5m&count=2"),
        "without the token, which is no part of an address"
    );
    let faults = async || -> Vec<Fault> {
        let listed = management.api().list(&ListParams::default()).await;
        listed.expect("a list").items
    };
    assert_eq!(faults().await.len(), 0);
    let (status, ..) = sent(&server, palette, &format!("{form}&act=break"), true).await;
    assert_eq!(status, 200);
    let specs: Vec<_> = faults().await.into_iter().map(|fault| fault.spec).collect();
    let spec = json!({ "match": { "zones": ["n1"] }, "effect": { "freeze": {} }, "budget": { "for": "5m", "count": 2 } });
    assert_eq!(serde_json::to_value(specs).expect("JSON"), json!([spec]));
    for (path, form, expected) in [
        (palette, format!("{token}&effect=gremlins"), 400),
        (palette, "effect=freeze".to_owned(), 403),
        ("/act/palette/elsewhere/new", form.clone(), 404),
        ("/act/palette/default/other", form.clone(), 404),
    ] {
        assert_eq!(
            sent(&server, path, &form, true).await.0,
            expected,
            "{path} {form}"
        );
    }
}

/// The status of the answer to a path, and what it says.
async fn got(server: &Server, path: &str) -> (u16, String) {
    let request = Request::get(path).body(()).expect("a request");
    let answer = server.resource(&request).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("in memory").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn a_link_fills_the_palette_in() {
    let management = ManagementApi::start();
    let server = server(&management);
    let get = async |path: &str| got(&server, path).await;
    let (status, html) = get("/fragment/palette/-/new?effect=freeze&for=5m&count=%3Cb%3E").await;
    assert_eq!(status, 200);
    for part in [
        r#"<option value="freeze" selected>"#,
        r#"name="for" value="5m""#,
        r#"name="count" value="&lt;b&gt;""#,
        "the number of hits is a whole number",
        r#"action="/act/palette/default/new""#,
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert_eq!(get("/fragment/palette/default/other").await.0, 404);
    assert_eq!(get("/palette/elsewhere/new").await.0, 404);
    assert_eq!(get("/palette/-/new").await.0, 200);
}

#[tokio::test]
async fn a_scenario_of_the_library_runs_when_nothing_is_missing() {
    let management = ManagementApi::start();
    let server = server(&management);
    let (status, html) = got(&server, "/fragment/library/-/all").await;
    let link = r#"<a href="/library/default/two">two</a>"#;
    assert!(status == 200 && html.contains(link), "{html}");
    let entry = "/fragment/library/default/two";
    let (_, html) = got(&server, entry).await;
    for part in [
        "the story of two",
        "there is no Cluster in default",
        "Make its cluster",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    let token = format!("token={}", server.guard.token());
    let act = "/act/library/default/two";
    let send = async |act: &str, form: &str| sent(&server, act, &format!("{token}&{form}"), true).await;
    assert_eq!(send(act, "act=run").await.0, 400, "something is missing");
    assert_eq!(send(act, "act=make").await.0, 200);
    let (_, html) = got(&server, entry).await;
    assert!(html.contains("Everything that it needs is there."), "{html}");
    let (status, _, said) = send(act, "act=run").await;
    assert_eq!(
        (status, said.as_str()),
        (200, r#"Scenario <a href="/scenario/default/two">two</a> runs."#)
    );
    assert_eq!(
        management.get::<Scenario>("two").await.spec.steps[0].action.say,
        "two"
    );
    assert_eq!(send(act, "act=run").await.0, 409, "it runs already");
    assert_eq!(send("/act/library/default/three", "act=run").await.0, 400);
    assert_eq!(send("/act/library/elsewhere/two", "act=run").await.0, 404);
}

#[tokio::test]
async fn what_is_done_while_it_is_recorded_becomes_a_scenario() {
    let management = ManagementApi::start();
    let server = server(&management);
    let token = format!("token={}", server.guard.token());
    let send = async |act: &str, form: &str| sent(&server, act, &format!("{token}&{form}"), true).await;
    let recording = "/act/recording/default/new";
    let drawer = "/fragment/recording/-/new";
    assert_eq!(send(recording, "act=end").await.0, 409, "it has not begun");
    assert_eq!(send(recording, "act=run").await.0, 400);
    assert_eq!(send(recording, "act=begin").await.0, 200);
    assert_eq!(
        send("/act/palette/default/new", "act=break&effect=freeze&for=5s")
            .await
            .0,
        200
    );
    let (_, html) = got(&server, drawer).await;
    assert!(html.contains("Fault freeze-"), "{html}");
    assert_eq!(send(recording, "act=end").await.0, 200);
    let (_, html) = got(&server, drawer).await;
    assert!(
        html.contains("kind: Scenario") && html.contains("freeze: {}"),
        "{html}"
    );
    assert_eq!(send(recording, "act=run").await.0, 200);
    let scenarios: Vec<Scenario> = management
        .api()
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    let faults: Vec<_> = (scenarios.iter().flat_map(|scenario| &scenario.spec.steps))
        .filter_map(|step| step.action.fault.as_ref())
        .map(|fault| serde_json::to_value(&fault.spec).expect("JSON"))
        .collect();
    assert_eq!(
        faults,
        [json!({ "effect": { "freeze": {} }, "budget": { "for": "5s" } })]
    );
    assert_eq!(send(recording, "act=begin").await.0, 200);
    assert_eq!(send(recording, "act=forget").await.0, 200);
    let (_, html) = got(&server, drawer).await;
    assert!(html.contains("recording-begin"), "{html}");
}

/// The status of the answer to a question, and what it says.
async fn read(server: &Server, path: &str) -> (u16, String) {
    let request = Request::get(path).body(()).expect("a request");
    let answer = server.resource(&request).await;
    let status = answer.status().as_u16();
    let said = answer.into_body().collect().await.expect("in memory").to_bytes();
    (status, String::from_utf8(said.to_vec()).expect("text"))
}

#[tokio::test]
async fn a_kiosk_shows_the_cloud_and_nothing_that_acts() {
    let management = ManagementApi::start();
    let server = server_of(&management, Screens::Kiosk);
    for path in ["/", "/kiosk"] {
        let (status, said) = read(&server, path).await;
        assert_eq!(
            (status, said.contains("id=\"clusters\""), said.contains("<form")),
            (200, true, false),
            "{path}"
        );
        assert!(!said.contains("<nav"), "{path}");
    }
    assert_eq!(read(&server, "/fragment/kiosk").await.0, 200);
    for path in [
        "/ns/default",
        "/palette/default/new",
        "/observed",
        "/table",
        "/machine/default/a",
    ] {
        assert_eq!(read(&server, path).await.0, 404, "{path}");
    }
    let form = format!("token={}&effect=notReady", server.guard.token());
    let (status, _, said) = sent(&server, "/act/fault", &form, true).await;
    assert_eq!((status, said.as_str()), (403, "a kiosk only shows\n"));
}

#[tokio::test]
async fn pools_and_what_is_observed_are_shown_of_one_namespace_or_of_all() {
    let management = ManagementApi::start();
    let server = server(&management);
    for (path, title, part) in [
        ("/pools", "<h1>Pools</h1>", "/fragment/pools"),
        ("/observed", "<h1>Observed</h1>", "/fragment/observed"),
        (
            "/pools?namespace=a%2Fb%22",
            "<h1>Pools</h1>",
            "/fragment/pools?namespace=a%2Fb%22",
        ),
    ] {
        let (status, said) = read(&server, path).await;
        assert_eq!((status, said.contains(title)), (200, true), "{path}");
        assert!(said.contains(&format!("data-part=\"{part}\"")), "{said}");
        let (status, said) = read(&server, part).await;
        assert_eq!((status, said.contains("<h1>")), (200, false), "{part}");
    }
}
