//! Reads addresses and ECN marks of IP packets. RFC 791 and RFC 8200 define the headers, RFC 3168 the marks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Minimum length of an IPv4 header, bytes.
const IPV4_HEADER: usize = 20;
/// Length of an IPv6 header, bytes.
const IPV6_HEADER: usize = 40;
/// Offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;
/// The two ECN bits. Both set mean congestion experienced; one set means that the endpoints support ECN.
const ECN: u8 = 0b11;

/// Source and destination of a packet. None if the header is truncated or not IPv4 or IPv6.
pub(crate) fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER => {
            let address = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).map(Ipv4Addr::from).ok();
            Some((address(12)?.into(), address(16)?.into()))
        }
        6 if packet.len() >= IPV6_HEADER => {
            let address = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).map(Ipv6Addr::from).ok();
            Some((address(8)?.into(), address(24)?.into()))
        }
        _ => None,
    }
}

/// The two ECN bits of a packet with a whole header.
fn ecn(packet: &[u8]) -> u8 {
    match packet {
        [first, tos, ..] if first >> 4 == 4 => tos & ECN,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & ECN,
        _ => 0,
    }
}

/// Whether the endpoints of a packet support ECN.
pub(crate) fn is_ecn_capable(packet: &[u8]) -> bool {
    ecn(packet) != 0
}

/// Marks a packet as congestion experienced, if its endpoints support ECN.
pub(crate) fn mark(packet: &mut [u8]) {
    if ecn(packet) == 0 || addresses(packet).is_none() {
        return;
    }
    if packet[0] >> 4 == 6 {
        packet[1] |= ECN << 4;
        return;
    }
    // The checksum changes with the first word of the header (RFC 1624, equation 3).
    let word = |packet: &[u8], at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let before = word(packet, 0);
    packet[1] |= ECN;
    let sum = (!word(packet, IPV4_CHECKSUM) & 0xffff) + (!before & 0xffff) + word(packet, 0);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksum of a header whose checksum field is zero (RFC 791).
    fn checksum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    }

    fn ipv4(tos: u8, id: u16) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        let sum = checksum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        packet.extend([0; 8]);
        packet
    }

    #[test]
    fn mark_changes_only_ecn_bits_and_checksum() {
        for (tos, id) in (0..=255u8).flat_map(|tos| [0, 1, 0x7fff, 0xfffe, 0xffff].map(|id| (tos, id))) {
            let before = ipv4(tos, id);
            let mut after = before.clone();
            mark(&mut after);
            assert_eq!(checksum(&after[..20]), 0, "{tos} {id}");
            let marked = if tos & ECN == 0 { tos } else { tos | ECN };
            assert_eq!(after, ipv4(marked, id), "{tos} {id}");
            assert_eq!(is_ecn_capable(&before), tos & ECN != 0);
        }
    }

    #[test]
    fn addresses_of_both_versions_are_read() {
        let far = IpAddr::from([10, 77, 0, 2]);
        assert_eq!(addresses(&ipv4(0, 5)), Some((IpAddr::from([10, 77, 0, 1]), far)));
        let mut packet = vec![0x60, 0x10, 0, 0, 0, 0, 17, 64];
        packet.extend([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        let ends = ("fd77::1".parse().unwrap(), "fd77::2".parse().unwrap());
        assert_eq!(addresses(&packet), Some(ends));
        assert!(is_ecn_capable(&packet));
        mark(&mut packet);
        assert_eq!((packet[1], addresses(&packet)), (0x30, Some(ends)));
    }

    #[test]
    fn invalid_packets_have_no_addresses_and_no_mark() {
        for packet in [&[][..], &[0x45], &[0x45; 19], &[0x60; 39], &[0x15; 60], &[0xff; 60]] {
            let mut copy = packet.to_vec();
            mark(&mut copy);
            assert_eq!((addresses(packet), &copy[..]), (None, packet));
        }
    }
}
