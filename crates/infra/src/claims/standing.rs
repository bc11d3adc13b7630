//! How a claim stands. Pure.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use nephele_api::conditions::{self, reasons, types};
use nephele_api::infrastructure::v1beta2::ClaimedAddress;
use nephele_api::ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressSpec};

/// How a claim stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is to be made.
    Missing,
    /// One of that name is another object's.
    Taken,
    /// Its provider is at it, or cannot do it; in its own words as far as there are any.
    Waiting {
        /// One word.
        reason: String,
        /// For people; may be empty.
        message: String,
    },
    /// The address that its provider names is not there.
    Late(String),
    /// What its provider made is no address; the message says why.
    Invalid(String),
    /// It has its address.
    Bound(ClaimedAddress),
}

impl Standing {
    /// Its provider is at it.
    fn waiting(message: impl Into<String>) -> Self {
        Self::Waiting { reason: reasons::WAITING_FOR_IP_ADDRESS.to_owned(), message: message.into() }
    }

    /// The reason of a condition that does not hold for it; none when the address is there.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Missing | Self::Late(_) => Some(reasons::WAITING_FOR_IP_ADDRESS),
            Self::Taken => Some(reasons::IP_ADDRESS_CLAIM_TAKEN),
            Self::Waiting { reason, .. } => Some(reason),
            Self::Invalid(_) => Some(reasons::INVALID_IP_ADDRESS),
            Self::Bound(_) => None,
        }
    }

    /// What is to be said about it; empty when the reason says it all.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Missing | Self::Bound(_) => "",
            Self::Taken => "it belongs to another object",
            Self::Waiting { message, .. } | Self::Late(message) | Self::Invalid(message) => message,
        }
    }
}

/// How a claim stands that is wanted by an owner.
pub(super) fn standing(
    owner: &ObjectMeta,
    claim: Option<&IPAddressClaim>,
    address: Option<&IPAddress>,
) -> Standing {
    let Some(claim) = claim else { return Standing::Missing };
    if !is_owned(owner, claim) {
        return Standing::Taken;
    }
    if claim.meta().deletion_timestamp.is_some() {
        // It is made anew when it is gone.
        return Standing::waiting("it is being deleted");
    }
    match (claim.address_name(), address) {
        (None, _) => waiting(claim),
        (Some(name), None) => Standing::Late(format!("IPAddress {name} is not there")),
        (Some(_), Some(address)) => match read(&claim.name_any(), address) {
            Ok(address) => Standing::Bound(address),
            Err(message) => Standing::Invalid(format!("IPAddress {} {message}", address.name_any())),
        },
    }
}

/// Whether the claim is the owner's: not one that was made for an earlier object of its name.
pub(super) fn is_owned(owner: &ObjectMeta, claim: &IPAddressClaim) -> bool {
    claim.owner_references().iter().any(|reference| Some(&reference.uid) == owner.uid.as_ref())
}

/// A claim without an address. What its `Ready` condition says is worth saying only while it does not hold.
fn waiting(claim: &IPAddressClaim) -> Standing {
    let list = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = conditions::find(list, types::READY)
        .filter(|ready| ready.status != conditions::TRUE && !ready.reason.is_empty());
    match ready {
        Some(ready) => Standing::Waiting { reason: ready.reason.clone(), message: ready.message.clone() },
        None => Standing::waiting(""),
    }
}

/// Reads what a provider made; the error says what is wrong with it.
fn read(claim: &str, object: &IPAddress) -> Result<ClaimedAddress, String> {
    let IPAddressSpec { claim_ref, pool_ref: _, address, prefix, gateway } = &object.spec;
    if claim_ref.name != claim {
        return Err(format!("is of IPAddressClaim {:?}", claim_ref.name));
    }
    let parsed: IpAddr = address.parse().map_err(|_| format!("has no address but {address:?}"))?;
    let prefix_max = if parsed.is_ipv4() { 32 } else { 128 };
    if let Some(prefix) = prefix.filter(|prefix| !(0..=prefix_max).contains(prefix)) {
        return Err(format!("has a prefix of {prefix} bits"));
    }
    let gateway = match gateway.as_str() {
        "" => String::new(),
        text => text.parse::<IpAddr>().map_err(|_| format!("has no gateway but {text:?}"))?.to_string(),
    };
    Ok(ClaimedAddress { address: parsed.to_string(), prefix: *prefix, gateway })
}
