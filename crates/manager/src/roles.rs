use std::str::FromStr;

/// Which providers the manager is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// The infrastructure provider, with the simulated cloud.
    pub infrastructure: bool,
    /// The IPAM provider.
    pub ipam: bool,
}

/// Why the roles cannot be taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RolesError {
    /// No role has this name.
    #[error("unknown role {0:?}; known: infrastructure, ipam")]
    Unknown(String),
    /// A manager without a role would do nothing.
    #[error("no role is given; known: infrastructure, ipam")]
    Empty,
}

impl FromStr for Roles {
    type Err = RolesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut roles = Self { infrastructure: false, ipam: false };
        for role in text.split(',').map(str::trim).filter(|role| !role.is_empty()) {
            match role {
                "infrastructure" => roles.infrastructure = true,
                "ipam" => roles.ipam = true,
                other => return Err(RolesError::Unknown(other.to_owned())),
            }
        }
        if roles.infrastructure || roles.ipam { Ok(roles) } else { Err(RolesError::Empty) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_has_the_roles_it_is_given_and_at_least_one() {
        let cases = [
            ("infrastructure,ipam", Ok(Roles { infrastructure: true, ipam: true })),
            (" ipam ", Ok(Roles { infrastructure: false, ipam: true })),
            ("infrastructure", Ok(Roles { infrastructure: true, ipam: false })),
            ("ipam,dns", Err(RolesError::Unknown("dns".into()))),
            (",", Err(RolesError::Empty)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Roles>(), expected, "{text}");
        }
    }
}
