//! Addresses and prefixes as text, parsed as Go's `net/netip` does, with its error messages.
//!
//! `std` agrees on what an address is, except for v6 zones (`fe80::1%eth0`), which are accepted here and dropped.
//! The messages matter because users see them in the admission error of a gateway.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::family::Family;

/// Why a text is not an address, in the words of Go's `netip.ParseAddr`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ParseAddr({}): {reason}{}", quote(.input), At(.at))]
pub struct ParseAddressError {
    input: String,
    reason: &'static str,
    /// The rest of the text from the error on, if the error is at a certain place.
    at: Option<String>,
}

struct At<'a>(&'a Option<String>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .as_ref()
            .map_or(Ok(()), |at| write!(f, " (at {})", quote(at)))
    }
}

/// A failure, yet without the whole text: the reason, and the rest of the text from the error on.
type Failure<'a> = (&'static str, Option<&'a str>);

/// An address, and whether it had a zone.
///
/// # Errors
/// When `netip.ParseAddr` refuses the text, for example because of leading zeros, spaces, or too few or too many parts.
pub(crate) fn parse_zoned_address(input: &str) -> Result<(IpAddr, bool), ParseAddressError> {
    let parsed = match input.bytes().find(|byte| b".:%".contains(byte)) {
        Some(b'.') => parse_v4(input).map(|octets| (Ipv4Addr::from(octets).into(), false)),
        Some(b':') => parse_v6(input),
        Some(_) => Err(("missing IPv6 address", None)),
        None => Err(("unable to parse IP", None)),
    };
    parsed.map_err(|(reason, at)| ParseAddressError {
        input: input.to_owned(),
        reason,
        at: at.map(str::to_owned).filter(|at| !at.is_empty()),
    })
}

/// An address without its zone.
///
/// # Errors
/// When `netip.ParseAddr` refuses the text.
pub fn parse_address(input: &str) -> Result<IpAddr, ParseAddressError> {
    parse_zoned_address(input).map(|(address, _)| address)
}

fn parse_v4(text: &str) -> Result<[u8; 4], Failure<'_>> {
    let mut octets = [0_u8; 4];
    let mut at = 0;
    let mut octet = 0_u16;
    let mut digits = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && octet == 0 {
                    return Err(("IPv4 field has octet with leading zero", None));
                }
                octet = octet * 10 + u16::from(byte - b'0');
                digits += 1;
                if octet > 255 {
                    return Err(("IPv4 field has value >255", None));
                }
            }
            b'.' => {
                if digits == 0 || index == text.len() - 1 {
                    return Err(("IPv4 field must have at least one digit", Some(&text[index..])));
                }
                if at == 3 {
                    return Err(("IPv4 address too long", None));
                }
                octets[at] = u8::try_from(octet).expect("an octet is at most 255");
                at += 1;
                octet = 0;
                digits = 0;
            }
            // All bytes before this one are ASCII, so a character begins here.
            _ => return Err(("unexpected character", Some(&text[index..]))),
        }
    }
    if at < 3 {
        return Err(("IPv4 address too short", None));
    }
    octets[3] = u8::try_from(octet).expect("an octet is at most 255");
    Ok(octets)
}

fn parse_v6(input: &str) -> Result<(IpAddr, bool), Failure<'_>> {
    let (mut rest, zone) = match input.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", None)),
        Some((address, _)) => (address, true),
        None => (input, false),
    };
    let mut groups = [0_u16; 8];
    let mut read = 0;
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        if after.is_empty() {
            return Ok((Ipv6Addr::UNSPECIFIED.into(), zone));
        }
        ellipsis = Some(0);
        rest = after;
    }
    while read < 8 {
        let (group, digits) = parse_group(rest)?;
        if rest[digits..].starts_with('.') {
            if ellipsis.is_none() && read != 6 {
                return Err((
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    Some(rest),
                ));
            }
            if read > 6 {
                return Err((
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    Some(rest),
                ));
            }
            let [a, b, c, d] = parse_v4(rest)?;
            groups[read] = u16::from_be_bytes([a, b]);
            groups[read + 1] = u16::from_be_bytes([c, d]);
            read += 2;
            rest = "";
            break;
        }
        groups[read] = group;
        read += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", Some(rest)));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", Some(rest)));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", Some(rest)));
            }
            ellipsis = Some(read);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", Some(rest)));
    }
    match ellipsis {
        None if read < 8 => return Err(("address string too short", None)),
        Some(_) if read == 8 => return Err(("the :: must expand to at least one field of zeros", None)),
        // The groups after the ellipsis move to the end, and zeros fill the gap.
        Some(at) => {
            groups.copy_within(at..read, 8 - (read - at));
            groups[at..8 - (read - at)].fill(0);
        }
        None => {}
    }
    Ok((Ipv6Addr::from(groups).into(), zone))
}

/// The hexadecimal number `text` begins with and how many digits it has.
fn parse_group(text: &str) -> Result<(u16, usize), Failure<'_>> {
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    match digits {
        0 => Err((
            "each colon-separated field must have at least one digit",
            Some(text),
        )),
        1..=4 => {
            let group =
                u16::from_str_radix(&text[..digits], 16).expect("four hexadecimal digits have 16 bits");
            Ok((group, digits))
        }
        _ => Err(("each group must have 4 or less digits", Some(text))),
    }
}

/// Why a text is not an address with a prefix length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsePrefixError {
    /// No `/`.
    #[error("{0:?} has no prefix length")]
    NoLength(String),
    /// The text before the `/` is not an address.
    #[error("failed to read the address of prefix {prefix:?}")]
    Address {
        prefix: String,
        /// Why the text is not an address.
        #[source]
        source: ParseAddressError,
    },
    /// A zone, which a prefix cannot have.
    #[error("prefix {0:?} has a zone")]
    Zone(String),
    /// The text after the `/` is not a decimal number without sign and leading zeros.
    #[error("the length of prefix {0:?} is not a number")]
    Length(String),
    /// More bits than an address of its family has.
    #[error("the length of prefix {0:?} is out of range")]
    LengthOutOfRange(String),
}

/// An address, not masked, and a prefix length that its family allows.
///
/// # Errors
/// When `netip.ParsePrefix` refuses the text.
pub(crate) fn parse_prefix(input: &str) -> Result<(IpAddr, u8), ParsePrefixError> {
    let text = || input.to_owned();
    let (address, length) = input
        .rsplit_once('/')
        .ok_or_else(|| ParsePrefixError::NoLength(text()))?;
    let (address, zone) = parse_zoned_address(address).map_err(|source| ParsePrefixError::Address {
        prefix: text(),
        source,
    })?;
    if zone {
        return Err(ParsePrefixError::Zone(text()));
    }
    let plain =
        length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    if length.is_empty() || !plain {
        return Err(ParsePrefixError::Length(text()));
    }
    match length.parse() {
        Ok(length) if length <= Family::of(address).bits() => Ok((address, length)),
        // A number with too many digits for the type is out of range as well.
        _ => Err(ParsePrefixError::LengthOutOfRange(text())),
    }
}

/// `text` in double quotes, escaped as Go's `strconv.Quote` does it.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            // Printable, so `escape_debug` leaves it as it is; Go does not escape the single quote.
            '\'' => quoted.push('\''),
            _ if character.escape_debug().count() == 1 => quoted.push(character),
            _ => match u32::from(character) {
                code @ (0..0x20 | 0x7f) => quoted.push_str(&format!("\\x{code:02x}")),
                code @ 0..0x1_0000 => quoted.push_str(&format!("\\u{code:04x}")),
                code => quoted.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    quoted.push('"');
    quoted
}
