//! `IPAddressClaim`.

use super::{
    former::Former,
    parts::CONDITIONS,
    rule::Rule::{self, In},
};

pub(super) const IP_ADDRESS_CLAIM: &[Rule] = &[In("status", CONDITIONS), Rule::Former("status", FORMER)];

const FORMER: &Former = &Former {
    conditions: &[("Ready", "Ready")],
    ..Former::NONE
};
