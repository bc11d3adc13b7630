//! What a hook is: its identity, its messages, and a description.

use std::{borrow::Cow, fmt};

use super::message::{Request, Response};

/// The group of Cluster API's hooks.
pub const GROUP: &str = "hooks.runtime.cluster.x-k8s.io";
/// The only version so far of Cluster API's hooks.
pub const VERSION: &str = "v1alpha1";

/// A hook: its identity and its messages.
pub trait Hook: Send + Sync + 'static {
    /// The caller's message.
    type Request: Request;
    /// The extension's answer.
    type Response: Response;
    /// The group, a domain name.
    const GROUP: &'static str;
    /// The version of the group, such as `v1alpha1`.
    const VERSION: &'static str;
    /// The name, in upper camel case.
    const NAME: &'static str;
    /// A description of the hook.
    const META: HookMeta;
    /// Whether an extension has only one handler for the hook, whose path has no handler name, as for discovery.
    const SINGLETON: bool = false;

    /// The identity of the hook.
    #[must_use]
    fn id() -> HookId {
        HookId {
            group: Self::GROUP.into(),
            version: Self::VERSION.into(),
            hook: Self::NAME.into(),
        }
    }
}

/// A description of a hook, for the `OpenAPI` document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookMeta {
    /// A summary in one line.
    pub summary: &'static str,
    pub description: &'static str,
    /// The groups of operations that the hook belongs to.
    pub tags: &'static [&'static str],
    pub deprecated: bool,
}

impl HookMeta {
    /// A hook with a summary.
    #[must_use]
    pub const fn new(summary: &'static str) -> Self {
        Self {
            summary,
            description: "",
            tags: &[],
            deprecated: false,
        }
    }

    /// Adds a description.
    #[must_use]
    pub const fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// Adds tags.
    #[must_use]
    pub const fn tags(self, tags: &'static [&'static str]) -> Self {
        Self { tags, ..self }
    }

    /// Marks it as deprecated.
    #[must_use]
    pub const fn deprecated(self) -> Self {
        Self {
            deprecated: true,
            ..self
        }
    }
}

/// The identity of a hook: group, version and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookId {
    pub group: Cow<'static, str>,
    /// The version of the group.
    pub version: Cow<'static, str>,
    pub hook: Cow<'static, str>,
}

impl HookId {
    /// A hook by its group, version and name.
    #[must_use]
    pub fn new(group: impl Into<String>, version: impl Into<String>, hook: impl Into<String>) -> Self {
        Self {
            group: group.into().into(),
            version: version.into().into(),
            hook: hook.into().into(),
        }
    }

    /// Group and version, as in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The hook without its version, as Cluster API writes it in messages: `<hook>.<group>`.
    #[must_use]
    pub fn group_hook(&self) -> String {
        format!("{}.{}", self.hook, self.group)
    }

    /// Whether both are the same hook, in any version.
    #[must_use]
    pub fn same_hook(&self, other: &Self) -> bool {
        self.group == other.group && self.hook == other.hook
    }

    /// The path of one of its handlers, or of the hook itself when it is a singleton (Cluster API,
    /// `api/runtime/catalog`). Hook and handler are in lower case.
    #[must_use]
    pub fn path(&self, handler: Option<&str>) -> String {
        let mut path = format!(
            "/{}/{}/{}",
            self.group,
            self.version,
            self.hook.to_ascii_lowercase()
        );
        if let Some(handler) = handler {
            path.push('/');
            path.push_str(&handler.to_ascii_lowercase());
        }
        path
    }
}

impl fmt::Display for HookId {
    /// As Cluster API writes it: `<group>/<version>, Hook=<hook>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Hook={}", self.group, self.version, self.hook)
    }
}

/// Implements [`Hook`] for the hooks of Cluster API.
macro_rules! hook {
    ($(#[$attribute:meta])* $name:ident: $request:ty => $response:ty, $meta:expr $(, $singleton:literal)?) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl $crate::hooks::Hook for $name {
            type Request = $request;
            type Response = $response;
            const GROUP: &'static str = $crate::hooks::GROUP;
            const VERSION: &'static str = $crate::hooks::VERSION;
            const NAME: &'static str = stringify!($name);
            const META: $crate::hooks::HookMeta = $meta;
            $(const SINGLETON: bool = $singleton;)?
        }
    };
}
pub(crate) use hook;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Discovery;

    #[test]
    fn hooks_and_handlers_are_in_lower_case_in_paths_and_groups_are_not() {
        let id = HookId::new("Hooks.example.com", "v1", "BeforeMachineCreate");
        assert_eq!(
            id.path(Some("My-Handler")),
            "/Hooks.example.com/v1/beforemachinecreate/my-handler"
        );
        assert_eq!(
            Discovery::id().path(None),
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"
        );
        assert_eq!(id.to_string(), "Hooks.example.com/v1, Hook=BeforeMachineCreate");
        assert_eq!(id.group_hook(), "BeforeMachineCreate.Hooks.example.com");
    }
}
