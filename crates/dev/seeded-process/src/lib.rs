//! A process whose randomness comes from a seed.
//!
//! The iteration order of a hash map, the branch that Tokio's `select!` polls first, and random uids all follow from
//! numbers that the operating system returns from the C function `getrandom`. A program that is linked with this crate
//! has its own `getrandom`, and [`seed`] makes its numbers follow from a seed. Then two processes that do the same work
//! do it in the same order. Libraries have no option for this: a hash map's keys cannot be set from outside, and on
//! stable Rust neither can the seed of a Tokio runtime. The crate `getrandom` looks its function up with `dlsym`, which
//! finds nothing in a static program, so a static program has its own `dlsym`, too.
//!
//! Not covered: aws-lc calls the kernel itself, so keys and signatures differ. Threads run in any order.

#![allow(unsafe_code, reason = "a function that C calls writes to memory that C gives")]

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

static SEED: OnceLock<u64> = OnceLock::new();

thread_local! {
    /// How many numbers this thread has drawn. Each thread draws the same sequence, independent of other threads.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Makes all random numbers of this process follow from this seed. Call it first: numbers that were drawn before do not
/// change, and a thread that has created a hash map keeps its keys. A second call does nothing.
pub fn seed(seed: u64) {
    let _ = SEED.set(seed);
    // By default ahash mixes in addresses, which differ between processes.
    let _ = ahash::random_state::set_random_source(Counted(AtomicUsize::new(1)));
}

struct Counted(AtomicUsize);

impl ahash::random_state::RandomSource for Counted {
    fn gen_hasher_seed(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The next number that this thread draws.
fn draw(seed: u64) -> u64 {
    let number = DRAWN.with(|drawn| drawn.replace(drawn.get() + 1));
    // SplitMix64.
    let mixed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Replaces the C library's function.
///
/// # Safety
/// `buffer` has to be valid for writes of `length` bytes, as `getrandom(2)` requires.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, flags: libc::c_uint) -> isize {
    let Some(seed) = SEED.get() else {
        // SAFETY: the system call gets the caller's arguments unchanged.
        let written = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return isize::try_from(written).unwrap_or(-1);
    };
    let mut at = 0;
    while at < length {
        let bytes = draw(*seed).to_ne_bytes();
        let count = bytes.len().min(length - at);
        // SAFETY: `at + count` is at most `length`, and the caller guarantees that `length` bytes can be written.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.add(at), count) };
        at += count;
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// Replaces the C library's function, which returns null for each name in a static program. Without it, the crate
/// `getrandom` reads `/dev/urandom`, and what ahash and uuid draw does not follow from the seed.
///
/// # Safety
/// `name` has to be a string that ends with a zero byte, as `dlsym(3)` requires.
#[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(_handle: *mut libc::c_void, name: *const libc::c_char) -> *mut libc::c_void {
    // SAFETY: the caller guarantees that the string ends.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    if name == c"getrandom" {
        getrandom as *mut libc::c_void
    } else {
        std::ptr::null_mut()
    }
}
