//! Development only: what clients and users send, as functions of bytes. Each is a target of cargo-fuzz
//! (`crates/dev/fuzz/fuzz`), and a test gives it some thousand inputs that are drawn from a seed.
//!
//! A target goes through what its crate exports anyway, as a connection does. It fails when a server panics, does not
//! answer, answers with a failure of its own, or cannot show afterwards what it has stored. Time is simulated: whoever
//! waits for something that never happens finds out at once.

mod api;
mod certificate;
mod etcd;
mod hooks;
mod input;
mod port_forward;
mod samples;
mod server;
mod simulated_time;
mod texts;

use std::{env, fs, io, path::Path};

/// A parser, with inputs to begin from.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name for `cargo fuzz run`.
    pub name: &'static str,
    /// Parses one input. Panics when that shows a mistake in the parser.
    pub run: fn(&[u8]),
    /// Inputs that the parser accepts, from which others are made.
    pub samples: fn() -> Vec<Vec<u8>>,
}

/// All targets. Those in front go through a whole server.
pub const TARGETS: [Target; 14] = [
    Target {
        name: "apply",
        run: api::apply,
        samples: samples::apply,
    },
    Target {
        name: "headers",
        run: api::headers,
        samples: samples::headers,
    },
    Target {
        name: "patch",
        run: api::patch,
        samples: samples::patch,
    },
    Target {
        name: "protobuf",
        run: api::protobuf,
        samples: samples::protobuf,
    },
    Target {
        name: "request",
        run: api::request,
        samples: samples::request,
    },
    Target {
        name: "selectors",
        run: api::selectors,
        samples: samples::selectors,
    },
    Target {
        name: "table",
        run: api::table,
        samples: samples::table,
    },
    Target {
        name: "certificate",
        run: certificate::certificate,
        samples: samples::certificate,
    },
    Target {
        name: "etcd",
        run: etcd::etcd,
        samples: samples::etcd,
    },
    Target {
        name: "port_forward",
        run: port_forward::port_forward,
        samples: samples::port_forward,
    },
    Target {
        name: "hooks",
        run: hooks::hooks,
        samples: samples::hooks,
    },
    Target {
        name: "user_data",
        run: texts::user_data,
        samples: samples::user_data,
    },
    Target {
        name: "kubeconfig",
        run: texts::kubeconfig,
        samples: samples::kubeconfig,
    },
    Target {
        name: "specs",
        run: texts::specs,
        samples: samples::specs,
    },
];

/// The target of a name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn target(name: &str) -> Target {
    TARGETS
        .into_iter()
        .find(|target| target.name == name)
        .expect("the name is one of a target")
}

/// Writes the samples of a target into the folder that cargo-fuzz begins from, the first one among the arguments of the process.
///
/// # Errors
/// When a sample cannot be written.
pub fn write_samples(name: &str) -> io::Result<()> {
    let folder = env::args().skip(1).find(|argument| Path::new(argument).is_dir());
    let Some(folder) = folder else { return Ok(()) };
    for (index, sample) in (target(name).samples)().into_iter().enumerate() {
        fs::write(Path::new(&folder).join(format!("sample-{index}")), sample)?;
    }
    Ok(())
}
