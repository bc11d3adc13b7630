//! `nephele page` on a management cluster that another process serves.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Instant,
};

use crate::{PATIENCE, Up, file, text};

/// A running `nephele page`, which is killed when it is dropped.
struct Page(Child);

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The answer to a request, with its head.
fn ask(host: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Asks until the answer has a text.
fn eventually(host: &str, path: &str, cookie: &str, wanted: &str) -> String {
    let started = Instant::now();
    loop {
        let answer = ask(host, path, cookie);
        if answer.contains(wanted) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "no {wanted} in {answer}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_page_and_a_terminal_of_a_namespace_show_its_machines_their_journal_and_no_other() {
    let mut up = Up::start(&[
        "-f",
        &file("two-clusters.yaml"),
        "--port-range",
        "28500-28599",
        "--no-page",
    ]);
    let line = up.line();
    let mut page = Page(
        Command::new(env!("CARGO_BIN_EXE_nephele"))
            .args([
                "page",
                "-n",
                "team",
                "--kubeconfig",
                text(&line, "/management/kubeconfig"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts"),
    );
    let mut said = String::new();
    let stdout = page.0.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut said).expect("text");
    let address = said.trim().strip_prefix("Page  http://").expect("an address");
    let (host, entrance) = address.split_once('/').expect("a key");
    let entered = ask(host, &format!("/{entrance}"), "");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie
        .and_then(|cookie| cookie.split(';').next())
        .expect("a cookie");

    let shown = eventually(host, "/", cookie, "6/6 running");
    assert!(!shown.contains("small"), "{shown}");
    let machine = shown
        .split("href=\"/machine/")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let drawer = format!("/fragment/machine/{}", machine.expect("a machine"));
    eventually(host, &drawer, cookie, "CreateInstance");

    let pid = rustix::process::Pid::from_child(&page.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    assert!(page.0.wait().expect("ours to wait for").success());

    let top = |more: &[&str]| {
        let kubeconfig = text(&line, "/management/kubeconfig");
        let mut top = Command::new(env!("CARGO_BIN_EXE_nephele"));
        let output = top
            .args(["top", "-n", "team", "--kubeconfig", kubeconfig])
            .args(more);
        let output = output.output().expect("the binary starts");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), said)
    };
    let (is_done, shown) = top(&["--once"]);
    let head: Vec<_> = shown.lines().take(3).collect();
    assert_eq!(head[..2], ["Nephele  1 cluster  6 machines, 6 running", ""]);
    assert!(
        head[2].starts_with("team/large  Available  v1.36.3  6 of 6 running"),
        "{shown}"
    );
    assert!(
        is_done && shown.contains("StageReached") && !shown.contains("small"),
        "{shown}"
    );
    let no_terminal = "Error: the output is no terminal; --once prints what is there\n";
    assert_eq!(top(&[]), (false, no_terminal.to_owned()));
}
