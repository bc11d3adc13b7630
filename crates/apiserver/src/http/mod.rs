//! The HTTP surface.

mod discovery;
mod negotiate;
mod query;
mod read;
mod request;
mod selector;
mod server;
mod status;
mod subresource;
mod watch;
mod write;

pub use request::RequestInfo;
pub use server::{ApiServer, Authentication, PortForward, RequestObserver, Settings, UserInfo, Version};
