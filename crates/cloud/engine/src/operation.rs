//! Operations on the cloud, their answers, and events.

use nephele_model::{FaultRecord, ResourceId, ResourceKind, SimTime, StageName};
use serde::{Deserialize, Serialize};

use crate::{
    active_effect::NoticeEnd,
    adoption::Previous,
    billing::Cost,
    caller_mistakes::MistakesByCaller,
    clock::ClockRecord,
    cloud_spec::{CloudSpec, Model},
    fault::Fault,
    leak::Leaked,
    resource::UpdateSpec,
    spec::ResourceSpec,
    usage::Footprint,
};

/// A call of the cloud's API. Every request to the cloud is an operation, including reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub caller: String,
    pub request: Request,
    /// The time of the call.
    pub at: SimTime,
}

impl Operation {
    /// The caller that deletes what has no owner any more. It does not repeat a refused call, so neither faults nor rates
    /// keep it from being carried out.
    pub const SWEEPER: &str = "sweep";

    /// The name of the request in the audit log of a cloud, such as `CreateInstance` or `DescribeLoadBalancer`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        use ResourceKind::{Cloud, Fault, Instance, LoadBalancer};
        match (&self.request, self.request.target().kind) {
            (Request::Create(_), Instance) => "CreateInstance",
            (Request::Create(_), LoadBalancer) => "CreateLoadBalancer",
            (Request::Adopt { .. }, Instance) => "AdoptInstance",
            (Request::Adopt { .. }, LoadBalancer) => "AdoptLoadBalancer",
            (Request::Reserve { .. }, Instance) => "ReserveInstance",
            (Request::Reserve { .. }, LoadBalancer) => "ReserveLoadBalancer",
            (Request::Describe(_), Instance) => "DescribeInstance",
            (Request::Describe(_), LoadBalancer) => "DescribeLoadBalancer",
            (Request::Retry(..), Instance) => "RetryInstance",
            (Request::Retry(..), LoadBalancer) => "RetryLoadBalancer",
            (Request::Update(..), Instance) => "UpdateInstance",
            (Request::Update(..), LoadBalancer) => "UpdateLoadBalancer",
            (Request::Delete(_), Instance) => "DeleteInstance",
            (Request::Delete(_), LoadBalancer) => "DeleteLoadBalancer",
            (Request::PutCloud { .. }, _) => "PutCatalog",
            (Request::PutFault { .. }, _) => "PutFault",
            (Request::DescribeModel { .. }, _) => "DescribeModel",
            (Request::DeleteLeaked(_), _) => "DeleteLeakedInstances",
            (Request::RegisterBackend { .. }, _) => "RegisterBackend",
            (Request::DeregisterBackend { .. }, _) => "DeregisterBackend",
            (Request::Describe(_), Cloud) => "DescribeCatalog",
            (Request::Delete(_), Cloud) => "DeleteCatalog",
            (Request::Delete(_), Fault) => "DeleteFault",
            // No caller sends these, and they are refused.
            (Request::Create(_), Cloud) => "CreateCatalog",
            (Request::Create(_), Fault) => "CreateFault",
            (Request::Describe(_), Fault) => "DescribeFault",
            (Request::Adopt { .. }, Cloud) => "AdoptCatalog",
            (Request::Adopt { .. }, Fault) => "AdoptFault",
            (Request::Reserve { .. }, Cloud) => "ReserveCatalog",
            (Request::Reserve { .. }, Fault) => "ReserveFault",
            (Request::Retry(..), Cloud) => "RetryCatalog",
            (Request::Retry(..), Fault) => "RetryFault",
            (Request::Update(..), Cloud) => "UpdateCatalog",
            (Request::Update(..), Fault) => "UpdateFault",
        }
    }
}

