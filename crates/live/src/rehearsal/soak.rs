//! Hours of calls in which anything may happen at any time: links that vanish, in one direction or both, for a moment or a
//! minute; that get slow, lossy, or put datagrams out of order; ends that move to other addresses, that are stopped and go
//! on, that are killed and called anew. After each of these pictures and sound come back or the call says why it is over,
//! and nothing that is held grows.
//!
//! `LOCKSTEP_SOAK_HOURS=24 LOCKSTEP_SOAK_SEED=1 cargo test --release -p lockstep-live soak -- --ignored --nocapture`

use lockstep_link::{GilbertElliott, LossConfig, Reordering};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;

/// Something that happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// What these ends send is lost for so long.
    Cut([bool; 2], Duration),
    /// An end is at another address from now on.
    Move(usize),
    /// An end is stopped for so long.
    Stop(usize, Duration),
    /// An end is killed and started anew.
    Kill(usize),
    /// Larger datagrams than these are lost for so long.
    Narrow(usize, Duration),
    /// Only time passes.
    Nothing,
}

/// So long after what stood in their way is gone, pictures and sound are back over a good link; over others as long as it
/// takes, but no longer than the second of these.
const BACK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// What an end may hold, however long the call lasts.
const MOST_STATES: usize = 40;
const MOST_LINKS: usize = 12;

fn between(random: &mut Pcg32, least: u64, most: u64) -> Duration {
    Duration::from_millis(random.random_range(least..=most))
}

fn mishap(random: &mut Pcg32) -> Mishap {
    let end = random.random_range(0..2_usize);
    match random.random_range(0..100_u32) {
        0..20 => Mishap::Cut([true; 2], between(random, 100, 3_000)),
        20..30 => Mishap::Cut([true; 2], between(random, 3_000, 25_000)),
        30..45 => Mishap::Cut([end == 0, end == 1], between(random, 100, 20_000)),
        45..65 => Mishap::Move(end),
        65..80 => Mishap::Stop(end, between(random, 100, 10_000)),
        80..82 => Mishap::Kill(end),
        82..87 => Mishap::Narrow(1_200, between(random, 1_000, 30_000)),
        _ => Mishap::Nothing,
    }
}

/// A link as it may be, and whether it is a good one.
fn link(random: &mut Pcg32) -> (LinkConfig, bool) {
    let kbps = random.random_range(600..20_000);
    let mut link =
        LinkConfig { delay: between(random, 5, 60), ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps))) };
    let kind = random.random_range(0..6_u32);
    match kind {
        0 => link.loss = LossConfig { random: random.random_range(0.0..0.3), ..LossConfig::default() },
        1 => link.reordering = Some(Reordering { probability: 0.1, extra_delay: between(random, 1, 50) }),
        2 => link.duplication = 0.2,
        3 => {
            let burst = GilbertElliott { to_bad: 0.01, to_good: 0.3, loss_in_good: 0.0, loss_in_bad: 1.0 };
            link.loss = LossConfig { burst: Some(burst), ..LossConfig::default() };
        }
        _ => {}
    }
    (link, kind >= 4)
}

/// What came of hours of calls.
#[derive(Debug, Default)]
struct Told {
    calls: u64,
    mishaps: u64,
    ended: u64,
    longest_good: [Duration; 2],
    longest: [Duration; 2],
    most_states: usize,
    pictures: u64,
}

