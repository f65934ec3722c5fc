//! Attacker on the path, which sends copied, cut, changed and random packets; and random bytes as tickets and control
//! messages.

use proptest::collection::vec;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use lockstep_session::control::Messages;
use lockstep_session::ticket::ListenerKey;

/// Old packets that the attacker keeps.
const KEPT: usize = 64;

/// Generates forged packets.
pub(super) struct Forger {
    random: Pcg32,
    seen: Vec<BytesMut>,
}

impl Forger {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Pcg32::seed_from_u64(seed), seen: Vec::new() }
    }

    /// Forged packets that follow `datagram`, which came from `from`.
    pub(super) fn forge(&mut self, from: SocketAddr, datagram: &BytesMut) -> Vec<(SocketAddr, BytesMut)> {
        let random = &mut self.random;
        if self.seen.len() < KEPT {
            self.seen.push(datagram.clone());
        } else if random.random_bool(0.05) {
            let place = random.random_range(0..KEPT);
            self.seen[place] = datagram.clone();
        }
        let mut forged = Vec::new();
        while random.random_bool(0.5) {
            let mut copy = match random.random_range(0..4_u32) {
                0 => datagram.clone(),
                1 => self.seen[random.random_range(0..self.seen.len())].clone(),
                2 => BytesMut::from(&datagram[..random.random_range(0..=datagram.len())]),
                _ => (0..random.random_range(0..1_300_usize)).map(|_| random.random::<u8>()).collect(),
            };
            if !copy.is_empty() && random.random_bool(0.7) {
                let place = random.random_range(0..copy.len());
                copy[place] ^= 1 << random.random_range(0..8_u32);
            }
            let from = if random.random_bool(0.5) { from } else { address(random.random_range(100..110)) };
            forged.push((from, copy));
        }
        forged
    }
}

#[test]
fn copied_and_forged_packets_leave_a_call_unharmed() {
    for seed in 1..=4 {
        let cast = Cast { pictures: "generated:16x16@30", ..Cast::default() };
        let mut world = World::new(cast, [usual_link(), usual_link()], seed);
        world.forger = Some(Forger::new(seed));
        world.run_for(Duration::from_secs(20));
        let since = Timestamp::from_millis(15_000);
        let (pictures, sound) = world.max_recovery(since);
        assert!(pictures <= Duration::from_millis(500) && sound <= Duration::from_millis(500), "{seed}: {pictures:?}");
        for end in &world.ends {
            assert!(end.exchange.connection.links() <= 12, "links pile up");
            assert_eq!(end.receiving.counts().mismatched + end.receiving.counts().undecodable, 0);
        }
        // The call can still be ended.
        world.ends[JOINER].hang_up(world.now);
        world.run_for(Duration::from_secs(4));
        assert_eq!(world.ended(LISTENER).map(|(_, said)| said).as_deref(), Some("ByPeer"));
    }
}

#[test]
fn flood_of_garbage_and_forged_handshakes_is_harmless() {
    let mut random = Pcg32::seed_from_u64(1);
    let mut world = World::new(Cast::default(), [usual_link(), usual_link()], 1);
    // 10,000 datagrams per second, from before the joiner's first one arrives.
    for _ in 0..2_500 {
        for forged in [true, false].repeat(10) {
            let length = if forged { 1_200 } else { random.random_range(1..1_300_usize) };
            let mut datagram: BytesMut = (0..length).map(|_| random.random::<u8>()).collect();
            if forged {
                // The start of a first packet of QUIC version 1; its connection identifier of 8 bytes is random.
                datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
            }
            let end = &mut world.ends[LISTENER];
            let (at, from) = (world.now + end.ahead, address(random.random_range(100..110)));
            end.handle_datagram(Incoming { at, from, to: None, datagram });
        }
        world.run_for(Duration::from_millis(2));
    }
    let (pictures, sound) = world.max_recovery(Timestamp::ZERO);
    assert!(pictures <= Duration::from_secs(1) && sound <= Duration::from_secs(3), "{pictures:?} {sound:?}");
    let (pictures, sound) = world.max_recovery(Timestamp::from_millis(4_000));
    assert!(pictures <= Duration::from_millis(500) && sound <= Duration::from_millis(500), "{pictures:?} {sound:?}");
    assert!(world.ends[LISTENER].exchange.connection.links() <= 12, "links pile up");
}

