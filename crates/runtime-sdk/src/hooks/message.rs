//! What all requests have in common, and all responses.

use std::collections::BTreeMap;

use super::{Message, ResponseStatus};

/// Settings of an extension: those of its registration, and over them those of the call.
pub type Settings = BTreeMap<String, String>;

/// A request. [`request!`](crate::request) makes one.
pub trait Request: Message {
    /// The settings that travel with the call; a request without has none.
    fn settings(&self) -> Option<&Settings>;
    /// The same, to be changed.
    fn settings_mut(&mut self) -> Option<&mut Settings>;
}

/// A response. [`response!`](crate::response) makes one.
pub trait Response: Message {
    /// How it went.
    fn status(&self) -> &ResponseStatus;
    /// Says how it went.
    fn set_status(&mut self, status: ResponseStatus);
    /// What is said about it, or nothing.
    fn message(&self) -> &str;
    /// Says something about it.
    fn set_message(&mut self, message: String);
    /// In how many seconds the caller may ask again: 0 when it may go on, `None` for a hook that nothing waits for.
    fn retry_after_seconds(&self) -> Option<i32>;
    /// Has the caller ask again; without an effect on a hook that nothing waits for.
    fn set_retry_after_seconds(&mut self, seconds: i32);
}

/// Declares a request: its own fields, to which the settings are added.
///
/// On the wire fields are in lower camel case; absent ones and those that are `null` have the value that
/// [`Default`] gives. A field with `#[serde(skip_serializing_if = …)]` is optional in the `OpenAPI` document.
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
            /// Settings of the extension: those of its registration, and over them those of the call.
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

/// Declares a response: its own fields, to which `status` and `message` are added, and with `: retry` after its name
/// `retryAfterSeconds`, by which an extension has the caller wait; `: plain` is without.
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
                /// In how many seconds the caller may ask again; 0 lets it go on.
                pub retry_after_seconds: i32,
            }
            { $($(#[$note])* $field_visibility $field: $type,)* }
        }

        impl $name {
            /// Has the caller ask again in so many seconds. The message is shown to people meanwhile.
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
            /// How it went. One that is made here went well unless it says otherwise; one that is read here and has
            /// no status has an unknown one.
            #[serde(default = "nephele_runtime_sdk::hooks::ResponseStatus::absent")]
            pub status: $crate::hooks::ResponseStatus,
            /// What is said about it to people; the reason when it failed.
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
