//! A line between browser and page that can be cut. The page knows only its own name, so the line puts it into the requests.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A line. It ends with the runtime of the test.
pub(crate) struct Line {
    /// The address for the browser: `127.0.0.1:PORT`.
    pub(crate) address: String,
    cut: watch::Sender<bool>,
}

impl Line {
    /// A line to this address, `127.0.0.1:PORT`.
    pub(crate) async fn start(to: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let cut = watch::Sender::new(false);
        let (from, is_cut) = (address.clone(), cut.subscribe());
        tokio::spawn(async move {
            while let Ok((browser, _)) = listener.accept().await {
                let mut cut = is_cut.clone();
                let carried = carry(browser, from.clone(), to.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = cut.wait_for(|cut| *cut) => {}
                        _ = carried => {}
                    }
                });
            }
        });
        Ok(Self { address, cut })
    }

    /// Breaks all connections, and those to come, or carries them again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.cut.send_replace(is_cut);
    }
}

/// Carries one connection. Requests are small: each comes in one piece.
async fn carry(browser: TcpStream, from: String, to: String) -> std::io::Result<()> {
    let page = TcpStream::connect(&to).await?;
    let (mut of_browser, mut to_browser) = browser.into_split();
    let (mut of_page, mut to_page) = page.into_split();
    let requests = async {
        let mut piece = vec![0; 64 * 1024];
        loop {
            let read = of_browser.read(&mut piece).await?;
            if read == 0 {
                return to_page.shutdown().await;
            }
            let text = String::from_utf8_lossy(&piece[..read]).replace(&from, &to);
            to_page.write_all(text.as_bytes()).await?;
        }
    };
    let answers = copy(&mut of_page, &mut to_browser);
    tokio::try_join!(requests, answers).map(drop)
}
