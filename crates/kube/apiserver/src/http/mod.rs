//! The HTTP surface.

mod apply;
mod apply_body;
mod autoscaling;
mod body;
mod budget;
mod convert;
mod defaults;
mod discovery;
mod field_manager;
mod impersonate;
mod negotiate;
mod openapi;
mod query;
mod read;
mod request;
mod selector;
mod server;
mod status;
mod strict;
mod subresource;
mod view;
mod watch;
mod write;

pub(crate) use body::check_types;
pub use request::{RequestInfo, percent_decode};
pub use server::{ApiServer, Authentication, PortForward, RequestObserver, Settings, UserInfo, Version};
pub(crate) use status::ApiError;
