//! Defaults for clouds that list no instance types.

use super::{Gpu, InstanceType};

/// The instance types of a cloud that lists none, and of clusters without a cloud.
#[must_use]
pub(crate) fn built_in_instance_types() -> Vec<InstanceType> {
    let plain = |name: &str, cpu: i32, memory: &str| InstanceType {
        name: name.to_owned(),
        cpu,
        memory: memory.to_owned(),
        ..InstanceType::default()
    };
    vec![
        plain("small", 2, "4Gi"),
        plain("medium", 4, "8Gi"),
        plain("large", 8, "16Gi"),
        plain("xlarge", 16, "64Gi"),
        InstanceType { architecture: "arm64".to_owned(), ..plain("medium-arm64", 4, "8Gi") },
        InstanceType {
            gpu: Some(Gpu { count: 1, resource: String::new() }),
            ..plain("large-gpu", 8, "32Gi")
        },
    ]
}
