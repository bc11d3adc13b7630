use axum::Router;
use nephele_api::cloud::v1alpha1::Fault;
use nephele_controller::wall_clock;
use nephele_testkit::ManagementApi;
use serde_json::json;

use super::*;

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
    let source = Source {
        client: management.client(),
        namespace: None,
        journal: Router::new(),
    };
    Server {
        actor: Arc::new(Actor::new(management.client())),
        hub: Hub::new(source, wall_clock(), CancellationToken::new()),
        guard: Arc::new(Guard::new(([127, 0, 0, 1], 4123).into()).expect("randomness")),
        viewers: Arc::new(Semaphore::new(1)),
        clock: wall_clock(),
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
        (one, &*format!("a&b&c&d&e&f&g&h&{token}"), 403),
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
