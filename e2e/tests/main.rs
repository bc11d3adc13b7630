//! Every black-box test, in one program, which is linked once. `cargo xtask e2e` runs each test as its own process,
//! so it can decide what runs in parallel:
//!
//! | Module | Runs |
//! |---|---|
//! | `lifecycle`, `ipam`, `input` | side by side, each test in a namespace of its own |
//! | `alone` | one by one: the tests kill the managers, or measure them |
//! | `clusterctl`, `releases`, `runtime` | beside `alone`, each on management clusters of its own |
//! | `helm`, `installed` | where our providers are not installed: `cargo xtask helm`, `cargo xtask installed` |

mod alone;
mod clusterctl;
mod helm;
mod input;
mod installed;
mod ipam;
mod lifecycle;
mod releases;
mod runtime;
