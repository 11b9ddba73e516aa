//! As much DER (X.690) as re-wrapping a key and naming an issuer take.

use x509_parser::asn1_rs::{Any, FromDer};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const SEQUENCE: u8 = 0x30;
/// Constructed, context-specific, tag 1.
pub(super) const CONTEXT_1: u8 = 0xa1;

/// One element: tag, length, content.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut out = vec![tag];
    match (content.len(), u8::try_from(significant.len())) {
        (0..0x80, _) => out.push(significant.first().copied().unwrap_or(0)),
        (_, count) => {
            out.push(0x80 | count.unwrap_or(0x7f));
            out.extend(significant);
        }
    }
    out.extend(content);
    out
}

/// The elements within one that is constructed, each whole; `None` when it isn't DER.
pub(super) fn elements(outer: &[u8]) -> Option<Vec<&[u8]>> {
    let (_, any) = Any::from_der(outer).ok()?;
    let mut rest = any.data;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (after, _) = Any::from_der(rest).ok()?;
        found.push(&rest[..rest.len() - after.len()]);
        rest = after;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_as_many_octets_as_they_need() {
        for (length, header) in [
            (0, &[0x04, 0x00][..]),
            (0x7f, &[0x04, 0x7f]),
            (0x80, &[0x04, 0x81, 0x80]),
            (0x100, &[0x04, 0x82, 0x01, 0x00]),
            (0x1_0000, &[0x04, 0x83, 0x01, 0x00, 0x00]),
        ] {
            let content = vec![7; length];
            let made = element(OCTET_STRING, &[&content]);
            assert_eq!((&made[..header.len()], &made[header.len()..]), (header, &content[..]));
            let outer = element(SEQUENCE, &[&made, &made]);
            assert_eq!(elements(&outer), Some(vec![&made[..], &made[..]]));
        }
        assert_eq!(elements(&[SEQUENCE, 0x03, 0x04, 0x05, 0x00]), None);
    }
}
