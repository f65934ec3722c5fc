//! Calls with an application's own codec, that of the example `own_encoder`.

#[allow(dead_code)]
#[path = "../examples/own_encoder.rs"]
mod own_encoder;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lockstep_call::{EncodeRequest, EncodedPicture, PictureDecoder, PictureEncoder, ReceivingEnd};
use lockstep_control::{GracePeriod, InterArrival};
use lockstep_transport::{CodecId, Datagram, Hello, ReceiverConfig, Recovery, StateId, VideoFormat};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use own_encoder::{Runs, call};

/// What the two halves of the codec did.
#[derive(Default)]
struct Observed {
    reconstructions: BTreeMap<StateId, Picture>,
    key_frames: u32,
    decoded: Vec<(StateId, Picture)>,
    encoder_states: BTreeSet<StateId>,
    decoder_states: BTreeSet<StateId>,
    most_states: [usize; 2],
}

/// A half of the codec that is observed, or has a fault.
struct Half {
    codec: Runs,
    observed: Arc<Mutex<Observed>>,
    recovery: Recovery,
    misnames: bool,
    enlarges: bool,
}

impl Half {
    fn of(observed: &Arc<Mutex<Observed>>) -> Self {
        let (codec, recovery) = (Runs::default(), Recovery::FromHeldState);
        Self { codec, observed: observed.clone(), recovery, misnames: false, enlarges: false }
    }
}

impl PictureEncoder for Half {
    fn codec(&self) -> CodecId {
        PictureEncoder::codec(&self.codec)
    }

    fn recovery(&self) -> Recovery {
        self.recovery
    }

    fn encode(&mut self, request: &EncodeRequest<'_>) -> Vec<EncodedPicture> {
        let frames = self.codec.encode(request);
        let mut observed = self.observed.lock().expect("no thread panicked");
        for frame in &frames {
            let reconstruction = frame.reconstruction.clone().expect("the codec gives it");
            observed.reconstructions.insert(frame.target, reconstruction);
            observed.key_frames += u32::from(frame.key_frame);
            observed.encoder_states.insert(frame.target);
        }
        observed.most_states[0] = observed.most_states[0].max(observed.encoder_states.len());
        frames
    }

    fn forget(&mut self, state: StateId) {
        PictureEncoder::forget(&mut self.codec, state);
        self.observed.lock().expect("no thread panicked").encoder_states.remove(&state);
    }
}

impl PictureDecoder for Half {
    fn codec(&self) -> CodecId {
        PictureDecoder::codec(&self.codec)
    }

    fn decode(&mut self, source: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        let (name, picture) = self.codec.decode(source, frame, pixel_limit)?;
        let mut observed = self.observed.lock().expect("no thread panicked");
        observed.decoded.push((name, picture.clone()));
        observed.decoder_states.insert(name);
        observed.most_states[1] = observed.most_states[1].max(observed.decoder_states.len());
        let large = || Picture::from_i420(640, 480, vec![0; 640 * 480 * 3 / 2]).expect("the size fits");
        let name = if self.misnames { StateId(name.0 ^ 1 << 63) } else { name };
        Some((name, if self.enlarges { large() } else { picture }))
    }

    fn forget(&mut self, state: StateId) {
        PictureDecoder::forget(&mut self.codec, state);
        self.observed.lock().expect("no thread panicked").decoder_states.remove(&state);
    }
}

#[test]
fn pictures_shown_equal_the_reconstructions_under_loss() {
    for recovery in [Recovery::FromHeldState, Recovery::Retransmit] {
        let observed = Arc::default();
        let encoder = Half { recovery, ..Half::of(&observed) };
        let result = call(encoder, Half::of(&observed), 0.05).expect("the call runs");
        let counts = result.receiver.counts();
        assert!(counts.decoded >= 200, "{recovery:?}: {counts:?}");
        assert_eq!((counts.mismatched, counts.undecodable), (0, 0), "{recovery:?}");
        let observed = observed.lock().expect("no thread panicked");
        for (name, picture) in &observed.decoded {
            assert_eq!(observed.reconstructions.get(name), Some(picture), "{recovery:?}");
        }
        assert!(observed.key_frames <= 20, "{recovery:?}: {} key frames", observed.key_frames);
        assert!(result.scores.psnr_db.is_some(), "{recovery:?}: pictures were shown and measured");
    }
}

#[test]
fn states_are_forgotten_at_both_ends_of_a_long_call() {
    let observed = Arc::default();
    call(Half::of(&observed), Half::of(&observed), 0.05).expect("the call runs");
    let most = observed.lock().expect("no thread panicked").most_states;
    assert!(most.iter().all(|states| (2..=40).contains(states)), "most states held: {most:?}");
}

#[test]
fn a_frame_that_leads_to_another_state_is_mismatched() {
    let observed = Arc::default();
    let decoder = Half { misnames: true, ..Half::of(&observed) };
    let result = call(Half::of(&observed), decoder, 0.0).expect("the call runs");
    let counts = result.receiver.counts();
    assert!(counts.mismatched > 0 && counts.decoded == 0, "{counts:?}");
}

#[test]
fn a_picture_larger_than_announced_is_not_shown() {
    let observed = Arc::default();
    let decoder = Half { enlarges: true, ..Half::of(&observed) };
    let result = call(Half::of(&observed), decoder, 0.0).expect("the call runs");
    let counts = result.receiver.counts();
    assert!(counts.undecodable > 0 && counts.decoded == 0, "{counts:?}");
}

#[test]
fn a_receiver_without_the_senders_codec_does_not_answer() {
    let format = VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    for (codec, refused) in [(CodecId::VP8, None), (CodecId(200), Some(CodecId(200)))] {
        let mut receiver: ReceivingEnd =
            ReceivingEnd::new(ReceiverConfig::default(), Box::new(InterArrival::new(GracePeriod::LinkIdle)));
        let hello = Datagram::Hello(Hello { connection: 1, format, estimator: 0, codec });
        receiver.handle_datagram(Timestamp::ZERO, Ok(hello), false);
        assert_eq!(receiver.refused_codec(), refused);
        assert_eq!(receiver.poll_transmit(Timestamp::ZERO).is_none(), refused.is_some());
    }
}
