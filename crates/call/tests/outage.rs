//! Tests of the receiving end with several frames that arrive at once, as after an outage.

use lockstep_call::{ReceivingEnd, Vp8};
use lockstep_control::{GracePeriod, InterArrival};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, ReceiverConfig, StateId};
use lockstep_units::Timestamp;
use lockstep_vp8::{Analysis, FrameKind, Parameters, Picture, State};

const SIZE: usize = 32;

/// Sending side: codes frames of one fragment with consecutive numbers.
struct Frames {
    next: u32,
}

impl Frames {
    /// Codes a picture of one shade from `source`. Returns the frame as a datagram, and its target state.
    fn code(&mut self, source: &State, shade: u8) -> (Data, State) {
        let picture = Picture::from_i420(SIZE, SIZE, vec![shade; SIZE * SIZE * 3 / 2])
            .expect("the number of samples matches the size");
        let parameters = Parameters { frame_kind: FrameKind::Inter, ..Parameters::default() };
        let coded = Analysis::new(source, &picture, &parameters).encode(40);
        let frame = self.next;
        self.next += 1;
        let captured = Timestamp::from_millis(33 * u64::from(frame));
        let data = Data {
            connection: 1,
            sequence: frame,
            frame,
            fragment: 0,
            fragments: 1,
            parity: None,
            source: if coded.key_frame { StateId::EMPTY } else { StateId(source.id()) },
            target: StateId(coded.state.id()),
            sent_at: captured,
            captured,
            idle: 0,
            keep_from: 0,
            feedback_doublings: 0,
            anchor: 0,
            key_frame: coded.key_frame,
            payload: coded.frame,
        };
        (data, coded.state)
    }
}

struct Receiving {
    end: ReceivingEnd<Vp8>,
    now: u64,
}

impl Receiving {
    fn new() -> Self {
        let config = ReceiverConfig { connection: Some(1), ..ReceiverConfig::default() };
        Self { end: ReceivingEnd::new(config, Box::new(InterArrival::new(GracePeriod::LinkIdle))), now: 0 }
    }

    fn receive(&mut self, data: Data) {
        let now = Timestamp::from_millis(self.now);
        assert!(self.end.handle_datagram(now, Ok(Datagram::Data(data)), false));
    }

    /// Decodes all waiting frames in 3 ms each. Returns the numbers of the shown frames.
    fn shown(&mut self) -> Vec<u32> {
        let mut shown = Vec::new();
        while let Some(job) = self.end.poll_decode() {
            let outcome = job.run();
            self.now += 3;
            self.end.decoded(Timestamp::from_millis(self.now), outcome);
            shown.extend(self.end.poll_display().map(|display| display.frame));
        }
        shown
    }
}

/// A sender, a receiver that has shown a first frame, and the state that both hold.
fn begun() -> (Frames, Receiving, State) {
    let (mut frames, mut receiving) = (Frames { next: 0 }, Receiving::new());
    let (key, held) = frames.code(&State::default(), 60);
    receiving.receive(key);
    assert_eq!(receiving.shown(), [0]);
    (frames, receiving, held)
}

#[test]
fn only_the_newest_of_simultaneous_frames_is_decoded() {
    let (mut frames, mut receiving, held) = begun();
    let mut last = held.clone();
    for shade in [70, 80, 90] {
        let (probe, state) = frames.code(&held, shade);
        receiving.receive(probe);
        last = state;
    }
    assert_eq!(receiving.shown(), [3], "the other frames would be shown only briefly");
    let (next, _) = frames.code(&last, 95);
    receiving.receive(next);
    assert_eq!(receiving.shown(), [4]);
    assert_eq!((receiving.end.counts().decoded, receiving.end.statistics().refused), (3, 2));
}

#[test]
fn older_frame_is_decoded_if_a_later_one_needs_it() {
    let (mut frames, mut receiving, held) = begun();
    let (older, needed) = frames.code(&held, 70);
    let (newer, _) = frames.code(&held, 80);
    let (last, _) = frames.code(&needed, 90);
    for data in [older, newer, last] {
        receiving.receive(data);
    }
    assert_eq!(receiving.shown(), [2, 3]);
    let counts = receiving.end.counts();
    assert_eq!((counts.decoded, counts.late, receiving.end.statistics().refused), (4, 1, 0));
}

#[test]
fn older_frame_is_shown_if_the_newest_is_damaged() {
    let (mut frames, mut receiving, held) = begun();
    let (older, _) = frames.code(&held, 70);
    let (newer, _) = frames.code(&held, 80);
    receiving.receive(older);
    receiving.receive(Data { payload: vec![0], ..newer });
    assert_eq!(receiving.shown(), [1]);
    assert_eq!(receiving.end.counts().undecodable, 1);
}
