//! Defaults for clouds that list no instance types.

use nephele_model::{Amount, Gpu, InstanceType};

/// The instance types of a cloud that lists none, and of clusters without a cloud.
#[must_use]
pub(crate) fn built_in_instance_types() -> Vec<InstanceType> {
    let plain = |name: &str, cpu: u32, memory: &str, price: &str, spot_price: &str| InstanceType {
        name: name.to_owned(),
        cpu,
        memory: memory.to_owned(),
        price: Amount::parse(price).ok(),
        spot_price: Amount::parse(spot_price).ok(),
        ..InstanceType::default()
    };
    vec![
        plain("small", 2, "4Gi", "0.05", "0.015"),
        plain("medium", 4, "8Gi", "0.1", "0.03"),
        plain("large", 8, "16Gi", "0.2", "0.06"),
        plain("xlarge", 16, "64Gi", "0.5", "0.15"),
        InstanceType {
            architecture: "arm64".to_owned(),
            ..plain("medium-arm64", 4, "8Gi", "0.08", "0.024")
        },
        InstanceType {
            gpu: Some(Gpu {
                count: 1,
                resource: String::new(),
            }),
            ..plain("large-gpu", 8, "32Gi", "1.5", "0.45")
        },
    ]
}
