//! States in slots, through the codec interface of a call, where libaom and dav1d are installed.

use lockstep_av1::{Av1, Av1Arena, Av1Parameters, Av1State, Decoder, DecoderLibrary, MAX_CANDIDATES, MAX_STATES};
use lockstep_call::{Candidate, Codec, FunctionalCodec};
use lockstep_transport::StateId;
use lockstep_units::random::mix;
use lockstep_vp8::{DEFAULT_PIXEL_LIMIT, Picture};

const WIDTH: usize = 96;
const HEIGHT: usize = 64;

/// A moving texture.
fn picture(time: usize) -> Picture {
    let samples = (0..Picture::i420_length(WIDTH, HEIGHT)).map(|at| {
        let (x, y) = (at % WIDTH + 2 * time, at / WIDTH);
        ((x * x / 16 + y * 5) % 200 + mix(1, (x * 1_000 + y) as u64) as usize % 8) as u8
    });
    Picture::from_i420(WIDTH, HEIGHT, samples.collect()).unwrap()
}

/// Both ends; none without the libraries.
struct Ends {
    sender: Av1Arena,
    receiver: Av1Arena,
    parameters: Av1Parameters,
}

impl Ends {
    fn new() -> Option<Self> {
        Av1::check_libraries().inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        let (sender, receiver) = (Av1Arena::default(), Av1Arena::default());
        Some(Self { sender, receiver, parameters: Av1Parameters::default() })
    }

    fn encode(&self, source: &Av1State, picture: &Picture, quantizer: u8) -> Candidate<Av1> {
        let candidate = Av1::encode(&Av1::analyse(&self.sender, source, picture, &self.parameters), quantizer);
        self.parameters.failure.check().unwrap();
        candidate
    }

    fn decode(&self, source: &Av1State, candidate: &Candidate<Av1>) -> Option<(Av1State, Picture)> {
        Av1::decode(&self.receiver, source, &candidate.frame, Av1::name(&candidate.state), DEFAULT_PIXEL_LIMIT)
    }

    /// Decodes a frame that must lead to the sender's state and picture.
    fn follow(&self, source: &Av1State, candidate: &Candidate<Av1>) -> Av1State {
        let (state, picture) = self.decode(source, candidate).expect("the frame decodes");
        assert_eq!(Av1::name(&state), Av1::name(&candidate.state));
        assert_eq!(picture.hash(), candidate.shown().unwrap().hash());
        state
    }
}

#[test]
fn thrown_away_candidates_do_not_exist_for_the_receiver() {
    let Some(ends) = Ends::new() else { return };
    let (mut sent, mut received) = (Av1State::default(), Av1State::default());
    for time in 0..40 {
        let now = picture(time);
        let candidates: Vec<_> =
            (0..MAX_CANDIDATES).map(|index| ends.encode(&sent, &now, 30 + 20 * index as u8)).collect();
        let chosen = &candidates[time % MAX_CANDIDATES];
        received = ends.follow(&received, chosen);
        sent = chosen.state.clone();
    }
}

#[test]
fn frames_continue_from_any_kept_state_and_from_nothing() {
    let Some(ends) = Ends::new() else { return };
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let mut kept = vec![(first.state.clone(), ends.follow(&Av1State::default(), &first))];
    for time in 1..60 {
        let (sent, received) = kept[mix(7, time as u64) as usize % kept.len()].clone();
        let frame = ends.encode(&sent, &picture(time), 50);
        // Half of the frames are lost.
        if mix(8, time as u64).is_multiple_of(2) {
            kept.push((frame.state.clone(), ends.follow(&received, &frame)));
            if kept.len() > MAX_STATES {
                kept.remove(0);
            }
        }
    }
    let again = ends.encode(&Av1State::default(), &picture(60), 50);
    let state = ends.follow(&Av1State::default(), &again);
    ends.follow(&state, &ends.encode(&again.state, &picture(61), 50));
    // The slots of the old states were overwritten: the frame starts from nothing too.
    let (sent, received) = kept.pop().unwrap();
    ends.follow(&received, &ends.encode(&sent, &picture(62), 50));
}

#[test]
fn frame_whose_source_the_receiver_lacks_is_refused() {
    let Some(ends) = Ends::new() else { return };
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let received = ends.follow(&Av1State::default(), &first);
    let lost = ends.encode(&first.state, &picture(1), 40);
    let later = ends.encode(&lost.state, &picture(2), 40);
    assert!(ends.decode(&received, &later).is_none());
    assert!(ends.decode(&Av1State::default(), &later).is_none());
    ends.follow(&received, &ends.encode(&first.state, &picture(3), 40));
}

