//! The messages, from the `generated.proto` files of `k8s.io/api` and `k8s.io/apimachinery`.

/// A message: its fields.
pub(super) type Message = &'static [Field];

/// One field.
pub(super) struct Field {
    pub(super) number: u64,
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
}

/// What a field holds.
pub(super) enum Kind {
    Text,
    Bytes,
    /// Zero means absent.
    Integer,
    /// An integer that Go keeps behind a pointer: zero is a value.
    Pointer,
    Truth,
    Time {
        micro: bool,
    },
    Message(Message),
    /// A map from text.
    Map(&'static Kind),
}

const fn one(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, repeated: false }
}

const fn many(number: u64, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, repeated: true }
}

const METADATA: Message = &[
    one(1, "name", Kind::Text),
    one(2, "generateName", Kind::Text),
    one(3, "namespace", Kind::Text),
    one(5, "uid", Kind::Text),
    one(6, "resourceVersion", Kind::Text),
    one(7, "generation", Kind::Integer),
    one(8, "creationTimestamp", Kind::Time { micro: false }),
    one(9, "deletionTimestamp", Kind::Time { micro: false }),
    one(10, "deletionGracePeriodSeconds", Kind::Pointer),
    one(11, "labels", Kind::Map(&Kind::Text)),
    one(12, "annotations", Kind::Map(&Kind::Text)),
    many(13, "ownerReferences", Kind::Message(OWNER_REFERENCE)),
    many(14, "finalizers", Kind::Text),
];
const OWNER_REFERENCE: Message = &[
    one(1, "kind", Kind::Text),
    one(3, "name", Kind::Text),
    one(4, "uid", Kind::Text),
    one(5, "apiVersion", Kind::Text),
    one(6, "controller", Kind::Truth),
    one(7, "blockOwnerDeletion", Kind::Truth),
];
const SECRET: Message = &[
    one(1, "metadata", Kind::Message(METADATA)),
    one(2, "data", Kind::Map(&Kind::Bytes)),
    one(3, "type", Kind::Text),
    one(4, "stringData", Kind::Map(&Kind::Text)),
    one(5, "immutable", Kind::Truth),
];
const CONFIG_MAP: Message = &[
    one(1, "metadata", Kind::Message(METADATA)),
    one(2, "data", Kind::Map(&Kind::Text)),
    one(3, "binaryData", Kind::Map(&Kind::Bytes)),
    one(4, "immutable", Kind::Truth),
];
const NAMESPACE: Message = &[one(1, "metadata", Kind::Message(METADATA))];
const SERVICE_ACCOUNT: Message = &[
    one(1, "metadata", Kind::Message(METADATA)),
    many(3, "imagePullSecrets", Kind::Message(&[one(1, "name", Kind::Text)])),
    one(4, "automountServiceAccountToken", Kind::Truth),
];
const POLICY_RULE: Message = &[
    many(1, "verbs", Kind::Text),
    many(2, "apiGroups", Kind::Text),
    many(3, "resources", Kind::Text),
    many(4, "resourceNames", Kind::Text),
    many(5, "nonResourceURLs", Kind::Text),
];
const ROLE: Message =
    &[one(1, "metadata", Kind::Message(METADATA)), many(2, "rules", Kind::Message(POLICY_RULE))];
const ROLE_BINDING: Message = &[
    one(1, "metadata", Kind::Message(METADATA)),
    many(2, "subjects", Kind::Message(SUBJECT)),
    one(3, "roleRef", Kind::Message(ROLE_REF)),
];
const SUBJECT: Message = &[
    one(1, "kind", Kind::Text),
    one(2, "apiGroup", Kind::Text),
    one(3, "name", Kind::Text),
    one(4, "namespace", Kind::Text),
];
const ROLE_REF: Message =
    &[one(1, "apiGroup", Kind::Text), one(2, "kind", Kind::Text), one(3, "name", Kind::Text)];
const DELETE_OPTIONS: Message = &[
    one(1, "gracePeriodSeconds", Kind::Pointer),
    one(
        2,
        "preconditions",
        Kind::Message(&[one(1, "uid", Kind::Text), one(2, "resourceVersion", Kind::Text)]),
    ),
    one(3, "orphanDependents", Kind::Truth),
    one(4, "propagationPolicy", Kind::Text),
    many(5, "dryRun", Kind::Text),
];
const EVICTION: Message =
    &[one(1, "metadata", Kind::Message(METADATA)), one(2, "deleteOptions", Kind::Message(DELETE_OPTIONS))];
const LEASE: Message = &[
    one(1, "metadata", Kind::Message(METADATA)),
    one(
        2,
        "spec",
        Kind::Message(&[
            one(1, "holderIdentity", Kind::Text),
            one(2, "leaseDurationSeconds", Kind::Integer),
            one(3, "acquireTime", Kind::Time { micro: true }),
            one(4, "renewTime", Kind::Time { micro: true }),
            one(5, "leaseTransitions", Kind::Pointer),
        ]),
    ),
];

/// The message of a kind.
pub(super) fn message(kind: &str) -> Option<Message> {
    Some(match kind {
        "ClusterRole" | "Role" => ROLE,
        "ClusterRoleBinding" | "RoleBinding" => ROLE_BINDING,
        "ConfigMap" => CONFIG_MAP,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        "Lease" => LEASE,
        "Namespace" => NAMESPACE,
        "Secret" => SECRET,
        "ServiceAccount" => SERVICE_ACCOUNT,
        _ => return None,
    })
}
