//! Tests of codes: both ends and their rendezvous in virtual time.

use std::net::SocketAddr;
use std::time::Duration;

use lockstep_units::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::code::{Code, Nameplate};
use super::exchange::{Offer, OfferResult, RedeemError, Redemption};
use super::limits::Limits;
use super::server::Rendezvous;
use lockstep_session::ticket::{ListenerKey, MAX_ADDRESSES, MAX_SERVERS, Ticket};

const STEP: Duration = Duration::from_millis(10);

fn server_address() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 4610))
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 4600))
}

/// The longest ticket.
fn ticket() -> Ticket {
    let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7], 4600));
    let (addresses, rendezvous) = (vec![v6; MAX_ADDRESSES], vec![v6; MAX_SERVERS]);
    Ticket { key: ListenerKey::PublicKey([7; 32]), secret: [9; 16], addresses, rendezvous, is_room: false }
}

/// An end of a code.
enum End {
    Listener(Box<Offer>),
    Joiner(Box<Redemption>, Option<Result<Ticket, RedeemError>>),
    /// An end whose process was killed.
    Gone,
}

impl End {
    fn transmit(&mut self, now: Timestamp) -> Vec<(SocketAddr, Vec<u8>)> {
        match self {
            Self::Listener(offer) => {
                offer.handle_timeout(now);
                std::iter::from_fn(|| offer.poll_transmit()).collect()
            }
            Self::Joiner(redemption, result) => {
                if result.is_some() {
                    return Vec::new();
                }
                redemption.handle_timeout(now);
                *result = redemption.take_result();
                std::iter::from_fn(|| redemption.poll_transmit()).collect()
            }
            Self::Gone => Vec::new(),
        }
    }

    fn receive(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) {
        match self {
            Self::Listener(offer) => offer.handle_datagram(now, from, datagram).expect("there are random numbers"),
            Self::Joiner(redemption, result) => {
                redemption.handle_datagram(now, from, datagram).expect("there are random numbers");
                if let Some(found) = redemption.take_result() {
                    result.get_or_insert(found);
                }
            }
            Self::Gone => {}
        }
    }
}

/// Ends by address, and their rendezvous.
struct World {
    now: Timestamp,
    server: Option<Rendezvous>,
    ends: Vec<(SocketAddr, End)>,
    /// Share of lost datagrams, and of doubled ones.
    lost: f64,
    doubled: f64,
    random: Pcg64Mcg,
    /// Everything that the server received or sent.
    seen: Vec<u8>,
}

fn server(limits: Limits, key: u8) -> Rendezvous {
    Rendezvous::with_key(limits, [key; 32])
}

impl World {
    /// One listener that has a code.
    fn new(seed: u64, lost: f64) -> Self {
        let mut world = Self {
            now: Timestamp::ZERO,
            server: Some(server(Limits::default(), 1)),
            ends: Vec::new(),
            lost,
            doubled: lost,
            random: Pcg64Mcg::seed_from_u64(seed),
            seen: Vec::new(),
        };
        world.listen(1);
        world.run_for(Duration::from_secs(5));
        world
    }

    fn listen(&mut self, last: u8) {
        let offer = Offer::new(&[server_address()], &ticket(), self.now).expect("there are random numbers");
        self.ends.push((address(last), End::Listener(Box::new(offer))));
    }

    fn join(&mut self, last: u8, code: &Code) -> usize {
        let redemption = Redemption::new(&[server_address()], code.clone(), self.now);
        let redemption = redemption.expect("there are random numbers");
        self.ends.push((address(last), End::Joiner(Box::new(redemption), None)));
        self.ends.len() - 1
    }

    fn offer(&self, end: usize) -> &Offer {
        let End::Listener(offer) = &self.ends[end].1 else { panic!("end {end} is no listener") };
        offer
    }

    fn code(&self) -> Code {
        self.offer(0).code().expect("the server gave a number").clone()
    }

    /// Text of the result of a joiner.
    fn result(&self, end: usize) -> Option<String> {
        let End::Joiner(_, result) = &self.ends[end].1 else { panic!("end {end} is no joiner") };
        result.as_ref().map(|result| match result {
            Ok(found) if *found == ticket() => "ticket".to_owned(),
            Ok(_) => "another ticket".to_owned(),
            Err(error) => error.to_string(),
        })
    }

