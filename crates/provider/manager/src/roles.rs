use std::str::FromStr;

/// The roles of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// The infrastructure provider, with the simulated cloud.
    pub infrastructure: bool,
    pub ipam: bool,
    pub runtime_extension: bool,
}

/// Why the roles are invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RolesError {
    /// No role has this name.
    #[error("unknown role {0:?}; known: infrastructure, ipam, runtime-extension")]
    Unknown(String),
    /// A manager without a role would do nothing.
    #[error("no role is given; known: infrastructure, ipam, runtime-extension")]
    Empty,
}

impl Roles {
    /// Whether a role has kinds that need webhooks.
    #[must_use]
    pub fn serve_webhooks(self) -> bool {
        self.infrastructure || self.ipam
    }
}

impl FromStr for Roles {
    type Err = RolesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut roles = Self {
            infrastructure: false,
            ipam: false,
            runtime_extension: false,
        };
        for role in text.split(',').map(str::trim).filter(|role| !role.is_empty()) {
            match role {
                "infrastructure" => roles.infrastructure = true,
                "ipam" => roles.ipam = true,
                "runtime-extension" => roles.runtime_extension = true,
                other => return Err(RolesError::Unknown(other.to_owned())),
            }
        }
        if roles.serve_webhooks() || roles.runtime_extension {
            Ok(roles)
        } else {
            Err(RolesError::Empty)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_has_the_roles_it_is_given_and_at_least_one() {
        let none = Roles {
            infrastructure: false,
            ipam: false,
            runtime_extension: false,
        };
        let cases = [
            (
                "infrastructure,ipam",
                Ok(Roles {
                    infrastructure: true,
                    ipam: true,
                    ..none
                }),
            ),
            (" ipam ", Ok(Roles { ipam: true, ..none })),
            (
                "infrastructure",
                Ok(Roles {
                    infrastructure: true,
                    ..none
                }),
            ),
            (
                "runtime-extension",
                Ok(Roles {
                    runtime_extension: true,
                    ..none
                }),
            ),
            (
                "ipam,runtime-extension",
                Ok(Roles {
                    ipam: true,
                    runtime_extension: true,
                    ..none
                }),
            ),
            ("ipam,dns", Err(RolesError::Unknown("dns".into()))),
            (",", Err(RolesError::Empty)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Roles>(), expected, "{text}");
        }
    }
}
