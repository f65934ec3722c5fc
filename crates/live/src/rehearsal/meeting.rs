//! Calls of ends behind routers, by a rendezvous.

use lockstep_link::{LossConfig, Reordering};

use super::nat::{Dependence, Nat};
use super::*;
use lockstep_session::Route;

/// Address of the rendezvous.
pub(super) const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)), 4610);

/// How the ends find each other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meet {
    /// The call has a rendezvous.
    pub(super) by_rendezvous: bool,
    /// Neither end passes its addresses to the other.
    pub(super) hidden: bool,
}

impl World {
    /// Runs the rendezvous and delivers its datagrams.
    pub(super) fn serve(&mut self) {
        let Some((server, link)) = &mut self.server else { return };
        server.handle_timeout(self.now);
        while let Some((to, datagram)) = server.poll_transmit() {
            let size = ByteCount::new((datagram.len() + HEADERS) as u64);
            let _ = link.send(self.now, size, Transit { from: SERVER, to, datagram: BytesMut::from(&datagram[..]) });
        }
        let mut delivered = Vec::new();
        while let Some(packet) = link.poll(self.now) {
            delivered.push(packet.packet);
        }
        let cut = self.cut == [true; 2];
        for transit in delivered.into_iter().filter(|_| !cut) {
            for end in [JOINER, LISTENER] {
                self.deliver(end, transit.clone());
            }
        }
    }
}

/// Mapping and filtering of a router; `None` means no router.
type Kind = Option<(Dependence, Dependence)>;

use Dependence::{Address, AddressAndPort, Nothing};

const OPEN: Kind = None;
const FULL_CONE: Kind = Some((Nothing, Nothing));
const RESTRICTED: Kind = Some((Nothing, Address));
const PORT_RESTRICTED: Kind = Some((Nothing, AddressAndPort));
const ADDRESS_DEPENDENT: Kind = Some((Address, Address));
const SYMMETRIC: Kind = Some((AddressAndPort, AddressAndPort));
const KINDS: [Kind; 6] = [OPEN, FULL_CONE, RESTRICTED, PORT_RESTRICTED, ADDRESS_DEPENDENT, SYMMETRIC];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Whether a direct route exists: packets of one end reach the other where the other has sent a packet.
///
/// An end with address-dependent mapping has an unpredictable address. Only routers that ignore the port let it in, and
/// two such ends cannot meet.
fn is_direct(one: Kind, other: Kind) -> bool {
    let hidden = |kind: Kind| kind.is_some_and(|(mapping, _)| mapping != Nothing);
    let strict = |kind: Kind| kind.is_some_and(|(_, filtering)| filtering == AddressAndPort);
    let blocked = |one: Kind, other: Kind| hidden(one) && (strict(other) || hidden(other));
    !blocked(one, other) && !blocked(other, one)
}

fn cast() -> Cast {
    Cast { pictures: "generated:16x16@30", ..Cast::default() }
}

pub(super) const MEET: Meet = Meet { by_rendezvous: true, hidden: false };

fn world(kinds: [Kind; 2], links: [LinkConfig; 2], seed: u64, meet: Meet) -> World {
    let mut world = World::meeting(cast(), links, seed, meet);
    for (end, kind) in kinds.into_iter().enumerate() {
        world.nats[end] = kind.map(|(mapping, filtering)| Nat::new(end as u8 + 1, mapping, filtering));
    }
    world
}

fn routes(world: &World) -> [Option<Route>; 2] {
    [JOINER, LISTENER].map(|end| world.ends[end].exchange.connection.route())
}

/// A call that has run for a while.
fn begun(kinds: [Kind; 2], meet: Meet) -> World {
    let mut world = world(kinds, [usual_link(), usual_link()], 1, meet);
    world.run_for(seconds(6));
    let (pictures, sound) = world.max_recovery(Timestamp::ZERO);
    assert!(pictures < seconds(4) && sound < seconds(4), "{pictures:?} {sound:?} {kinds:?}");
    world
}

/// Asserts that pictures and sound return within `limit` at both ends.
fn assert_back(world: &mut World, since: Timestamp, limit: Duration, what: &str) {
    world.run_until(since + limit + seconds(1));
    let (pictures, sound) = world.max_recovery(since);
    let said = [JOINER, LISTENER].map(|end| world.ended(end));
    assert!(pictures <= limit && sound <= limit, "{what}: back after {pictures:?} and {sound:?} {said:?}");
}

#[test]
#[ignore = "slow"]
fn ends_behind_any_routers_use_a_direct_route_if_one_exists() {
    for one in KINDS {
        for other in KINDS {
            let mut world = begun([one, other], MEET);
            world.run_for(seconds(2));
            let expected = if is_direct(one, other) { Route::Direct } else { Route::Relayed };
            assert_eq!(routes(&world), [Some(expected); 2], "{one:?} {other:?}");
        }
    }
}

#[test]
fn call_fails_without_a_rendezvous_between_strict_routers() {
    for meet in [Meet::default(), MEET] {
        let mut world = world([PORT_RESTRICTED; 2], [usual_link(), usual_link()], 1, meet);
        world.server = None;
        world.run_for(seconds(31));
        let (_, said) = world.ended(JOINER).expect("it gives up");
        assert!(said.contains("nobody answered") && said.contains("192.0.2.2:4600"), "{said}");
        assert_eq!(said.contains("the rendezvous at 198.51.100.1:4610, which does not answer"), meet.by_rendezvous);
    }
}