    /// How often a datagram arrives.
    fn copies(&mut self) -> usize {
        if self.random.random_bool(self.lost) { 0 } else { 1 + usize::from(self.random.random_bool(self.doubled)) }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += STEP;
            for place in 0..self.ends.len() {
                let (from, sent) = (self.ends[place].0, self.ends[place].1.transmit(self.now));
                for (_, datagram) in sent {
                    self.seen.extend(&datagram);
                    for _ in 0..self.copies() {
                        if let Some(server) = &mut self.server {
                            server.handle_datagram(self.now, from, &datagram);
                        }
                    }
                }
            }
            let server = self.server.iter_mut();
            let answers: Vec<_> = server
                .flat_map(|server| {
                    server.handle_timeout(self.now);
                    std::iter::from_fn(|| server.poll_transmit())
                })
                .collect();
            for (to, datagram) in answers {
                let copies = self.copies();
                if let Some((_, end)) = self.ends.iter_mut().find(|(address, _)| *address == to) {
                    (0..copies).for_each(|_| end.receive(self.now, server_address(), &datagram));
                }
            }
        }
    }
}

/// The code with other words.
fn other_words(code: &Code) -> Code {
    let first = if code.to_string().contains("aardvark") { "absurd" } else { "aardvark" };
    format!("{}-{first}-adroitness", code.nameplate()).parse().expect("a code")
}

const SECONDS_3: Duration = Duration::from_secs(3);

#[test]
fn right_code_gives_the_ticket_and_tells_the_server_nothing() {
    let mut world = World::new(1, 0.0);
    let code = world.code();
    let joiner = world.join(2, &code);
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.result(joiner).as_deref(), Some("ticket"));
    assert_eq!(world.offer(0).result(), Some(OfferResult::Given));
    let text = ticket().to_string();
    let words = code.to_string();
    let secrets = [&text.as_bytes()[..20], &words.as_bytes()[1..], &ticket().secret[..], &ticket().secret[..8]];
    for secret in secrets {
        assert!(!world.seen.windows(secret.len()).any(|seen| seen == secret), "the server saw {secret:?}");
    }
}

#[test]
fn wrong_code_fails_once_and_burns_the_code() {
    let mut world = World::new(1, 0.0);
    let code = world.code();
    let guesser = world.join(2, &other_words(&code));
    world.run_for(SECONDS_3);
    assert!(world.result(guesser).expect("it fails").contains("words of the code are wrong"));
    assert_eq!(world.offer(0).result(), Some(OfferResult::Wrong));
    // The right code comes too late.
    let joiner = world.join(3, &code);
    world.run_for(Duration::from_secs(30));
    let said = world.result(joiner).expect("it fails");
    assert!(said.contains("another person") || said.contains("used already"), "{said}");
    assert_eq!(world.offer(0).result(), Some(OfferResult::Wrong));
}

#[test]
fn second_joiner_at_the_same_time_gets_nothing() {
    for order in [[2, 3], [3, 2]] {
        let mut world = World::new(1, 0.0);
        let code = world.code();
        let joiners = order.map(|last| world.join(last, &code));
        world.run_for(Duration::from_secs(30));
        let results = joiners.map(|joiner| world.result(joiner).expect("it ends"));
        assert_eq!(results[0], "ticket");
        assert!(results[1].contains("another person") || results[1].contains("used already"), "{}", results[1]);
    }
}

#[test]
fn joiner_killed_before_its_confirmation_leaves_the_code_valid() {
    let mut world = World::new(1, 0.0);
    let code = world.code();
    let first = world.join(2, &code);
    // The joiner asks, and is killed before it can confirm.
    world.run_for(2 * STEP);
    assert_eq!(world.offer(0).result(), None);
    world.ends[first].1 = End::Gone;
    let second = world.join(3, &code);
    world.run_for(Duration::from_secs(17));
    assert_eq!(world.result(second).as_deref(), Some("ticket"));
}

#[test]
fn code_survives_loss_and_doubled_datagrams() {
    for seed in 1..=20 {
        let mut world = World::new(seed, 0.3);
        let code = world.code();
        let joiner = world.join(2, &code);
        world.run_for(Duration::from_secs(15));
        assert_eq!(world.result(joiner).as_deref(), Some("ticket"), "seed {seed}");
        assert_eq!(world.offer(0).result(), Some(OfferResult::Given), "seed {seed}");
    }
}

#[test]
fn code_survives_a_restart_of_the_rendezvous_at_any_step() {
    for steps in 0..8 {
        let mut world = World::new(1, 0.0);
        let code = world.code();
        let joiner = world.join(2, &code);
        world.run_for(steps * STEP);
        world.server = None;
        world.run_for(Duration::from_secs(2));
        world.server = Some(server(Limits::default(), 2));
        world.run_for(Duration::from_secs(8));
        assert_eq!(world.result(joiner).as_deref(), Some("ticket"), "after {steps} steps");
        assert_eq!(world.offer(0).code(), Some(&code));
    }
}

