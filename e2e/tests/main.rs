//! All black-box tests, in one program, so that only one program is linked. `cargo xtask e2e` runs each test as its own
//! process, so it can decide what runs in parallel:
//!
//! | Module | Runs |
//! |---|---|
//! | `lifecycle`, `ipam`, `input` | in parallel, each test in its own namespace |
//! | `faults` | as these, but only when they are asked for by their name, because they take long |
//! | `alone` | one by one: the tests kill the managers |
//! | `clusterctl`, `leaders`, `releases`, `runtime`, `quiet` | beside `alone`, each test on its own management clusters |
//! | `helm`, `installed` | on a cluster without our providers: `cargo xtask helm`, `cargo xtask installed` |
//! | `takeovers` | as `installed`, but only when they are asked for by their name: they take long and measure |

mod alone;
mod clusterctl;
mod faults;
mod helm;
mod input;
mod installed;
mod ipam;
mod leaders;
mod lifecycle;
mod quiet;
mod releases;
mod runtime;
mod takeovers;
