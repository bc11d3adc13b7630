//! Inputs that are samples but for some changes, as those of a fuzzer are.

use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// What parsers care about.
const TOKENS: [&[u8]; 30] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"/",
    b"~",
    b"%",
    b"%2e",
    b"..",
    b"\0",
    b"\n",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"9223372036854775807",
    b"\xff",
    b"\xc3\xa4",
    b"\\ud800",
    b"$patch",
    b"name",
    b"=",
    b"!",
    b"(",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
];
/// The most changes of an input.
const CHANGES_MAX: usize = 6;

/// Draws inputs. The same seed draws the same ones.
pub(crate) struct Mutations {
    draws: ChaCha8Rng,
    samples: Vec<Vec<u8>>,
}

impl Mutations {
    /// There is at least one sample.
    pub(crate) fn new(seed: u64, samples: Vec<Vec<u8>>) -> Self {
        Self {
            draws: ChaCha8Rng::seed_from_u64(seed),
            samples,
        }
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.sample();
        for _ in 0..self.draws.random_range(1..=CHANGES_MAX) {
            self.change(&mut input);
        }
        input
    }

    fn sample(&mut self) -> Vec<u8> {
        self.samples
            .choose(&mut self.draws)
            .expect("there is a sample")
            .clone()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let begin = self.draws.random_range(0..=input.len());
        let end = (begin + self.draws.random_range(0..32)).min(input.len());
        match self.draws.random_range(0..8) {
            0 if begin < input.len() => input[begin] ^= 1 << self.draws.random_range(0..8),
            1 if begin < input.len() => input[begin] = self.draws.random(),
            2 => drop(input.drain(begin..end)),
            3 => input.truncate(begin),
            4 => {
                let part = input[begin..end].to_vec();
                let part = part.repeat(self.draws.random_range(1..20));
                input.splice(begin..begin, part);
            }
            5 => {
                let other = self.sample();
                let from = self.draws.random_range(0..=other.len());
                let to = self.draws.random_range(from..=other.len());
                input.splice(begin..end, other[from..to].iter().copied());
            }
            _ => {
                let token = *TOKENS.choose(&mut self.draws).expect("there are tokens");
                input.splice(
                    begin..if self.draws.random() { end } else { begin },
                    token.iter().copied(),
                );
            }
        }
    }
}
