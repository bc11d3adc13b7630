//! Which image a provider has, and where it is. Pure.

use std::fmt;

use http::{Uri, uri::Authority};

use super::{digest::Digest, error::PullError, route::is_loopback};

/// The longest tag that registries know.
const TAG_MAX: usize = 128;
/// Where the images are whose name begins with `docker.io`.
const DOCKER_HUB: [&str; 2] = ["docker.io", "registry-1.docker.io"];

/// A version of Cluster API, which is the tag of its images, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Reads a version, such as `v1.14.2`.
    ///
    /// # Errors
    /// When it is no tag of an image.
    pub fn parse(text: &str) -> Result<Self, PullError> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let begins = text.bytes().next().is_some_and(is_word);
        let continues = text.bytes().all(|byte| is_word(byte) || b".-".contains(&byte));
        if begins && continues && text.len() <= TAG_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(PullError::Version(text.to_owned()))
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A registry that has the images of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// With the port, if there is one.
    host: String,
    prefix: Option<String>,
}

impl Registry {
    /// Reads `HOST[:PORT][/PREFIX]`.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn parse(text: &str) -> Result<Self, PullError> {
        let (host, prefix) = match text.split_once('/') {
            Some((host, prefix)) => (host, Some(prefix)),
            None => (text, None),
        };
        if is_host(host) && prefix.is_none_or(is_name) {
            Ok(Self {
                host: host.to_owned(),
                prefix: prefix.map(str::to_owned),
            })
        } else {
            Err(PullError::Registry(text.to_owned()))
        }
    }
}

/// An image in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// With the port, if there is one.
    host: String,
    name: String,
    tag: Version,
}

impl Image {
    /// The image that a Deployment names, at a version and in a registry.
    pub(super) fn of(text: &str, version: &Version, registry: Option<&Registry>) -> Result<Self, PullError> {
        let refused = || PullError::Image(text.to_owned());
        let (host, rest) = text.split_once('/').ok_or_else(refused)?;
        // An image of Docker Hub may lack its registry. Which one a user meant would be a guess.
        let names_host = host.contains(['.', ':']) || host == "localhost";
        let (name, tag) = rest.split_once(':').unwrap_or((rest, ""));
        // A digest is of one version, so it would be either wrong or lost.
        if !names_host || !is_host(host) || !is_name(name) || tag.contains('@') {
            return Err(refused());
        }
        let prefix = registry.and_then(|registry| registry.prefix.as_deref());
        Ok(Self {
            host: registry.map_or(host, |registry| &registry.host).to_owned(),
            name: prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}/{name}")),
            tag: version.clone(),
        })
    }

    /// Where its manifest is: an index, or the manifest of one platform.
    pub(super) fn manifest(&self) -> Uri {
        self.uri("manifests", &self.tag.0)
    }

    /// Where another manifest of the same name is.
    pub(super) fn manifest_of(&self, digest: &Digest) -> Uri {
        self.uri("manifests", &digest.to_string())
    }

    /// Where a layer is.
    pub(super) fn blob(&self, digest: &Digest) -> Uri {
        self.uri("blobs", &digest.to_string())
    }

    fn uri(&self, what: &str, which: &str) -> Uri {
        let host = match self.host == DOCKER_HUB[0] {
            true => DOCKER_HUB[1],
            false => &self.host,
        };
        let authority: Authority = host.parse().expect("checked when it was read");
        let scheme = match is_loopback(authority.host()) {
            true => "http",
            false => "https",
        };
        format!("{scheme}://{authority}/v2/{}/{what}/{which}", self.name)
            .parse()
            .expect("a name, a tag and a digest have no letter that a URL cannot have")
    }
}

impl fmt::Display for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}:{}", self.host, self.name, self.tag)
    }
}

/// The processor of this machine, as images name it.
pub(super) fn architecture(system: &str, processor: &str) -> Result<&'static str, PullError> {
    match (system, processor) {
        ("linux", "x86_64") => Ok("amd64"),
        ("linux", "aarch64") => Ok("arm64"),
        _ => Err(PullError::System(format!("{system}/{processor}"))),
    }
}

/// Whether it is a host with or without a port, and not a path or a user.
fn is_host(text: &str) -> bool {
    let authority: Result<Authority, _> = text.parse();
    authority.is_ok_and(|authority| {
        !authority.host().is_empty() && !text.contains('@') && !authority.host().starts_with('.')
    })
}

/// Whether registries know names of this form. None of its parts leads out of a folder.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.split('/').all(|part| {
        part.bytes().next().is_some_and(is_plain)
            && part.bytes().all(|byte| is_plain(byte) || b"._-".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, registry: &str) -> Result<String, String> {
        let version = Version::parse("v2").expect("a version");
        let registry = Some(registry).filter(|registry| !registry.is_empty());
        let registry = registry.map(|registry| Registry::parse(registry).expect("a registry"));
        let image = Image::of(text, &version, registry.as_ref());
        image
            .map(|image| format!("{image} {}", image.manifest()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_version_replaces_the_tag_and_the_flag_the_registry() {
        let core = "registry.k8s.io/cluster-api/core:v1";
        for (text, registry, expected) in [
            (
                core,
                "",
                "registry.k8s.io/cluster-api/core:v2 https://registry.k8s.io/v2/cluster-api/core/manifests/v2",
            ),
            (
                core,
                "127.0.0.1:5000",
                "127.0.0.1:5000/cluster-api/core:v2 http://127.0.0.1:5000/v2/cluster-api/core/manifests/v2",
            ),
            (
                core,
                "mirror.example/k8s/x",
                "mirror.example/k8s/x/cluster-api/core:v2 https://mirror.example/v2/k8s/x/cluster-api/core/manifests/v2",
            ),
            (
                "docker.io/me/own",
                "",
                "docker.io/me/own:v2 https://registry-1.docker.io/v2/me/own/manifests/v2",
            ),
        ] {
            assert_eq!(of(text, registry), Ok(expected.to_owned()), "{text} {registry}");
        }
    }

    #[test]
    fn what_is_no_image_version_or_registry_is_refused() {
        for text in [
            "",
            "core:v1",
            "me/core:v1",
            "a.example/../b:v1",
            "a.example/b//c",
            "../b:v1",
            "a.example/B",
            "me:secret@a.example/b",
            "a.example/b@sha256:1",
            "a.example/b:v1@sha256:1",
        ] {
            let expected = format!("failed to read {text:?} as an image with its registry and a tag");
            assert_eq!(of(text, ""), Err(expected));
        }
        for text in ["", "../v1", "v1/..", ".v1", "v 1", &"v".repeat(129)] {
            assert!(Version::parse(text).is_err(), "{text}");
        }
        for text in [
            "",
            "/a",
            "https://a.example",
            "a.example/",
            "me@a.example",
            "a.example/../b",
        ] {
            assert!(Registry::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn programs_are_for_linux_and_this_processor() {
        assert_eq!(architecture("linux", "x86_64").ok(), Some("amd64"));
        assert_eq!(architecture("linux", "aarch64").ok(), Some("arm64"));
        assert_eq!(
            architecture("macos", "aarch64").map_err(|error| error.to_string()),
            Err(
                "failed to pull programs for macos/aarch64: images have them for Linux; build them, and name them with \
                 --run"
                    .to_owned()
            )
        );
    }
}
