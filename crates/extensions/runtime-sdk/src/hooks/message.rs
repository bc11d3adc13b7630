//! The common parts of all requests and responses.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::response::ResponseStatus;

/// Settings of an extension, from its registration and from the call. Those of the call take precedence.
pub type Settings = BTreeMap<String, String>;

/// A request or a response.
pub trait Message:
    Clone + fmt::Debug + Default + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

impl<T> Message for T where
    T: Clone + fmt::Debug + Default + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

/// A request. [`request!`](crate::request) declares one.
pub trait Request: Message {
    /// The settings in the request, if it has any.
    fn settings(&self) -> Option<&Settings>;
    /// The settings, mutable.
    fn settings_mut(&mut self) -> Option<&mut Settings>;
}

/// A response. [`response!`](crate::response) declares one.
pub trait Response: Message {
    /// Its status.
    fn status(&self) -> &ResponseStatus;
    /// Sets the status.
    fn set_status(&mut self, status: ResponseStatus);
    /// Its message; may be empty.
    fn message(&self) -> &str;
    /// Sets the message.
    fn set_message(&mut self, message: String);
    /// The number of seconds after which the caller may call again: 0 when the caller may continue, `None` for a hook that
    /// cannot block.
    fn retry_after_seconds(&self) -> Option<i32>;
    /// Makes the caller call again after this time. No effect for a hook that cannot block.
    fn set_retry_after_seconds(&mut self, seconds: i32);
}

/// Declares a request: its own fields, plus the settings.
///
/// On the wire, field names are in lower camel case. Absent and `null` fields get their [`Default`]. A field with
/// `#[serde(skip_serializing_if = …)]` is optional in the `OpenAPI` document.
#[macro_export]
macro_rules! request {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$note:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        #[derive(
            Clone, Debug, Default, PartialEq,
            $crate::export::serde::Serialize, $crate::export::serde::Deserialize, $crate::export::schemars::JsonSchema,
        )]
        $(#[$attribute])*
        #[serde(crate = "nephele_runtime_sdk::export::serde", rename_all = "camelCase", default)]
        #[schemars(crate = "nephele_runtime_sdk::export::schemars")]
        $visibility struct $name {
            /// Settings of the extension, from its registration and from the call. Those of the call take precedence.
            #[serde(skip_serializing_if = "::std::collections::BTreeMap::is_empty")]
            pub settings: $crate::hooks::Settings,
            $($(#[$note])* $field_visibility $field: $type,)*
        }

        impl $crate::hooks::Request for $name {
            fn settings(&self) -> ::std::option::Option<&$crate::hooks::Settings> {
                ::std::option::Option::Some(&self.settings)
            }

            fn settings_mut(&mut self) -> ::std::option::Option<&mut $crate::hooks::Settings> {
                ::std::option::Option::Some(&mut self.settings)
            }
        }
    };
}

/// Declares a response: its own fields, plus `status` and `message`. With `: retry` after its name it also has
/// `retryAfterSeconds`, with which an extension makes the caller wait. With `: plain` it does not.
#[macro_export]
macro_rules! response {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident: plain {
            $($(#[$note:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $crate::response! {
            @declare $(#[$attribute])* $visibility $name {} { $($(#[$note])* $field_visibility $field: $type,)* }
        }

        impl $crate::hooks::Response for $name {
            $crate::response! { @common }

            fn retry_after_seconds(&self) -> ::std::option::Option<i32> {
                ::std::option::Option::None
            }

            fn set_retry_after_seconds(&mut self, _: i32) {}
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident: retry {
            $($(#[$note:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $crate::response! {
            @declare $(#[$attribute])* $visibility $name
            {
                /// The number of seconds after which the caller has to call again; 0 lets the caller continue.
                pub retry_after_seconds: i32,
            }
            { $($(#[$note])* $field_visibility $field: $type,)* }
        }

        impl $name {
            /// Makes the caller call again after this many seconds. Meanwhile the caller shows the message to people.
            #[allow(dead_code, reason = "not every response has its caller wait")]
            #[must_use]
            $visibility fn retry_after(
                seconds: u16,
                message: impl ::std::convert::Into<::std::string::String>,
            ) -> Self {
                Self {
                    retry_after_seconds: ::std::convert::Into::into(seconds),
                    message: ::std::convert::Into::into(message),
                    ..Self::default()
                }
            }
        }

        impl $crate::hooks::Response for $name {
            $crate::response! { @common }

            fn retry_after_seconds(&self) -> ::std::option::Option<i32> {
                ::std::option::Option::Some(self.retry_after_seconds)
            }

            fn set_retry_after_seconds(&mut self, seconds: i32) {
                self.retry_after_seconds = seconds;
            }
        }
    };
    (@declare $(#[$attribute:meta])* $visibility:vis $name:ident { $($retry:tt)* } { $($fields:tt)* }) => {
        #[derive(
            Clone, Debug, Default, PartialEq,
            $crate::export::serde::Serialize, $crate::export::serde::Deserialize, $crate::export::schemars::JsonSchema,
        )]
        $(#[$attribute])*
        #[serde(crate = "nephele_runtime_sdk::export::serde", rename_all = "camelCase", default)]
        #[schemars(crate = "nephele_runtime_sdk::export::schemars")]
        $visibility struct $name {
            /// The result of the call. The default is `Success`. A received response without a status has an unknown
            /// status.
            #[serde(default = "nephele_runtime_sdk::hooks::ResponseStatus::absent")]
            pub status: $crate::hooks::ResponseStatus,
            /// A message for people: the reason, if the call failed.
            #[serde(skip_serializing_if = "::std::string::String::is_empty")]
            pub message: ::std::string::String,
            $($retry)*
            $($fields)*
        }
    };
    (@common) => {
        fn status(&self) -> &$crate::hooks::ResponseStatus {
            &self.status
        }

        fn set_status(&mut self, status: $crate::hooks::ResponseStatus) {
            self.status = status;
        }

        fn message(&self) -> &str {
            &self.message
        }

        fn set_message(&mut self, message: ::std::string::String) {
            self.message = message;
        }
    };
}
