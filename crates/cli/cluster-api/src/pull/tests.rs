//! Pulls from a registry on the loopback interface.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use nephele_error_chain::chain;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use super::{layer::tests::archive, *};

const MANIFESTS: &str = "/v2/team/manager/manifests";
const BLOBS: &str = "/v2/team/manager/blobs";
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

/// What a registry does.
#[derive(Default)]
struct Behavior {
    contents: BTreeMap<String, Vec<u8>>,
    /// Blobs are at another server.
    blobs_at: Option<String>,
    /// The realm where it sends whoever has no token.
    realm: Option<String>,
    /// Whether it sends whoever has a token there, too.
    refuses_tokens: bool,
    /// The digest that it says of each manifest.
    says: Option<String>,
    /// The paths that were asked for, with the tokens.
    asked: Vec<String>,
}

struct Registry {
    host: String,
    behavior: Arc<Mutex<Behavior>>,
    server: JoinHandle<()>,
}

impl Registry {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let host = listener.local_addr().expect("bound").to_string();
        let behavior = Arc::<Mutex<Behavior>>::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&behavior));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self {
            host,
            behavior,
            server,
        }
    }

    /// A registry with the image `team/manager:v9`, by way of an index, whose layers are these, the lowest first.
    async fn with(layers: &[(&str, &[u8])]) -> Self {
        let registry = Self::start().await;
        let descriptors = layers.iter().map(|(kind, content)| {
            registry.put(BLOBS, content);
            described(content, kind)
        });
        let descriptors: Vec<_> = descriptors.collect();
        registry.put_image(&json!({"layers": descriptors}));
        registry
    }

    fn put_image(&self, manifest: &Value) {
        let manifest = manifest.to_string();
        self.put(MANIFESTS, manifest.as_bytes());
        let mut described = described(manifest.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        described["platform"] = json!({"os": "linux", "architecture": architecture()});
        let index = json!({"manifests": [described]}).to_string();
        self.put_at(&format!("{MANIFESTS}/v9"), index.as_bytes());
    }

    /// Puts a content under its digest.
    fn put(&self, folder: &str, content: &[u8]) {
        self.put_at(&format!("{folder}/{}", Digest::of(content)), content);
    }

    fn put_at(&self, path: &str, content: &[u8]) {
        let mut behavior = self.behavior.lock().expect("no panic");
        behavior.contents.insert(path.to_owned(), content.to_owned());
    }

    /// Changes what it does.
    fn set(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut self.behavior.lock().expect("no panic"));
    }

    /// What it was asked for since the last time, in short: digests are the letter `#`.
    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.behavior.lock().expect("no panic").asked);
        let short = |path: String| match path.split_once("sha256:") {
            Some((before, digest)) => format!("{before}#{}", &digest[64..]),
            None => path,
        };
        asked.into_iter().map(short).collect()
    }

    async fn stop(self) {
        self.server.abort();
        assert!(self.server.await.is_err(), "it was aborted");
    }
}

