//! The state of a claim. Pure.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use nephele_api::{
    conditions::{self, reasons, types},
    infrastructure::v1beta2::ClaimedAddress,
    ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressSpec},
};

/// The state of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    /// The claim does not exist yet.
    Missing,
    /// A claim of that name belongs to another object.
    Taken,
    /// The IPAM provider works on the claim, or cannot fulfil it; with the provider's own reason and message if it
    /// gives any.
    Waiting {
        reason: String,
        /// For people; may be empty.
        message: String,
    },
    /// The IPAddress that the IPAM provider names does not exist; the message names it.
    Late(String),
    /// The IPAddress of the IPAM provider is not valid; the message says why.
    Invalid(String),
    /// The claim has its address.
    Bound(ClaimedAddress),
}

impl ClaimState {
    /// The IPAM provider works on the claim.
    fn waiting(message: impl Into<String>) -> Self {
        Self::Waiting {
            reason: reasons::WAITING_FOR_IP_ADDRESS.to_owned(),
            message: message.into(),
        }
    }

    /// The reason of the condition that waits for the claim; none when the claim has its address.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Missing | Self::Late(_) => Some(reasons::WAITING_FOR_IP_ADDRESS),
            Self::Taken => Some(reasons::IP_ADDRESS_CLAIM_TAKEN),
            Self::Waiting { reason, .. } => Some(reason),
            Self::Invalid(_) => Some(reasons::INVALID_IP_ADDRESS),
            Self::Bound(_) => None,
        }
    }

    /// The message for users; empty when the reason is enough.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Missing | Self::Bound(_) => "",
            Self::Taken => "it belongs to another object",
            Self::Waiting { message, .. } | Self::Late(message) | Self::Invalid(message) => message,
        }
    }
}

/// The state of a claim that `owner` wants.
pub(super) fn state(
    owner: &ObjectMeta,
    claim: Option<&IPAddressClaim>,
    address: Option<&IPAddress>,
) -> ClaimState {
    let Some(claim) = claim else {
        return ClaimState::Missing;
    };
    if !is_owned(owner, claim) {
        return ClaimState::Taken;
    }
    if claim.meta().deletion_timestamp.is_some() {
        // It is created again when it is gone.
        return ClaimState::waiting("it is being deleted");
    }
    match (claim.address_name(), address) {
        (None, _) => waiting(claim),
        (Some(name), None) => ClaimState::Late(format!("IPAddress {name} does not exist")),
        (Some(_), Some(address)) => match read(&claim.name_any(), address) {
            Ok(address) => ClaimState::Bound(address),
            Err(message) => ClaimState::Invalid(format!("IPAddress {} {message}", address.name_any())),
        },
    }
}

/// Whether the claim belongs to the owner, and not to an earlier object of the same name.
pub(super) fn is_owned(owner: &ObjectMeta, claim: &IPAddressClaim) -> bool {
    claim
        .owner_references()
        .iter()
        .any(|reference| Some(&reference.uid) == owner.uid.as_ref())
}

/// The state of a claim without an address. Its `Ready` condition is used only while it is not true.
fn waiting(claim: &IPAddressClaim) -> ClaimState {
    let list = claim
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let ready = conditions::find(list, types::READY)
        .filter(|ready| ready.status != conditions::TRUE && !ready.reason.is_empty());
    match ready {
        Some(ready) => ClaimState::Waiting {
            reason: ready.reason.clone(),
            message: ready.message.clone(),
        },
        None => ClaimState::waiting(""),
    }
}

/// Reads the IPAddress of an IPAM provider; the error says what is wrong with it.
fn read(claim: &str, object: &IPAddress) -> Result<ClaimedAddress, String> {
    let IPAddressSpec {
        claim_ref,
        pool_ref: _,
        address,
        prefix,
        gateway,
    } = &object.spec;
    if claim_ref.name != claim {
        return Err(format!("belongs to IPAddressClaim {:?}", claim_ref.name));
    }
    let parsed: IpAddr = address
        .parse()
        .map_err(|_| format!("has the invalid address {address:?}"))?;
    let prefix_max = if parsed.is_ipv4() { 32 } else { 128 };
    if let Some(prefix) = prefix.filter(|prefix| !(0..=prefix_max).contains(prefix)) {
        return Err(format!("has a prefix of {prefix} bits"));
    }
    let gateway = match gateway.as_str() {
        "" => String::new(),
        text => text
            .parse::<IpAddr>()
            .map_err(|_| format!("has the invalid gateway {text:?}"))?
            .to_string(),
    };
    Ok(ClaimedAddress {
        address: parsed.to_string(),
        prefix: *prefix,
        gateway,
    })
}