#[test]
fn dead_rendezvous_does_not_prevent_a_direct_call() {
    let mut world = world([PORT_RESTRICTED, OPEN], [usual_link(), usual_link()], 1, MEET);
    world.server = None;
    world.run_for(seconds(3));
    assert_eq!(routes(&world), [Some(Route::Direct); 2]);
}

#[test]
#[ignore = "slow"]
fn ends_meet_despite_loss_and_reordering() {
    for seed in 1..=6 {
        for kinds in [[PORT_RESTRICTED; 2], [SYMMETRIC; 2]] {
            let link = LinkConfig {
                loss: LossConfig { random: 0.2, ..LossConfig::default() },
                reordering: Some(Reordering { probability: 0.2, extra_delay: Duration::from_millis(50) }),
                ..usual_link()
            };
            let mut world = world(kinds, [link.clone(), link], seed, MEET);
            world.run_for(seconds(10));
            let (pictures, _) = world.max_recovery(Timestamp::ZERO);
            assert!(pictures < seconds(6), "{pictures:?}, seed {seed}");
            world.run_for(seconds(6));
            let expected = if kinds[0] == SYMMETRIC { Route::Relayed } else { Route::Direct };
            assert_eq!(routes(&world), [Some(expected); 2], "seed {seed}");
        }
    }
}

#[test]
fn call_leaves_the_relay_for_a_direct_route_without_a_freeze() {
    let mut world = world([PORT_RESTRICTED; 2], [usual_link(), usual_link()], 1, MEET);
    world.apart = true;
    world.run_for(seconds(8));
    assert_eq!(routes(&world), [Some(Route::Relayed); 2]);
    world.apart = false;
    let since = world.now;
    world.run_for(seconds(12));
    assert_eq!(routes(&world), [Some(Route::Direct); 2]);
    for end in [JOINER, LISTENER] {
        let from = since + world.ends[end].ahead;
        let shown = world.ends[end].shown.iter().map(|&(at, _)| at).filter(|&at| at >= from);
        let gaps = shown.clone().zip(shown.skip(1)).map(|(one, next)| next.saturating_since(one));
        let longest = gaps.max().expect("pictures are shown");
        assert!(longest < Duration::from_millis(500), "end {end} saw nothing for {longest:?}");
    }
}

#[test]
fn call_uses_the_relay_while_the_direct_route_is_lost() {
    let mut world = begun([PORT_RESTRICTED; 2], MEET);
    assert_eq!(routes(&world), [Some(Route::Direct); 2]);
    for _ in 0..3 {
        world.apart = true;
        let since = world.now;
        assert_back(&mut world, since, Duration::from_millis(1_700), "the way is lost");
        assert_eq!(routes(&world), [Some(Route::Relayed); 2]);
        world.apart = false;
        world.run_for(seconds(8));
        assert_eq!(routes(&world), [Some(Route::Direct); 2]);
    }
}

#[test]
fn route_survives_a_temporary_link_failure() {
    for kinds in [[PORT_RESTRICTED; 2], [SYMMETRIC; 2]] {
        for lost in [1, 10] {
            let mut world = begun(kinds, MEET);
            world.cut = [true; 2];
            world.run_for(seconds(lost));
            world.cut = [false; 2];
            let since = world.now;
            assert_back(&mut world, since, Duration::from_millis(700), &format!("{lost} s {kinds:?}"));
        }
    }
}

#[test]
fn ends_meet_again_after_both_change_their_address() {
    for kind in [OPEN, PORT_RESTRICTED, SYMMETRIC] {
        let mut world = begun([kind; 2], MEET);
        for end in [JOINER, LISTENER] {
            world.rebind(end);
            world.nats[end] = kind.map(|(mapping, filtering)| Nat::new(end as u8 + 11, mapping, filtering));
        }
        let since = world.now;
        assert_back(&mut world, since, seconds(3), &format!("{kind:?}"));
        world.run_for(seconds(8));
        let expected = if is_direct(kind, kind) { Route::Direct } else { Route::Relayed };
        assert_eq!(routes(&world), [Some(expected); 2], "{kind:?}");
    }
}

#[test]
fn call_survives_a_restart_of_the_rendezvous() {
    for kinds in [[SYMMETRIC; 2], [PORT_RESTRICTED; 2]] {
        let mut world = begun(kinds, MEET);
        let (server, _) = world.server.as_mut().expect("there is one");
        *server = Rendezvous::with_key(Limits::default(), [2; 32]);
        let since = world.now;
        assert_back(&mut world, since, Duration::from_millis(600), "a new rendezvous");
        world.run_for(seconds(6));
        let (server, _) = world.server.as_ref().expect("there is one");
        assert_eq!((server.status().calls, server.status().met), (1, 1));
    }
}

#[test]
fn hidden_ends_send_each_other_nothing_directly() {
    let world = begun([OPEN; 2], Meet { hidden: true, ..MEET });
    assert_eq!(routes(&world), [Some(Route::Relayed); 2]);
    assert_eq!(world.came_direct, 0);
    // An open end does not reach a hidden one either.
    let (server, _) = world.server.as_ref().expect("there is one");
    assert!(server.status().relayed_packets > 500);
}

#[test]
fn meeting_survives_copied_and_forged_packets() {
    for (seed, kind) in [(1, PORT_RESTRICTED), (2, SYMMETRIC)] {
        let mut world = world([kind; 2], [usual_link(), usual_link()], seed, MEET);
        world.forger = Some(garbage::Forger::new(seed));
        world.run_for(seconds(10));
        let (pictures, sound) = world.max_recovery(Timestamp::ZERO + seconds(5));
        assert!(pictures < seconds(1) && sound < seconds(1), "{pictures:?} {sound:?}");
    }
}
