//! Annotations of objects that register extensions.

/// The annotation that names a Secret, `<namespace>/<name>`, whose `ca.crt` becomes the CA bundle of an
/// `ExtensionConfig`.
pub const INJECT_CA_ANNOTATION: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
/// The annotation that pauses an object (Cluster API, `api/core`).
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