async fn answer(State(behavior): State<Arc<Mutex<Behavior>>>, request: Request) -> Response {
    let mut behavior = behavior.lock().expect("no panic");
    let path = request.uri().path().to_owned();
    let token = request.headers().get(header::AUTHORIZATION);
    let token = token.map(|token| token.to_str().expect("text").to_owned());
    let target = request.uri().path_and_query().expect("a path").to_string();
    behavior.asked.push(match &token {
        Some(token) => format!("{target} {token}"),
        None => target,
    });
    if let Some(realm) = behavior
        .realm
        .as_ref()
        .filter(|_| token.is_none() || behavior.refuses_tokens)
    {
        let challenge =
            format!("Bearer realm=\"{realm}\",service=\"here\",scope=\"repository:team/manager:pull\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    if let Some(other) = behavior.blobs_at.as_ref().filter(|_| path.starts_with(BLOBS)) {
        let location = format!("http://{other}{path}?signature=a%2Fb");
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response();
    }
    let Some(content) = behavior.contents.get(&path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut answer = content.clone().into_response();
    if let Some(digest) = behavior.says.as_ref().filter(|_| path.starts_with(MANIFESTS)) {
        answer
            .headers_mut()
            .insert(DIGEST_HEADER, digest.parse().expect("a value"));
    }
    answer
}

fn architecture() -> &'static str {
    image::architecture(std::env::consts::OS, std::env::consts::ARCH).expect("a machine with Linux")
}

fn described(content: &[u8], kind: &str) -> Value {
    json!({"mediaType": kind, "digest": Digest::of(content).to_string(), "size": content.len()})
}

fn zipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

fn puller(host: &str, cache: &Path) -> Puller {
    let version = Version::parse("v9").expect("a version");
    let registry = super::Registry::parse(host).expect("a registry");
    // These tests run on loopback, to which no proxy leads.
    Puller::new(version, Some(registry), cache.to_owned(), Environment::default())
}

/// Pulls the program of the provider `own`, with a client of its own. An error has its causes.
async fn pull(host: &str, cache: &Path) -> Result<PathBuf, String> {
    let deployment = json!({
        "metadata": {"name": "own", "namespace": "n"},
        "spec": {"template": {"spec": {"containers": [{"image": "registry.example/team/manager:v1"}]}}},
    });
    let components = Components {
        deployments: vec![deployment],
        ..Components::default()
    };
    let programs = puller(host, cache).programs(&components, BTreeMap::new()).await;
    let mut programs = programs.map_err(|error| chain(error.as_ref()))?;
    Ok(programs.remove("own").expect("the provider's program"))
}

/// What an error says of the provider, before its cause.
fn failed(cause: &str) -> Result<PathBuf, String> {
    Err(format!(
        "failed to pull the program of own (--run own=FILE names one that is here): {cause}"
    ))
}

fn program_layer(content: &[u8]) -> Vec<u8> {
    zipped(&archive(&[("manager", content)]))
}

fn has_programs(cache: &Path) -> bool {
    let managers = fs::read_dir(cache.join("managers")).into_iter().flatten();
    managers
        .flatten()
        .any(|folder| folder.path().join("manager").exists())
}

#[tokio::test]
async fn the_program_is_that_of_the_uppermost_layer_with_one() {
    let below = archive(&[("manager", b"old")]);
    let program = zipped(&archive(&[("etc/passwd", b"x"), ("manager", b"program")]));
    // Files outside of the root, or of the archive, are not the program.
    let above = archive(&[("../manager", b"no"), ("bin/manager", b"no")]);
    let registry = Registry::with(&[(TAR, &below), (GZIP, &program), (TAR, &above)]).await;
    let cache = tempfile::tempdir().expect("a folder");
    let path = pull(&registry.host, cache.path()).await.expect("pulled");
    assert_eq!(fs::read(&path).expect("readable"), b"program");
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let tag = format!("{MANIFESTS}/v9");
    let manifest = format!("{MANIFESTS}/#");
    let blob = format!("{BLOBS}/#");
    assert_eq!(
        registry.asked(),
        [&tag, &manifest, &blob, &blob].map(Clone::clone)
    );

    // The second time, the digest says that the program is here.
    assert_eq!(pull(&registry.host, cache.path()).await, Ok(path));
    assert_eq!(registry.asked(), [tag, manifest]);
    let outside = cache.path().parent().expect("a folder").join("manager");
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_token_goes_to_the_registry_that_asked_for_it_and_to_no_other() {
    let layer = program_layer(b"program");
    let registry = Registry::with(&[(GZIP, &layer)]).await;
    let storage = Registry::start().await;
    storage.put(BLOBS, &layer);
    let tokens = Registry::start().await;
    tokens.put_at("/token", br#"{"token": "secret"}"#);
    registry.set(|behavior| {
        behavior.blobs_at = Some(storage.host.clone());
        behavior.realm = Some(format!("http://{}/token", tokens.host));
    });
    let cache = tempfile::tempdir().expect("a folder");
    let path = pull(&registry.host, cache.path()).await.expect("pulled");
    assert_eq!(fs::read(&path).expect("readable"), b"program");
    assert_eq!(
        registry.asked(),
        [
            format!("{MANIFESTS}/v9"),
            format!("{MANIFESTS}/v9 Bearer secret"),
            format!("{MANIFESTS}/# Bearer secret"),
            format!("{BLOBS}/# Bearer secret"),
        ]
    );
    assert_eq!(storage.asked(), [format!("{BLOBS}/#?signature=a%2Fb")]);
    assert_eq!(
        tokens.asked(),
        ["/token?service=here&scope=repository%3Ateam%2Fmanager%3Apull"]
    );
}

#[tokio::test]
async fn a_registry_that_refuses_the_token_or_leads_in_a_circle_is_left() {
    let layer = program_layer(b"program");
    let registry = Registry::with(&[(GZIP, &layer)]).await;
    let cache = tempfile::tempdir().expect("a folder");
    registry.set(|behavior| behavior.blobs_at = Some(registry.host.clone()));
    let circle = format!(
        "failed to get http://{}{BLOBS}/{}: it leads from one place to the next",
        registry.host,
        Digest::of(&layer)
    );
    assert_eq!(pull(&registry.host, cache.path()).await, failed(&circle));
    // The tag, the manifest, the blob and five redirects.
    assert_eq!(registry.asked().len(), 3 + 5);

    let tokens = Registry::start().await;
    tokens.put_at("/token", br#"{"access_token": "secret"}"#);
    registry.set(|behavior| {
        behavior.realm = Some(format!("http://{}/token", tokens.host));
        behavior.refuses_tokens = true;
    });
    let tag = format!("{MANIFESTS}/v9");
    let refused = format!("failed to get http://{}{tag}: 401 Unauthorized", registry.host);
    assert_eq!(pull(&registry.host, cache.path()).await, failed(&refused));
    assert_eq!(registry.asked(), [tag.clone(), format!("{tag} Bearer secret")]);
    assert!(!has_programs(cache.path()));
}

#[tokio::test]
async fn content_with_another_digest_is_refused() {
    let layer = program_layer(b"program");
    let digest = Digest::of(&layer);
    let registry = Registry::with(&[(GZIP, &layer)]).await;
    let cache = tempfile::tempdir().expect("a folder");
    let image = format!("{}/team/manager:v9", registry.host);
    let mut other = layer.clone();
    *other.last_mut().expect("bytes") ^= 1;
    registry.put_at(&format!("{BLOBS}/{digest}"), &other);
    let refused = failed(&format!("failed to get {image}: its digest is not {digest}"));
    assert_eq!(pull(&registry.host, cache.path()).await, refused);

    registry.put(BLOBS, &layer);
    registry.set(|behavior| behavior.says = Some(digest.to_string()));
    assert_eq!(pull(&registry.host, cache.path()).await, refused);

    registry.set(|behavior| behavior.says = None);
    let manifest = json!({"layers": [described(&layer, GZIP)]}).to_string();
    let digest = Digest::of(manifest.as_bytes());
    registry.put_at(&format!("{MANIFESTS}/{digest}"), b"{\"layers\": []}");
    let refused = failed(&format!("failed to get {image}: its digest is not {digest}"));
    assert_eq!(pull(&registry.host, cache.path()).await, refused);
    assert!(!has_programs(cache.path()));
}

#[tokio::test]
async fn a_layer_that_is_too_large_or_larger_than_said_is_refused() {
    let layer = program_layer(b"program");
    let registry = Registry::with(&[(GZIP, &layer)]).await;
    let cache = tempfile::tempdir().expect("a folder");
    let blob = format!("http://{}{BLOBS}/{}", registry.host, Digest::of(&layer));
    for (size, max) in [((1 << 30) + 1, 1 << 30), (layer.len() - 1, layer.len() - 1)] {
        let mut described = described(&layer, GZIP);
        described["size"] = json!(size);
        registry.put_image(&json!({"layers": [described]}));
        let refused = failed(&format!("failed to get {blob}: it has more than {max} bytes"));
        assert_eq!(pull(&registry.host, cache.path()).await, refused);
    }
    registry.put_at(&format!("{MANIFESTS}/v9"), &vec![b' '; (4 << 20) + 1]);
    let refused = format!(
        "failed to get http://{}{MANIFESTS}/v9: it has more than 4194304 bytes",
        registry.host
    );
    assert_eq!(pull(&registry.host, cache.path()).await, failed(&refused));
    assert!(!has_programs(cache.path()));
}

#[tokio::test]
async fn an_image_without_a_program_is_named() {
    let registry = Registry::with(&[(TAR, &archive(&[("other", b"")]))]).await;
    let cache = tempfile::tempdir().expect("a folder");
    let none = format!(
        "failed to find the file /manager in {}/team/manager:v9",
        registry.host
    );
    assert_eq!(pull(&registry.host, cache.path()).await, failed(&none));
    registry.set(|behavior| behavior.contents.clear());
    let none = format!(
        "failed to get http://{}{MANIFESTS}/v9: 404 Not Found",
        registry.host
    );
    assert_eq!(pull(&registry.host, cache.path()).await, failed(&none));
}

#[tokio::test]
async fn without_its_registry_an_image_is_what_it_was_or_the_message_says_what_to_bring() {
    let registry = Registry::with(&[(GZIP, &program_layer(b"program"))]).await;
    let cache = tempfile::tempdir().expect("a folder");
    let path = pull(&registry.host, cache.path()).await.expect("pulled");
    let host = registry.host.clone();
    registry.stop().await;
    assert_eq!(pull(&host, cache.path()).await, Ok(path));

    let empty = tempfile::tempdir().expect("a folder");
    let error = pull(&host, empty.path()).await.expect_err("nothing is there");
    let begin = failed(&format!(
        "failed to reach {host}; without it, bring {FILES_TO_BRING}: "
    ));
    assert!(error.starts_with(&begin.expect_err("an error")), "{error}");
    let error = puller(&host, empty.path())
        .components(&format!("http://{host}/download"))
        .await
        .expect_err("nothing is there");
    assert_eq!(
        error.to_string(),
        format!("failed to reach {host}; without it, bring {FILES_TO_BRING}")
    );
}

#[tokio::test]
async fn components_of_a_version_are_pulled_once() {
    let registry = Registry::start().await;
    let cache = tempfile::tempdir().expect("a folder");
    let releases = format!("http://{}/download/", registry.host);
    let paths = COMPONENTS.map(|file| format!("/download/v9/{file}"));
    registry.put_at(&paths[0], b"kind: Deployment\n");
    registry.put_at(&paths[1], b"<html>a password, please</html>");
    registry.put_at(&paths[2], b"kind: Deployment\n");
    let refused = puller(&registry.host, cache.path()).components(&releases).await;
    let expected = format!(
        "failed to get http://{}{}: it is not a file of components, which has a Deployment",
        registry.host, paths[1]
    );
    assert_eq!(refused.map_err(|error| error.to_string()), Err(expected));
    assert_eq!(registry.asked(), paths[..2]);

    registry.put_at(&paths[1], b"kind: Deployment\n");
    for asked in [&paths[1..], &[]] {
        let files = puller(&registry.host, cache.path()).components(&releases).await;
        let expected = COMPONENTS.map(|file| cache.path().join("components/v9").join(file));
        assert_eq!(files.map_err(|error| error.to_string()), Ok(expected.to_vec()));
        assert_eq!(registry.asked(), asked);
    }
}
