//! Who gets the page.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::{
    browser::Browser,
    up::{CLUSTERS, Up},
};

/// A path, the headers of a request for it, and the status of the answer.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);

/// The status and the head of an answer.
pub(crate) fn ask(address: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // The head is enough: a stream does not end.
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => break,
            read => answer.extend_from_slice(&part[..read]),
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok((status, text))
}

#[tokio::test]
async fn only_the_browser_with_the_cookie_gets_the_page_and_only_under_its_own_name() {
    let up = Up::start(CLUSTERS).await.expect("it starts");
    let browser = Browser::start().await.expect("it starts");
    browser.open(&up.page).await.expect("it opens");
    let cookies = browser.client.get_all_cookies().await.expect("cookies");
    let [cookie] = &cookies[..] else {
        panic!("{cookies:?}")
    };
    assert_eq!(
        (
            cookie.http_only(),
            cookie.same_site().map(|same| same.to_string())
        ),
        (Some(true), Some("Strict".into()))
    );
    assert_eq!(browser.run("return document.cookie").await.expect("it runs"), "");
    let cookie = format!("{}={}", cookie.name(), cookie.value());
    let address = up.origin().trim_start_matches("http://").to_owned();
    let used = up.page.trim_start_matches(up.origin()).to_owned();
    let host = ("Host", address.as_str());
    let ours = ("Cookie", cookie.as_str());
    let origin = ("Origin", up.origin());
    let machine = "/machine/default/absent";
    let cases: &[Case<'_>] = &[
        ("/", &[host, ours], 200),
        ("/", &[host, ours, origin], 200),
        ("/stream", &[host, ours, origin], 200),
        ("/table", &[host, ours], 200),
        ("/fragment/machine/default/absent", &[host, ours], 404),
        ("/nothing", &[host, ours], 404),
        ("/", &[host], 403),
        (machine, &[host], 403),
        ("/stream", &[host], 403),
        ("/fragment/machine/default/absent", &[host], 403),
        ("/page.js", &[host], 403),
        (&used, &[host], 403),
        ("/?key=AAAAAAAAAAAAAAAAAAAAAA", &[host], 403),
        ("/", &[host, ("Cookie", "nephele-page=1")], 403),
        ("/", &[ours], 421),
        ("/", &[("Host", "rebound.example"), ours], 421),
        ("/stream", &[("Host", "rebound.example"), ours], 421),
        ("/", &[("Host", "127.0.0.1"), ours], 421),
        ("/", &[host, ours, ("Origin", "http://rebound.example")], 403),
        ("/stream", &[host, ours, ("Origin", "null")], 403),
    ];
    for (path, headers, expected) in cases {
        let (path, headers, address) = (path.to_string(), *headers, address.clone());
        let (status, head) = ask(&address, &path, headers).expect("an answer");
        assert_eq!(status, *expected, "{path} {headers:?}: {head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'"),
            "{head}"
        );
    }
}
