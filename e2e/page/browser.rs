//! A headless Chromium with its driver.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fantoccini::{Client, ClientBuilder, Locator, error::CmdError, wd::WebDriverCompatibleCommand};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use url::{ParseError, Url};

/// Far more than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// The browser. Its processes end when this is dropped.
pub(crate) struct Browser {
    _driver: Driver,
    pub(crate) client: Client,
}

/// The driver, and the session with its Chromium, if there is one.
struct Driver {
    process: Child,
    port: u16,
    session: Option<String>,
}

impl Drop for Driver {
    /// A driver that is killed leaves its Chromium behind, so the session ends first.
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            let _ = end_session(self.port, session);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ends a session, without a runtime: the test may have failed.
fn end_session(port: u16, session: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let head =
        format!("DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    // The answer comes when the browser has ended.
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// A command of Chromium's own protocol, by its driver.
#[derive(Debug)]
struct Cdp {
    command: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for Cdp {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!(
            "session/{}/goog/cdp/execute",
            session.unwrap_or_default()
        ))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = json!({"cmd": self.command, "params": self.parameters});
        (Method::POST, Some(body.to_string()))
    }
}

/// The console of the pages since the last question.
#[derive(Debug)]
struct Console;

impl WebDriverCompatibleCommand for Console {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(json!({"type": "browser"}).to_string()))
    }
}

impl Browser {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut driver = tokio::task::spawn_blocking(driver).await??;
        let port = driver.port;
        // As root, in a container, Chromium has no sandbox. The pages are our own.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--window-size=1440,900",
            "--hide-scrollbars",
            "--force-prefers-reduced-motion",
        ];
        let capabilities = json!({
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let capabilities: Map<String, Value> = capabilities.as_object().cloned().unwrap_or_default();
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await;
        let client = client.context("failed to start Chromium")?;
        driver.session = client.session_id().await?;
        Ok(Self {
            _driver: driver,
            client,
        })
    }

    /// Opens a page, and waits until its stream is there.
    pub(crate) async fn open(&self, url: &str) -> anyhow::Result<()> {
        self.client.goto(url).await?;
        self.until(
            "the stream to be there",
            "return document.getElementById('live')?.dataset.state === 'live'",
        )
        .await
    }

    /// Clicks the element of this id as soon as it is there.
    pub(crate) async fn click(&self, id: &str) -> anyhow::Result<()> {
        let clicks = format!("const found = document.getElementById('{id}'); found?.click(); return !!found");
        self.until(id, &clicks).await
    }

    /// Clicks an element that leads to another page, and returns the path and the query of that. A click does not always wait
    /// for it.
    pub(crate) async fn follow(&self, element: Locator<'_>) -> anyhow::Result<(String, String)> {
        let before = self.client.current_url().await?;
        self.client.find(element).await?.click().await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.client.current_url().await?;
            if now != before {
                return Ok((now.path().to_owned(), now.query().unwrap_or_default().to_owned()));
            }
            ensure!(
                Instant::now() < deadline,
                "{element:?} leads from {before} to no other page"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Selects an element by a click, and waits for its Drawer.
    pub(crate) async fn open_drawer(&self, selector: &str) -> anyhow::Result<()> {
        self.run(&format!("document.querySelector('{selector}').click()"))
            .await?;
        self.drawer().await
    }

    /// Waits until the Drawer is open and has the focus.
    pub(crate) async fn drawer(&self) -> anyhow::Result<()> {
        let is_open = "return document.activeElement.id === 'drawer-title'";
        self.until("the Drawer", is_open).await
    }

    /// What a script returns.
    pub(crate) async fn run(&self, script: &str) -> anyhow::Result<Value> {
        let found = self.client.execute(script, Vec::new()).await;
        found.with_context(|| format!("failed to run {script}"))
    }

    /// Waits until a script returns true.
    pub(crate) async fn until(&self, what: &str, script: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.run(script).await? != Value::Bool(true) {
            if Instant::now() > deadline {
                let body = self.run("return document.body.innerText").await?;
                bail!("waited in vain for {what}; the page says {body}");
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// A command of Chromium's own protocol.
    pub(crate) async fn cdp(&self, command: &'static str, parameters: Value) -> Result<Value, CmdError> {
        self.client.issue_cmd(Cdp { command, parameters }).await
    }

    /// What the pages wrote to the console since the last question.
    pub(crate) async fn console(&self) -> anyhow::Result<Vec<String>> {
        let entries = self.client.issue_cmd(Console).await?;
        let entries = entries.as_array().cloned().unwrap_or_default();
        Ok(entries.iter().map(|entry| entry["message"].to_string()).collect())
    }

    /// Makes the window as large as a telephone, or as it was.
    pub(crate) async fn resize(&self, width: u32, height: u32, is_phone: bool) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.cdp("Emulation.setDeviceMetricsOverride", size).await?;
        Ok(())
    }

    /// Light or dark.
    pub(crate) async fn theme(&self, theme: &str) -> anyhow::Result<()> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.cdp("Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    /// A picture of the window, as PNG.
    pub(crate) async fn picture(&self) -> anyhow::Result<Vec<u8>> {
        let answer = self
            .cdp("Page.captureScreenshot", json!({"format": "png"}))
            .await?;
        Ok(STANDARD.decode(answer["data"].as_str().context("no picture")?)?)
    }
}

/// How often the driver is started. It has ended before it listened, once in a hundred starts and for no known reason.
const STARTS_MAX: usize = 3;

/// A driver that listens.
#[expect(clippy::print_stderr, reason = "why a driver ended is worth knowing")]
fn driver() -> anyhow::Result<Driver> {
    let mut said = String::new();
    for _ in 0..STARTS_MAX {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start chromedriver; Debian's packages are chromium and chromium-driver")?;
        let stdout = process.stdout.take().context("piped")?;
        let mut driver = Driver {
            process,
            port: 0,
            session: None,
        };
        match port(BufReader::new(stdout), &mut said)? {
            Some(port) => {
                driver.port = port;
                return Ok(driver);
            }
            None => eprintln!("chromedriver ended early: {said}"),
        }
    }
    bail!("chromedriver ended early {STARTS_MAX} times; it said {said:?}")
}

/// The port that the driver chose; none if it ended before. `said` gets all that it prints until then.
fn port(mut lines: impl std::io::BufRead, said: &mut String) -> anyhow::Result<Option<u16>> {
    said.clear();
    loop {
        let known = said.len();
        if lines.read_line(said)? == 0 {
            return Ok(None);
        }
        if let Some((_, port)) = said[known..].rsplit_once("successfully on port ") {
            return Ok(Some(port.trim().trim_end_matches('.').parse()?));
        }
    }
}