/// A request. Every request may be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Create a resource, if limits allow it.
    Create(ResourceSpec),
    /// Adopt a resource that an earlier process had, with the stages it had reached. It exists already, so no limit
    /// refuses it. A stage that was under way is due when it would have been: it is entered when its last predecessor
    /// was reached, and it draws the same values again. A stage that had failed fails again. The number of retries is
    /// not carried over. It is no call: no rate counts it, and no fault is asked.
    Adopt {
        /// The specification of the resource.
        spec: ResourceSpec,
        /// What the earlier process knew about it.
        #[serde(rename = "former")]
        previous: Box<Previous>,
    },
    /// Set a cloud. Instances created from now on use it; existing instances keep their hardware.
    #[serde(rename = "PutCatalog")]
    PutCloud {
        /// The name of the cloud.
        id: ResourceId,
        #[serde(rename = "catalog")]
        cloud_spec: Box<CloudSpec>,
        /// What an earlier process did about its clock, for a cloud that does not exist yet.
        #[serde(default)]
        clock: Option<ClockRecord>,
        /// What had leaked from it in an earlier process, for a cloud that does not exist yet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leaked: Vec<Leaked>,
        /// What its instances had cost in an earlier process, for a cloud that does not exist yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Box<Cost>>,
        /// What was found about its callers in an earlier process, for a cloud that does not exist yet.
        #[serde(default, skip_serializing_if = "MistakesByCaller::is_empty")]
        #[serde(rename = "findings")]
        caller_mistakes: MistakesByCaller,
    },
    /// Set a fault of a namespace. A changed fault keeps what it has done.
    PutFault {
        /// The name of the fault.
        id: ResourceId,
        fault: Box<Fault>,
        /// What the fault did in an earlier process, for a fault that does not exist yet. It began now at the latest.
        record: FaultRecord,
        /// The resources that the fault affected in an earlier process.
        #[serde(default)]
        #[serde(rename = "afflicted")]
        affected_ids: Vec<ResourceId>,
        /// Whether it affected more than these.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut: bool,
        /// When its notices are over.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<NoticeEnd>,
        /// The resources that passed because its budget skips the first ones, at most [`nephele_model::SKIPPED_MAX`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<ResourceId>,
        /// What the fault made leak in an earlier process, for a fault that does not exist yet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leaked: Vec<Leaked>,
        /// Whether it decides nothing new. It keeps its effect on what it has hit, and ends when its time is over.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
    },
    /// Ask for the hardware of an instance that would be made from a model. If accepted, [`crate::Engine::hardware`]
    /// has the answer.
    DescribeModel {
        #[serde(rename = "catalog")]
        cloud_spec: ResourceId,
        model: Model,
    },
    /// Reserve room for a resource that an earlier process had and that is not adopted yet. No limit refuses the
    /// reservation, and it counts towards all limits until the resource is created, adopted or deleted. Otherwise a new
    /// resource could take its place.
    Reserve {
        id: ResourceId,
        #[serde(flatten)]
        footprint: Footprint,
    },
    /// Ask for the state of a resource. If accepted, [`crate::Engine::get`] has the answer and, for a load balancer,
    /// also [`crate::Engine::in_service`].
    Describe(ResourceId),
    /// Enter a failed stage again, with new draws.
    Retry(ResourceId, StageName),
    /// Update a resource in place. An update under way is replaced by one with another name. The caller knows what the
    /// update changes; the cloud only says when it ends.
    Update(ResourceId, UpdateSpec),
    /// Register an instance as a backend of a load balancer in its cluster. It is in service from when it reaches a stage
    /// until its deletion begins. When it is gone, it is no longer registered.
    RegisterBackend {
        load_balancer: ResourceId,
        /// The name of the instance.
        instance: String,
        /// The stage from which on it is in service.
        in_service_from: StageName,
    },
    /// Deregister an instance from a load balancer. One that is not registered counts as deregistered.
    DeregisterBackend {
        load_balancer: ResourceId,
        /// The name of the instance.
        instance: String,
    },
    /// Delete a resource, a reservation or a place in a line for room. A resource that does not exist counts as
    /// deleted.
    Delete(ResourceId),
    /// Delete the leaked instances and load balancers of a cloud.
    DeleteLeaked(ResourceId),
}

impl Request {
    /// The target of the request.
    #[must_use]
    pub fn target(&self) -> &ResourceId {
        match self {
            Self::Create(spec) | Self::Adopt { spec, .. } => &spec.id,
            Self::Reserve { id, .. }
            | Self::PutCloud { id, .. }
            | Self::PutFault { id, .. }
            | Self::DescribeModel { cloud_spec: id, .. }
            | Self::RegisterBackend {
                load_balancer: id, ..
            }
            | Self::DeregisterBackend {
                load_balancer: id, ..
            }
            | Self::Describe(id)
            | Self::Retry(id, _)
            | Self::Update(id, _)
            | Self::Delete(id)
            | Self::DeleteLeaked(id) => id,
        }
    }

    /// Whether the request changes nothing.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Describe(_) | Self::DescribeModel { .. })
    }
}
