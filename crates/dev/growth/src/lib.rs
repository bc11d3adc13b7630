//! Development only: fails when the work of a parser grows faster than the text that it reads.
//!
//! A parser of users' text runs between the requests of others. One that is quadratic in its text stops them for
//! seconds, and such texts are short patterns that repeat: 64 KiB of `[`. So each parser is given all of these, up to
//! the length that it takes. What counts is the processor time of the thread, which other work on the machine hardly
//! changes.

use std::{hint::black_box, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// A parser that needs less than this for its longest text is fast enough, however it grows. Unoptimized parsers read some
/// megabytes in a second.
const SLOW: Duration = Duration::from_millis(50);
/// How many times longer the longer text is.
const TIMES: usize = 4;
/// By how much the time may grow then: by 4 if it is linear, by 16 if it is quadratic.
const GROWTH_MAX: u32 = 8;
/// How often each time is measured. The shortest counts.
const MEASURED: usize = 3;
/// What pairs are made of: all that a syntax may care about, with a few of the characters that it treats alike.
const PAIRED: &str = " \t\n\"#$%&'()*+,-./0:;<=>?@[\\]^_`an{|}~ä";

/// Gives a parser each pattern of one or two characters, repeated to `longest` bytes, after each of `beginnings`.
///
/// # Panics
/// When the parser needs more than eight times as long for four times the text, and that is more than 50 ms.
#[track_caller]
pub fn assert_linear(parser: &str, longest: usize, beginnings: &[&str], parse: impl Fn(&str)) {
    let parse: &dyn Fn(&str) = &parse;
    for pattern in patterns() {
        for beginning in beginnings {
            if let Err([short, long]) = check(longest, beginning, &pattern, parse) {
                panic!(
                    "{parser} needs {short:?} for {} bytes of {pattern:?} after {beginning:?}, and {long:?} for {longest}",
                    longest / TIMES
                );
            }
        }
    }
}

/// The times for a short and a long text, if they grow too much.
fn check(longest: usize, beginning: &str, pattern: &str, parse: &dyn Fn(&str)) -> Result<(), [Duration; 2]> {
    let text = |length: usize| {
        let repeated = length.saturating_sub(beginning.len()) / pattern.len();
        format!("{beginning}{}", pattern.repeat(repeated))
    };
    let short = text(longest / TIMES);
    let long = text(longest);
    if time(parse, &long) < SLOW {
        return Ok(());
    }
    let least = |text: &str| (0..MEASURED).map(|_| time(parse, text)).min().unwrap_or_default();
    let short = least(&short);
    let long = least(&long);
    if long < SLOW || long < short.saturating_mul(GROWTH_MAX) {
        Ok(())
    } else {
        Err([short, long])
    }
}

/// The processor time that this thread needs for a text.
fn time(parse: &dyn Fn(&str), text: &str) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let begin = now();
    parse(black_box(text));
    now().saturating_sub(begin)
}

/// All ASCII characters, and all pairs of [`PAIRED`].
fn patterns() -> Vec<String> {
    let one = (0..128_u8).map(|byte| char::from(byte).to_string());
    let pairs = PAIRED.chars().flat_map(|first| {
        PAIRED
            .chars()
            .filter(move |second| *second != first)
            .map(move |second| format!("{first}{second}"))
    });
    one.chain(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of some nanoseconds.
    fn work(steps: usize) {
        (0..steps).for_each(|step| {
            black_box(step);
        });
    }

    /// Looks for each bracket among all characters before it, as parsers with a stack do.
    fn quadratic(text: &str) {
        for (index, byte) in text.bytes().enumerate() {
            work(if byte == b'[' { index } else { 0 });
        }
    }

    #[test]
    #[should_panic(expected = "bytes of \"[\" after \"\"")]
    fn a_quadratic_parser_is_found_by_one_pattern() {
        assert_linear("quadratic", 8 * 1024, &[""], quadratic);
    }

    #[test]
    fn a_linear_parser_may_be_slow() {
        assert_eq!(
            check(1024, "a: ", "[]", &|text| work(text.len() * 10_000)),
            Ok(())
        );
    }
}
