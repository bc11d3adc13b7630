//! What instances can be made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::operation::CloudError;

/// What there is to make instances from. Of an account there may be several; an instance is made from one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// Instance types, in the order in which an error names them. With none listed any type is accepted.
    pub instance_types: Vec<InstanceType>,
    /// Images, in that order too. With none listed any image is accepted.
    pub images: Vec<Image>,
}

/// How large an instance is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceType {
    /// Its name, unique among the types.
    pub name: String,
    /// Processor architecture, such as `amd64`.
    pub architecture: String,
    /// Quantities by resource name.
    pub capacity: BTreeMap<String, String>,
}

/// What instances boot from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its name, unique among the images.
    pub name: String,
    /// Operating system, such as `linux`.
    pub operating_system: String,
    /// The minor versions that it has, such as `1.36`.
    pub versions: Vec<String>,
}

/// What an instance is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The instance type; none for none in particular.
    pub instance_type: Option<String>,
    /// The image; none for none in particular.
    pub image: Option<String>,
    /// The version that the image has to have, such as `v1.36.3`; none for any.
    pub version: Option<String>,
}

/// What an instance consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Processor architecture, such as `amd64`.
    pub architecture: String,
    /// Operating system, such as `linux`.
    pub operating_system: String,
    /// Quantities by resource name.
    pub capacity: BTreeMap<String, String>,
}

impl Default for Hardware {
    /// What an instance has of which nothing else is said: what kubeadm asks of a machine, and a little more memory.
    fn default() -> Self {
        let capacity = [("cpu", "2"), ("memory", "4Gi"), ("ephemeral-storage", "40Gi"), ("pods", "110")];
        Self {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            capacity: capacity.map(|(name, quantity)| (name.to_owned(), quantity.to_owned())).into(),
        }
    }
}

impl Catalog {
    /// What an instance consists of that is made from a model.
    pub(crate) fn hardware(&self, model: &Model) -> Result<Hardware, CloudError> {
        let Self { instance_types, images } = self;
        let mut hardware = Hardware::default();
        if let Some(wanted) = model.instance_type.as_ref().filter(|_| !instance_types.is_empty()) {
            let Some(found) = instance_types.iter().find(|known| known.name == *wanted) else {
                let known = instance_types.iter().map(|known| known.name.clone()).collect();
                return Err(CloudError::UnknownInstanceType { wanted: wanted.clone(), known });
            };
            hardware.capacity.clone_from(&found.capacity);
            hardware.architecture.clone_from(&found.architecture);
        }
        if let Some(wanted) = model.image.as_ref().filter(|_| !images.is_empty()) {
            let Some(found) = images.iter().find(|known| known.name == *wanted) else {
                let known = images.iter().map(|known| known.name.clone()).collect();
                return Err(CloudError::UnknownImage { wanted: wanted.clone(), known });
            };
            if let Some(version) = model.version.as_ref().filter(|version| !found.has(version)) {
                let (wanted, image) = (version.clone(), wanted.clone());
                return Err(CloudError::UnsupportedVersion { wanted, image, known: found.versions.clone() });
            }
            hardware.operating_system.clone_from(&found.operating_system);
        }
        Ok(hardware)
    }
}

impl Image {
    /// Whether it has the minor version of a version such as `v1.36.3`.
    fn has(&self, version: &str) -> bool {
        let mut parts = version.trim_start_matches('v').split('.');
        let minor = format!("{}.{}", parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.versions.contains(&minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_patch_releases_of_its_minor_versions() {
        let versions = vec!["1.35".into(), "1.3".into()];
        let image = Image { name: String::new(), operating_system: String::new(), versions };
        let known =
            ["v1.35.4", "1.35.0", "v1.3.9", "v1.36.3", "v1.30.1", "", "v1"].map(|version| image.has(version));
        assert_eq!(known, [true, true, true, false, false, false, false]);
    }
}
