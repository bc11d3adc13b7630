//! The tests that start a program: the one that the environment variable `NEPHELE` names. `nepheletest/check PROGRAM`
//! sets it, and turns on the feature `program`. Without the feature these tests are not built, so that none of them can
//! pass without a program.

mod clusters;
mod killed;
mod mistakes;
mod objects;
mod start;
mod steering;
mod waits;
