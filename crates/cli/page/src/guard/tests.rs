use super::*;

fn guard() -> Guard {
    Guard::new(([127, 0, 0, 1], 4123).into()).expect("randomness")
}

fn judge(guard: &Guard, method: &Method, path: &str, headers: &[(&'static str, &str)]) -> Verdict {
    let mut given = HeaderMap::new();
    for (name, value) in headers {
        given.append(*name, value.parse().expect("a header"));
    }
    guard.judge(method, &path.parse().expect("a path"), &given)
}

/// A method, a path, the headers of a request for it, and the status of the answer.
type Case<'a> = (&'a Method, &'a str, &'a [(&'static str, &'a str)], u16);

fn status(verdict: &Verdict) -> u16 {
    match verdict {
        Verdict::Pass => 200,
        Verdict::Enter(_) => 303,
        Verdict::Refuse(status, _) => status.as_u16(),
    }
}

const HOST: (&str, &str) = ("host", "127.0.0.1:4123");

#[test]
fn the_key_is_good_once_and_sets_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let guard = guard();
    let entrance = guard.entrance();
    let Verdict::Enter(cookie) = judge(&guard, &Method::GET, &entrance, &[HOST]) else {
        panic!("it lets no browser in")
    };
    assert!(
        cookie.starts_with("nephele-page-4123=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict")
    );
    let (pair, _) = cookie.split_once(';').expect("attributes");
    assert_eq!(status(&judge(&guard, &Method::GET, &entrance, &[HOST])), 403);
    assert_eq!(
        judge(&guard, &Method::GET, "/", &[HOST, ("cookie", pair)]),
        Verdict::Pass
    );
    assert_eq!(guard.entrance(), "/?key=");
    assert_eq!(status(&judge(&guard, &Method::GET, "/?key=", &[HOST])), 403);
}

#[test]
fn every_request_needs_one_of_our_hosts_no_other_origin_and_the_cookie() {
    let guard = guard();
    let Verdict::Enter(cookie) = judge(&guard, &Method::GET, &guard.entrance(), &[HOST]) else {
        panic!("it lets no browser in")
    };
    let ours = ("cookie", cookie.split(';').next().expect("a pair"));
    let theirs = ("cookie", "other=1; nephele-page-4123=AAAAAAAAAAAAAAAAAAAAAA");
    let here = ("origin", "http://127.0.0.1:4123");
    let get = Method::GET;
    let cases: &[Case<'_>] = &[
        (&get, "/", &[HOST, ours], 200),
        (&get, "/", &[("host", "localhost:4123"), ours], 200),
        (&Method::HEAD, "/", &[HOST, ours], 200),
        (
            &get,
            "/stream",
            &[HOST, ours, ("origin", "http://127.0.0.1:4123")],
            200,
        ),
        (
            &get,
            "/stream",
            &[HOST, ours, ("origin", "http://localhost:4123")],
            200,
        ),
        (&get, "/page.css", &[HOST], 200),
        (&get, "/page.js", &[HOST], 403),
        (&get, "/", &[HOST], 403),
        (&get, "/", &[HOST, theirs], 403),
        (&get, "/", &[HOST, ("cookie", "nephele-page-4124=x")], 403),
        (&get, "/?key=wrong", &[HOST], 403),
        (&get, "/", &[ours], 421),
        (&get, "/", &[("host", "127.0.0.1"), ours], 421),
        (&get, "/", &[("host", "127.0.0.1:4124"), ours], 421),
        (&get, "/", &[("host", "rebound.example:4123"), ours], 421),
        (
            &get,
            "/",
            &[("host", "127.0.0.1:4123.rebound.example"), ours],
            421,
        ),
        (
            &get,
            "/",
            &[HOST, ours, ("origin", "https://127.0.0.1:4123")],
            403,
        ),
        (
            &get,
            "/",
            &[HOST, ours, ("origin", "http://rebound.example")],
            403,
        ),
        (&get, "/", &[HOST, ours, ("origin", "null")], 403),
        (&Method::POST, "/", &[HOST, ours], 405),
        (&Method::POST, "/actor", &[HOST, ours, here], 405),
        (&Method::DELETE, "/act/fault/team/a", &[HOST, ours, here], 405),
        (&get, "/act/fault/team/a", &[HOST, ours], 200),
        (&Method::POST, "/act/fault/team/a", &[HOST, ours, here], 200),
        (
            &Method::POST,
            "/act/fault/team/a",
            &[HOST, ours, here, ("sec-fetch-site", "same-origin")],
            200,
        ),
        (&Method::POST, "/act/fault/team/a", &[HOST, ours], 403),
        (&Method::POST, "/act/fault/team/a", &[HOST, here], 403),
        (&Method::POST, "/act/fault/team/a?key=wrong", &[HOST, here], 403),
        (&Method::POST, "/act/fault/team/a", &[HOST, theirs, here], 403),
        (
            &Method::POST,
            "/act/fault/team/a",
            &[HOST, ours, here, ("sec-fetch-site", "cross-site")],
            403,
        ),
        (
            &Method::POST,
            "/act/fault/team/a",
            &[HOST, ours, here, ("sec-fetch-site", "same-site")],
            403,
        ),
        (
            &Method::POST,
            "/act/fault/team/a",
            &[HOST, ours, ("origin", "http://rebound.example")],
            403,
        ),
        (
            &Method::POST,
            "/act/fault/team/a",
            &[HOST, ours, ("origin", "null")],
            403,
        ),
        (&Method::POST, "/act/fault/team/a", &[ours, here], 421),
        (&Method::OPTIONS, "/", &[HOST, ours], 405),
    ];
    for (method, path, headers, expected) in cases {
        let verdict = judge(&guard, method, path, headers);
        assert_eq!(status(&verdict), *expected, "{method} {path} {headers:?}");
    }
}

#[test]
fn the_token_of_a_form_is_neither_the_key_nor_the_cookie() {
    let guard = guard();
    assert!(guard.is_token(guard.token()));
    let key = guard.entrance();
    let key = key.trim_start_matches("/?key=");
    for other in ["", key, &guard.session, &guard.token[1..]] {
        assert!(!guard.is_token(other), "{other}");
    }
}
