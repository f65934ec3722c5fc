//! The receiving end alone, to which several frames have come at once, as after an outage of the path.

use lockstep_call::{ReceivingEnd, Vp8};
use lockstep_control::{GracePeriod, InterArrival};
use lockstep_transport::wire::Data;
use lockstep_transport::{Datagram, ReceiverConfig, StateId};
use lockstep_units::Timestamp;
use lockstep_vp8::{Analysis, FrameKind, Parameters, Picture, State};

const SIZE: usize = 32;

/// A sender's side of it: what it codes goes in frames of one fragment, numbered in turn.
struct Frames {
    next: u32,
}

impl Frames {
    /// A picture of one shade, coded from `source`; gives the frame as a datagram and the state that it leads to.
    fn code(&mut self, source: &State, shade: u8) -> (Data, State) {
        let picture = Picture::from_i420(SIZE, SIZE, vec![shade; SIZE * SIZE * 3 / 2]).expect("so many samples");
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
            source: if coded.key_frame { StateId::EMPTY } else { StateId(source.hash()) },
            target: StateId(coded.state.hash()),
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

    fn come(&mut self, data: Data) {
        let now = Timestamp::from_millis(self.now);
        assert!(self.end.handle_datagram(now, Ok(Datagram::Data(data)), false));
    }

    /// Decodes all that is to be decoded, 3 ms each; gives the numbers of the frames that are shown.
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

/// A sender and a receiver that has shown a first frame, and the state that both hold.
fn begun() -> (Frames, Receiving, State) {
    let (mut frames, mut receiving) = (Frames { next: 0 }, Receiving::new());
    let (key, held) = frames.code(&State::default(), 60);
    receiving.come(key);
    assert_eq!(receiving.shown(), [0]);
    (frames, receiving, held)
}

#[test]
fn of_frames_that_came_at_once_from_one_state_only_the_newest_is_decoded() {
    let (mut frames, mut receiving, held) = begun();
    let mut last = held.clone();
    for shade in [70, 80, 90] {
        let (probe, state) = frames.code(&held, shade);
        receiving.come(probe);
        last = state;
    }
    assert_eq!(receiving.shown(), [3], "the others would each be seen for as long as the next takes to decode");
    let (next, _) = frames.code(&last, 95);
    receiving.come(next);
    assert_eq!(receiving.shown(), [4]);
    assert_eq!((receiving.end.counts().decoded, receiving.end.statistics().refused), (3, 2));
}

#[test]
fn an_older_frame_is_decoded_after_the_newest_where_one_that_is_to_come_needs_it() {
    let (mut frames, mut receiving, held) = begun();
    let (older, needed) = frames.code(&held, 70);
    let (newer, _) = frames.code(&held, 80);
    let (last, _) = frames.code(&needed, 90);
    for data in [older, newer, last] {
        receiving.come(data);
    }
    assert_eq!(receiving.shown(), [2, 3]);
    let counts = receiving.end.counts();
    assert_eq!((counts.decoded, counts.late, receiving.end.statistics().refused), (4, 1, 0));
}

#[test]
fn an_older_frame_is_shown_where_the_newest_is_damaged() {
    let (mut frames, mut receiving, held) = begun();
    let (older, _) = frames.code(&held, 70);
    let (newer, _) = frames.code(&held, 80);
    receiving.come(older);
    receiving.come(Data { payload: vec![0], ..newer });
    assert_eq!(receiving.shown(), [1]);
    assert_eq!(receiving.end.counts().undecodable, 1);
}