/// One call, until it is over or `length` has passed.
fn call(random: &mut Pcg32, length: Duration, seed: u64, told: &mut Told) {
    let [(forward, good), (reverse, good_back)] = [link(random), link(random)];
    let good = good && good_back;
    let talk = match random.random_range(0..4_u32) {
        0 => Talk::Mute,
        1 => Talk::ByTurns(seed),
        _ => Talk::Always,
    };
    let cast = Cast { pictures: "generated:16x16@10", talk, ..Cast::default() };
    let mut world = World::new(cast, [forward, reverse], seed);
    told.calls += 1;
    world.run_for(Duration::from_secs(3));
    while world.now < Timestamp::ZERO + length {
        let pause = between(random, 10, 30_000);
        world.run_for(pause);
        let mishap = mishap(random);
        told.mishaps += 1;
        let mut killed = false;
        match mishap {
            Mishap::Cut(cut, time) => {
                world.cut = cut;
                world.run_for(time);
                world.cut = [false; 2];
            }
            Mishap::Move(end) => world.rebind(end),
            Mishap::Stop(end, time) => {
                world.stop(end);
                world.run_for(time);
                world.go_on(end);
            }
            Mishap::Kill(end) => {
                world.restart(end);
                killed = true;
            }
            Mishap::Narrow(bytes, time) => {
                world.largest = bytes;
                world.run_for(time);
                world.largest = usize::MAX;
            }
            Mishap::Nothing => {}
        }
        let since = world.now;
        world.forget();
        if killed {
            // The other end was killed: this one says so, within its patience.
            world.run_for(Duration::from_secs(31));
            assert!(world.ended(JOINER).is_some(), "seed {seed}: a joiner outlived {mishap:?} {:?}", world.now);
            told.ended += 1;
            return;
        }
        world.run_for(BACK.1);
        let said = [JOINER, LISTENER].map(|end| world.ended(end));
        assert_eq!(said, [None, None], "seed {seed}: over at {since:?} after {mishap:?}");
        let (pictures, sound) = world.longest_back(since);
        let hears = talk == Talk::Always;
        let limit = if good { BACK.0 } else { BACK.1 };
        assert!(pictures <= limit, "seed {seed}, {talk:?}: pictures {pictures:?} after {mishap:?} at {since:?}");
        assert!(!hears || sound <= limit, "seed {seed}: sound {sound:?} after {mishap:?} at {since:?}");
        let longest = if good { &mut told.longest_good } else { &mut told.longest };
        longest[0] = longest[0].max(pictures);
        if hears {
            longest[1] = longest[1].max(sound);
        }
        for end in &world.ends {
            let states = end.receiving.held_states().max(end.sending.status(world.now + end.ahead).held_states);
            told.most_states = told.most_states.max(states);
            assert!(states <= MOST_STATES, "seed {seed}: {states} states are held");
            assert!(end.sending.held_records() <= 64, "seed {seed}: records pile up");
            let links = end.exchange.connection.links();
            assert!(links <= MOST_LINKS, "seed {seed}: {links} links");
            assert_eq!(end.receiving.counts().mismatched, 0, "seed {seed}: ends differ");
        }
        told.pictures += world.ends.iter().map(|end| end.shown.len() as u64).sum::<u64>();
        world.forget();
    }
}

/// Calls of up to an hour for `hours`.
fn soak(hours: f64, seed: u64) -> Told {
    let mut told = Told::default();
    let hour = Duration::from_secs(3_600);
    let mut left = hour.mul_f64(hours);
    let mut number = seed * 1_000;
    while !left.is_zero() {
        number += 1;
        let mut random = Pcg32::seed_from_u64(number);
        let length = left.min(between(&mut random, 60_000, 3_600_000));
        call(&mut random, length, number, &mut told);
        left -= length;
    }
    told
}

#[test]
fn a_quarter_of_an_hour_of_mishaps_is_survived() {
    let told = soak(0.25, 1);
    assert!(told.mishaps > 20 && told.pictures > 1_000, "{told:?}");
}

#[test]
#[ignore = "hours of virtual time; see this file's beginning"]
fn hours_of_mishaps_are_survived() {
    let number =
        |name: &str, usual: f64| std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(usual);
    let told = soak(number("LOCKSTEP_SOAK_HOURS", 24.0), number("LOCKSTEP_SOAK_SEED", 1.0) as u64);
    println!("{told:?}");
}
