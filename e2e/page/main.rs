//! The live page of `nephele up` in Debian's Chromium. Each test has a process and a browser of its own.
//!
//! ```text
//!  test ──WebDriver──▶ chromedriver ──▶ Chromium ──HTTP──▶ nephele up ◀──kube── test
//! ```
//!
//! `NEPHELE_PROGRAM` names the program, as for the other black-box tests.

mod access;
mod browser;
mod budget;
mod line;
mod live;
mod people;
mod pictures;
mod screens;
mod timeline;
mod up;
