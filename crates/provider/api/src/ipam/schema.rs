//! Schemas of pools that a derive cannot express.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::v1alpha2::ALLOCATION_PREFIX_LENGTH_DEFAULT;

/// Length of the prefixes that a pool hands out: set once.
pub(crate) fn allocation_prefix_length(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The length of each prefix that is handed out. It cannot be changed.",
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 128,
        "default": ALLOCATION_PREFIX_LENGTH_DEFAULT,
        "x-kubernetes-validations": [
            crate::schema::rule("self == oldSelf", "spec.allocationPrefixLength is immutable"),
        ],
    })
}