/// Number of cases; few, because each creates keys. `PROPTEST_CASES` overrides it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn any_text_is_parsed_as_a_ticket_or_refused(text in ".*", bytes in vec(any::<u8>(), 0..200)) {
        let _ = text.parse::<Ticket>();
        let coded = data_encoding::BASE32_NOPAD.encode(&bytes);
        // Random bytes do not match the checksum of four bytes.
        let made_up = format!("LOCKSTEP-{coded}").parse::<Ticket>();
        prop_assert!(made_up.is_err());
    }

    #[test]
    fn any_ticket_survives_its_text_form(
        key in any::<[u8; 32]>(),
        certified in any::<bool>(),
        secret in any::<[u8; 16]>(),
        addresses in vec((any::<std::net::IpAddr>(), 1..=u16::MAX), 1..=8),
        servers in 0_usize..=2,
        wrong in any::<prop::sample::Index>(),
    ) {
        let addresses: Vec<SocketAddr> = addresses.into_iter().map(SocketAddr::from).collect();
        prop_assume!(addresses.iter().all(|address| !address.ip().is_unspecified()));
        let rendezvous = addresses[..addresses.len().min(servers)].to_vec();
        let key = if certified { ListenerKey::CertificateHash(key) } else { ListenerKey::PublicKey(key) };
        let ticket = Ticket { key, secret, addresses, rendezvous, is_room: false };
        let text = ticket.to_string();
        prop_assert_eq!(text.parse(), Ok(ticket));
        let mut letters = text.into_bytes();
        let place = wrong.index(letters.len());
        letters[place] = if letters[place] == b'Z' { b'Y' } else { b'Z' };
        let text = String::from_utf8(letters).expect("it was text");
        prop_assert!(text.parse::<Ticket>().is_err());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused_in_bounded_memory(parts in vec(vec(any::<u8>(), 0..400), 0..20)) {
        let mut messages = Messages::default();
        for part in parts {
            messages.extend(&part);
            let mut malformed = false;
            loop {
                match messages.poll() {
                    Ok(Some(message)) => {
                        let mut again = Messages::default();
                        again.extend(&message.to_bytes());
                        prop_assert_eq!(again.poll(), Ok(Some(message)));
                    }
                    Ok(None) => break,
                    Err(_) => {
                        malformed = true;
                        break;
                    }
                }
            }
            // A peer that sends malformed messages is ignored.
            if malformed {
                break;
            }
            prop_assert!(messages.waiting() <= 130, "{} bytes wait", messages.waiting());
        }
    }

    #[test]
    #[ignore = "slow"]
    fn random_datagrams_harm_neither_listener_nor_joiner(
        datagrams in vec((any::<bool>(), any::<u8>(), vec(any::<u8>(), 0..1_300)), 1..60)
    ) {
        let mut world = World::new(Cast::default(), [usual_link(), usual_link()], 1);
        for (begins, from, mut datagram) in datagrams {
            if begins && datagram.len() > 20 {
                // The start of a first packet of QUIC version 1.
                datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
                datagram.resize(1_200, 0);
            }
            for end in &mut world.ends {
                let incoming =
                    Incoming { at: Timestamp::ZERO + end.ahead, from: address(from), to: None, datagram: BytesMut::from(&datagram[..]) };
                end.handle_datagram(incoming);
                prop_assert!(end.exchange.connection.links() <= 12);
            }
        }
        // The holder of the ticket can still join.
        world.run_for(Duration::from_secs(3));
        prop_assert!(world.ends.iter().all(|end| end.exchange.connection.is_joined()));
    }
}