#[test]
fn owner_that_decodes_the_given_units_reaches_the_same_states() {
    let Some(mut ends) = Ends::new() else { return };
    ends.receiver = Av1Arena::decoded_by_owner();
    let mut decoder = Decoder::new(&DecoderLibrary::open().unwrap(), DEFAULT_PIXEL_LIMIT).unwrap();
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let mut kept = vec![(first.state.clone(), Av1State::default(), first)];
    let (mut decoded, mut refused) = (0, 0);
    for time in 1..80 {
        let (_, source, frame) = kept.last().unwrap();
        let units = ends.receiver.units(source, &frame.frame, DEFAULT_PIXEL_LIMIT).expect("it is decodable");
        assert_eq!(units.len(), if time == 1 { 2 } else { 1 });
        let pictures: Vec<Picture> = units.iter().map(|unit| decoder.decode(unit).unwrap()).collect();
        ends.receiver.supply(pictures);
        let reached = ends.follow(source, frame);
        decoded += 1;
        // A frame is lost, and the next one is coded from it.
        let sent = frame.state.clone();
        let lost = ends.encode(&sent, &picture(time), 50);
        let later = ends.encode(&lost.state, &picture(time), 50);
        refused += usize::from(ends.receiver.units(&reached, &later.frame, DEFAULT_PIXEL_LIMIT).is_none());
        let next = ends.encode(&sent, &picture(time), 50);
        kept.push((sent, reached, next));
        kept.drain(..kept.len().saturating_sub(MAX_STATES - 1));
    }
    assert_eq!((decoded, refused), (79, 79));
    // Pictures of other units do not reach the announced state.
    let (_, source, frame) = kept.last().unwrap();
    ends.receiver.supply([picture(3)]);
    assert_ne!(ends.decode(source, frame).map(|(state, _)| Av1::name(&state)), Some(Av1::name(&frame.state)));
}

#[test]
fn late_frame_does_not_overwrite_a_slot_in_newer_use() {
    let Some(ends) = Ends::new() else { return };
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let received = ends.follow(&Av1State::default(), &first);
    let mut late = ends.encode(&first.state, &picture(1), 40);
    late.state = Av1State::default();
    // The states of these frames are dropped, so one of them writes the slot of the late frame.
    let mut newest = None;
    for time in 2..12 {
        let frame = ends.encode(&first.state, &picture(time), 40);
        newest = Some((frame.state.clone(), ends.follow(&received, &frame)));
    }
    assert!(ends.decode(&received, &late).is_none());
    let (sent, received) = newest.unwrap();
    ends.follow(&received, &ends.encode(&sent, &picture(12), 40));
}

#[test]
fn pictures_may_change_their_size() {
    let Some(ends) = Ends::new() else { return };
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let received = ends.follow(&Av1State::default(), &first);
    let small = Picture::from_i420(34, 18, vec![90; Picture::i420_length(34, 18)]).unwrap();
    let frame = ends.encode(&first.state, &small, 40);
    let state = ends.follow(&received, &frame);
    ends.follow(&state, &ends.encode(&frame.state, &small, 60));
}

#[test]
fn damaged_frames_never_lead_to_the_announced_state() {
    let Some(mut ends) = Ends::new() else { return };
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let second = ends.encode(&first.state, &picture(1), 40);
    for seed in 0..3_000 {
        ends.receiver = Av1Arena::default();
        // Either the frame with the key frame or the one after it, with a few changed or missing bytes.
        let (source, frame, target) = if seed % 2 == 0 {
            (Av1State::default(), &first.frame, Av1::name(&first.state))
        } else {
            (ends.follow(&Av1State::default(), &first), &second.frame, Av1::name(&second.state))
        };
        let mut damaged = frame.clone();
        // The number of a frame is no part of a state.
        let place = |index: u64| 4 + mix(seed, index) as usize % (frame.len() - 4);
        for index in 0..=seed % 3 {
            damaged[place(index)] ^= 1 << (mix(seed, 10 + index) % 8);
        }
        if seed % 5 == 0 {
            damaged.truncate(place(20));
        }
        if damaged == *frame {
            continue;
        }
        let decoded = Av1::decode(&ends.receiver, &source, &damaged, target, DEFAULT_PIXEL_LIMIT);
        assert!(decoded.is_none_or(|(state, _)| Av1::name(&state) != target), "seed {seed}");
    }
}

#[test]
fn pictures_beyond_the_limit_are_refused() {
    let Some(ends) = Ends::new() else { return };
    let first = ends.encode(&Av1State::default(), &picture(0), 40);
    let decode = |limit| Av1::decode(&ends.receiver, &Av1State::default(), &first.frame, StateId::EMPTY, limit);
    assert!(decode(WIDTH * HEIGHT - 1).is_none());
    assert!(decode(WIDTH * HEIGHT).is_some());
}
