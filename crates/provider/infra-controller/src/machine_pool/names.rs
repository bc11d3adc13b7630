//! The names of a pool's machines: the pool's name and a number that counts up. Nodes and `spec.providerIDList`
//! identify a machine by its name alone, and Cluster API deletes the Node of a machine that is missing from the list.
//! So no name is used twice.

/// Longest name: it is the host name of the Node too, one DNS label (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 63;
/// The length to which a longer name is cut: the hash needs a hyphen and eight digits, the number a hyphen and nine
/// digits.
const STEM_MAX: usize = NAME_MAX - 9 - 10;

/// The name of the machine with this number.
pub(super) fn name(pool: &str, ordinal: i64) -> String {
    format!("{}-{ordinal}", stem(pool))
}

/// The number in the name of a machine of this pool.
pub(super) fn ordinal(pool: &str, name: &str) -> Option<i64> {
    let number = name.strip_prefix(stem(pool).as_str())?.strip_prefix('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.parse().ok()).flatten()
}

/// The pool's name as the first part of a DNS label: without dots, and shortened if necessary.
fn stem(pool: &str) -> String {
    if pool.len() <= NAME_MAX - 10 && !pool.contains('.') {
        return pool.to_owned();
    }
    let label = pool.replace('.', "-");
    let kept: String = label.chars().take(STEM_MAX).collect();
    format!(
        "{}-{:08x}",
        kept.trim_end_matches('-'),
        digest(pool.as_bytes()) & 0xffff_ffff
    )
}

/// FNV-1a of 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>): the same in every build and on every machine.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_pool_and_a_number() {
        assert_eq!(name("demo-pool", 7), "demo-pool-7");
        assert_eq!(ordinal("demo-pool", "demo-pool-7"), Some(7));
        for foreign in [
            "demo-pool",
            "demo-pool-",
            "demo-pool-x",
            "demo-pool-2-7",
            "demo-pool--7",
            "other-7",
        ] {
            assert_eq!(ordinal("demo-pool", foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_name_of_a_long_pool_fits_into_a_host_name() {
        let one = "x".repeat(100);
        let other = format!("{}y", "x".repeat(99));
        for pool in [
            one.as_str(),
            other.as_str(),
            "a.b",
            &format!("{}.{}", "x".repeat(43), "y".repeat(60)),
        ] {
            let longest = name(pool, 999_999_999);
            assert!(
                longest.len() <= NAME_MAX && !longest.contains(['.', '_']),
                "{longest}"
            );
            assert_eq!(ordinal(pool, &longest), Some(999_999_999));
        }
        assert_ne!(name(&one, 1), name(&other, 1));
        assert_ne!(name("a.b", 1), name("a-b", 1));
    }

    #[test]
    fn the_digest_is_that_of_the_specification() {
        assert_eq!(
            (digest(b""), digest(b"foobar")),
            (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8)
        );
    }
}
