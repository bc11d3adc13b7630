//! `nephele components`: all objects of a provider, in the one file that clusterctl installs.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nephele_components::{IMAGE, Role, render};

use crate::output::print;

/// What to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct ComponentsArgs {
    /// The role of the manager.
    #[arg(long, default_value = "infrastructure")]
    role: RoleArg,
    /// The manager's image, with registry and tag: clusterctl accepts no shorter form.
    #[arg(long, default_value = IMAGE)]
    image: String,
}

/// A role, as on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleArg {
    /// The infrastructure provider: infrastructure-components.yaml.
    Infrastructure,
    /// The IPAM provider, in place of the in-cluster one: ipam-components.yaml.
    Ipam,
    /// The runtime extension: runtime-extension-components.yaml.
    RuntimeExtension,
}

impl From<RoleArg> for Role {
    fn from(arg: RoleArg) -> Self {
        match arg {
            RoleArg::Infrastructure => Self::Infrastructure,
            RoleArg::Ipam => Self::Ipam,
            RoleArg::RuntimeExtension => Self::RuntimeExtension,
        }
    }
}

/// Prints the components.
pub(crate) fn run(args: &ComponentsArgs) -> anyhow::Result<ExitCode> {
    print(&render(args.role.into(), &args.image))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde::Deserialize;
    use serde_yaml_ng::{Deserializer, Value};

    use super::*;
    use crate::{Cli, args};

    /// The text as clusterctl renders it with the default values of variables.
    fn expanded(text: &str) -> String {
        let Some((before, rest)) = text.split_once("${") else {
            return text.to_owned();
        };
        let (variable, after) = rest.split_once('}').expect("a variable ends");
        let (variable, default) = variable.split_once(":=").expect("a variable has a default");
        assert!(
            variable.starts_with("NEPHELE_") && !default.is_empty(),
            "{variable}"
        );
        format!("{before}{default}{}", expanded(after))
    }

    #[test]
    fn deployments_start_a_manager_that_knows_its_flags() {
        for role in [Role::Infrastructure, Role::Ipam, Role::RuntimeExtension] {
            let text = render(role, IMAGE);
            let deployment = Deserializer::from_str(&text)
                .map(|document| Value::deserialize(document).expect("YAML"))
                .find(|object| object["kind"] == "Deployment")
                .expect("there is a Deployment");
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            let words = |name: &str| -> Vec<String> {
                let words = container[name].as_sequence().into_iter().flatten();
                words.map(|word| expanded(word.as_str().expect("text"))).collect()
            };
            let command_line = words("command").into_iter().chain(words("args")).map(Into::into);
            Cli::try_parse_from(args::normalised(command_line)).expect("the manager's own flags");
        }
    }
}
