//! Conversion between the versions of a custom kind.

use serde_json::Value;

/// Converts an object, or a part of one that says its kind and version, to the version of an `apiVersion`. It stands for
/// a conversion webhook, but runs in this process, and while the store is locked: it must be quick. Where it fails, the
/// text says why.
#[derive(Clone, Copy, Debug)]
pub struct Conversion(pub fn(&Value, &str) -> Result<Value, String>);

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Conversion {
    /// An object in the version of an `apiVersion`.
    ///
    /// # Errors
    /// When it cannot be converted.
    pub(crate) fn to(self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object["apiVersion"] == api_version {
            Ok(object.clone())
        } else {
            self.0(object, api_version)
        }
    }
}
