//! The template kinds.

use nephele_api::infrastructure::v1beta2::{
    InMemoryMachinePoolTemplate, InMemoryMachinePoolTemplateStatus, InMemoryMachineTemplate,
    InMemoryMachineTemplateStatus,
};
use nephele_cloud::Model;

use super::Template;
use crate::{expected_capacity::CapacityAndNodeInfo, resolved_cloud::model};

impl Template for InMemoryMachineTemplate {
    fn model(&self) -> Model {
        let spec = &self.spec.template.spec;
        model(&spec.instance_type, &spec.image, "")
    }

    fn saying(&self, (capacity, node_info): CapacityAndNodeInfo) -> Self {
        let status = InMemoryMachineTemplateStatus { capacity, node_info };
        let silent = self.status.is_none() && status == InMemoryMachineTemplateStatus::default();
        Self {
            status: (!silent).then_some(status),
            ..self.clone()
        }
    }
}

impl Template for InMemoryMachinePoolTemplate {
    fn model(&self) -> Model {
        let machine = self.spec.template.spec.template.as_ref();
        let (instance_type, image) = machine.map_or(("", ""), |one| (&one.instance_type, &one.image));
        model(instance_type, image, "")
    }

    fn saying(&self, (capacity, node_info): CapacityAndNodeInfo) -> Self {
        let status = InMemoryMachinePoolTemplateStatus { capacity, node_info };
        let silent = self.status.is_none() && status == InMemoryMachinePoolTemplateStatus::default();
        Self {
            status: (!silent).then_some(status),
            ..self.clone()
        }
    }
}