#[test]
fn number_given_to_another_listener_ends_the_offer() {
    let mut world = World::new(1, 0.0);
    let code = world.code();
    world.server = Some(server(Limits::default(), 2));
    // Nine other listeners are quicker after the restart.
    let listener = std::mem::replace(&mut world.ends[0].1, End::Gone);
    (10..19).for_each(|last| world.listen(last));
    world.run_for(SECONDS_3);
    world.ends[0].1 = listener;
    world.run_for(Duration::from_secs(7));
    assert_eq!(world.offer(0).result(), Some(OfferResult::Lost));
    let joiner = world.join(2, &code);
    world.run_for(Duration::from_secs(8));
    assert_ne!(world.result(joiner).as_deref(), Some("ticket"));
}

#[test]
fn numbers_are_short_unique_and_limited() {
    let mut world = World::new(1, 0.0);
    world.server = Some(server(Limits { calls: 30, calls_per_address: 40, ..Limits::default() }, 1));
    world.ends.clear();
    (1..=35).for_each(|last| world.listen(last));
    world.run_for(SECONDS_3);
    let mut numbers: Vec<Nameplate> = (0..35).filter_map(|end| world.offer(end).code().map(Code::nameplate)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 30);
    assert!(numbers[..9] == [1, 2, 3, 4, 5, 6, 7, 8, 9] && numbers[29] < 100, "{numbers:?}");
    assert!(world.offer(34).failure().to_string().contains("no more codes"));
    // A silent listener's number is free after a minute.
    world.ends.truncate(1);
    world.run_for(Duration::from_secs(62));
    assert_eq!(world.server.as_ref().map(|server| server.status().codes), Some(1));
    world.listen(99);
    world.run_for(SECONDS_3);
    assert!(world.offer(1).code().is_some_and(|code| code.nameplate() < 10));
}

#[test]
fn one_address_gets_only_its_share_of_numbers_and_tries() {
    let limits = Limits { calls_per_address: 2, ..Limits::default() };
    let mut world = World::new(1, 0.0);
    world.server = Some(server(limits, 1));
    world.ends.clear();
    for port in 0..3 {
        world.listen(1);
        world.ends[port].0.set_port(5_000 + port as u16);
    }
    world.run_for(SECONDS_3);
    assert_eq!((0..3).filter(|&end| world.offer(end).code().is_some()).count(), 2);
}

#[test]
fn joiner_gives_up_with_a_reason() {
    let mut world = World::new(1, 0.0);
    let code = world.code();
    let unknown: Code = "9999-aardvark-adroitness".parse().expect("a code");
    let joiner = world.join(2, &unknown);
    world.run_for(Duration::from_secs(8));
    assert!(world.result(joiner).expect("it fails").contains("nobody waits with the code 9999"));
    // The listener is killed.
    world.ends[0].1 = End::Gone;
    let joiner = world.join(3, &code);
    world.run_for(Duration::from_secs(21));
    assert!(world.result(joiner).expect("it fails").contains("the other end does not answer"));
    // The rendezvous is killed.
    world.server = None;
    let joiner = world.join(4, &code);
    world.run_for(Duration::from_secs(11));
    assert!(world.result(joiner).expect("it fails").contains("198.51.100.1:4610 does not answer"));
}

#[test]
fn parcels_of_other_senders_are_ignored() {
    let mut world = World::new(1, 0.0);
    let code = world.code();
    let joiner = world.join(2, &code);
    let burned = super::message::Message::Exchanged { session: [0; 8], nameplate: 1, parcel: Box::new([5; 448]) };
    let now = world.now;
    for from in [server_address(), address(9)] {
        world.ends[joiner].1.receive(now, from, &burned.to_bytes());
    }
    world.run_for(SECONDS_3);
    assert_eq!(world.result(joiner).as_deref(), Some("ticket"));
}

proptest! {
    #[test]
    fn random_datagrams_harm_neither_server_nor_ends(
        datagrams in vec((any::<u8>(), 0_u8..14, vec(any::<u8>(), 0..500), any::<bool>()), 1..30)
    ) {
        let mut world = World::new(1, 0.0);
        let code = world.code();
        let joiner = world.join(2, &code);
        let now = world.now;
        for (from, kind, bytes, whole) in datagrams {
            let datagram = if whole { bytes } else { [&super::MAGIC[..], &[kind], &bytes].concat() };
            world.server.as_mut().expect("it runs").handle_datagram(now, address(from), &datagram);
            for end in 0..2 {
                world.ends[end].1.receive(now, server_address(), &datagram);
            }
        }
        world.run_for(SECONDS_3);
        prop_assert_eq!(world.result(joiner), Some("ticket".to_owned()));
    }
}

#[test]
fn every_seed_of_the_fuzzer_is_a_message() {
    let seeds = super::messages();
    assert_eq!(seeds.len(), 11);
    assert!(seeds.iter().all(|(_, datagram)| super::read_message(datagram)));
}
