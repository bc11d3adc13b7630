//! Afflictions: what is wrong with resources that faults have hit.
//!
//! Invariant: the engine carries a [`VisibleEffect`], compares it and hashes its text, and never looks into it. What a
//! visible effect does to stages and backends is in the other fields of an [`ActiveEffect`].

use std::{collections::BTreeSet, time::Duration};

use nephele_model::{Market, ResourceId, ResourceKind, StageName, VisibleEffect};
use serde::{Deserialize, Serialize};

use crate::clock::CloudTime;

/// What is wrong with a resource until it is healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveEffect {
    /// The kind of resource that can have it.
    pub of: ResourceKind,
    /// Only resources with this stage can have it. None for all of the kind.
    #[serde(default)]
    pub among: Option<StageName>,
    /// Only resources that have not reached this stage yet can get it. None for all.
    #[serde(default)]
    pub before: Option<StageName>,
    /// Only resources that have reached this stage can have it. The others are decided about when they reach it. None for
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<StageName>,
    /// What is wrong, for those who show it. The engine never looks into it.
    #[serde(with = "nephele_model::as_text")]
    #[serde(rename = "symptom")]
    pub visible_effect: VisibleEffect,
    /// The stages that are not reached before it is healed.
    pub holds: BTreeSet<StageName>,
    /// Whether an instance with it is out of service at its load balancers.
    pub is_down: bool,
    /// Whether it stays for as long as the resource exists.
    pub is_final: bool,
    /// Only instances that are paid for in this way can have it. None for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<Market>,
    /// What comes after it, unless it is healed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Box<Notice>>,
}

impl ActiveEffect {
    /// Shows a visible effect on resources of a kind, and does nothing else.
    #[must_use]
    pub fn new(of: ResourceKind, visible_effect: VisibleEffect) -> Self {
        Self {
            of,
            among: None,
            before: None,
            after: None,
            visible_effect,
            holds: BTreeSet::new(),
            is_down: false,
            is_final: false,
            market: None,
            notice: None,
        }
    }

    /// Whether a resource has come too far for it: it has passed the stage before which it has to be hit, or it has reached
    /// all stages that the effect holds, which does nothing else.
    pub(crate) fn comes_too_late(
        &self,
        has_passed: impl Fn(&StageName) -> bool,
        has_reached: impl Fn(&StageName) -> bool,
    ) -> bool {
        let only_holds = !self.holds.is_empty() && !self.is_down && !self.is_final;
        self.before.as_ref().is_some_and(has_passed) || (only_holds && self.holds.iter().all(has_reached))
    }
}

/// A warning: after a while, something else is wrong with the resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// How long it lasts, in the time of the cloud.
    pub lasts: Duration,
    pub then: ActiveEffect,
}

/// When a notice to a resource is over, [`NoticeEnd::OVER`] if it is. It is kept in the time of the cloud, so that neither a
/// restart nor a change of the clock lets it begin again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeEnd {
    pub id: ResourceId,
    /// The time of the cloud.
    pub ends: CloudTime,
}

impl NoticeEnd {
    /// The end of a notice that is over.
    pub const OVER: CloudTime = CloudTime::from_micros(0);
}

impl ActiveEffect {
    /// What is wrong now with a resource whose notice is over at `ends`. One that is over does not begin again because the
    /// fault decides again, such as after a restart. What is final comes at its own deadline.
    pub(crate) fn at_notice(self, ends: Option<CloudTime>) -> Self {
        match self.notice {
            Some(notice) if ends == Some(NoticeEnd::OVER) && !notice.then.is_final => notice.then,
            notice => Self { notice, ..self },
        }
    }
}
