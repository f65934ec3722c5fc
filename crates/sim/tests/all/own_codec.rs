//! Calls with an application's external codec.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::iter;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstep_call::{
    EncodeRequest, EncodedPicture, External, ExternalEncoder, PictureDecoder, PictureEncoder, ReceivingEnd, SendingEnd,
    Tuning, announced,
};
use lockstep_control::{Algorithm, ControllerSetup, GracePeriod, InterArrival};
use lockstep_link::{Link, LinkConfig, LossConfig, Trace};
use lockstep_media::{SourceOptions, open_source};
use lockstep_sim::{EncodeTime, Simulation, SimulationOptions, SimulationResult};
use lockstep_transport::{CodecId, Datagram, Hello, ReceiverConfig, Recovery, SenderConfig, StateId, VideoFormat};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Picture;

const CODEC: CodecId = CodecId(200);

/// Codec that run-length codes differences of coarse samples. Its states are pictures, which both halves hold by name.
#[derive(Default)]
struct Runs(HashMap<StateId, Picture>);

impl Runs {
    fn prediction(&self, source: StateId, length: usize) -> Vec<u8> {
        let held = self.0.get(&source).map(Picture::to_i420).filter(|held| held.len() == length);
        held.unwrap_or_else(|| vec![0; length])
    }

    fn hold(&mut self, picture: &Picture) -> StateId {
        let name = StateId(picture.hash().max(1));
        self.0.insert(name, picture.clone());
        name
    }
}

impl PictureEncoder for Runs {
    fn recovery(&self) -> Recovery {
        Recovery::FromHeldState
    }

    fn encode(&mut self, request: &EncodeRequest<'_>) -> Vec<EncodedPicture> {
        let EncodeRequest { picture, source, budget, .. } = *request;
        let (width, height, samples) = (picture.width(), picture.height(), picture.to_i420());
        let prediction = self.prediction(source, samples.len());
        let code = |shift: u8| {
            let coarse: Vec<u8> = samples.iter().map(|sample| sample >> shift << shift).collect();
            let differences: Vec<u8> =
                coarse.iter().zip(&prediction).map(|(new, old)| new.wrapping_sub(*old)).collect();
            let mut bytes = [width as u16, height as u16].map(u16::to_be_bytes).concat();
            let runs = differences.chunk_by(|one, next| one == next).flat_map(|run| run.chunks(255));
            runs.for_each(|run| bytes.extend([run.len() as u8, run[0]]));
            (shift, coarse, bytes)
        };
        let fits = (0..7).map(code).find(|(_, _, bytes)| bytes.len() as u64 <= budget.get());
        let (shift, coarse, bytes) = fits.unwrap_or_else(|| code(7));
        let Ok(reconstruction) = Picture::from_i420(width, height, coarse) else { return Vec::new() };
        let (target, key_frame) = (self.hold(&reconstruction), source == StateId::EMPTY);
        vec![EncodedPicture { bytes, target, key_frame, quantizer: 18 * shift, reconstruction: Some(reconstruction) }]
    }

    fn forget(&mut self, state: StateId) {
        self.0.remove(&state);
    }
}

impl PictureDecoder for Runs {
    fn decode(&mut self, source: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        let (&[w0, w1, h0, h1], runs) = frame.split_first_chunk()?;
        let [width, height] = [[w0, w1], [h0, h1]].map(|side| usize::from(u16::from_be_bytes(side)));
        if width * height > pixel_limit {
            return None;
        }
        let differences = runs.chunks_exact(2).flat_map(|run| iter::repeat_n(run[1], run[0].into()));
        let prediction = self.prediction(source, Picture::i420_length(width, height));
        let samples = prediction.iter().zip(differences).map(|(old, difference)| old.wrapping_add(difference));
        let picture = Picture::from_i420(width, height, samples.collect()).ok()?;
        Some((self.hold(&picture), picture))
    }

    fn forget(&mut self, state: StateId) {
        self.0.remove(&state);
    }
}

/// A call of ten seconds over 2 Mb/s with random `loss`.
fn call(
    encoder: impl PictureEncoder + 'static,
    decoder: impl PictureDecoder + 'static,
    loss: f64,
) -> Result<SimulationResult<External>, Box<dyn Error>> {
    let source = open_source("generated:64x48@30", &SourceOptions::default())?;
    let config = SenderConfig::new(1, announced(&source.format()));
    let setting = ControllerSetup::new(ByteCount::new(config.payload as u64), source.format().frame_interval());
    let algorithm: Algorithm = "salsify".parse()?;
    let encoder = Box::new(ExternalEncoder::new(CODEC, encoder));
    let sender = SendingEnd::new(config, algorithm.controller(&setting)?, encoder, &Tuning::default());
    let receiver = ReceivingEnd::new(ReceiverConfig::default(), algorithm.estimator(setting.bounds));
    let link = |loss, seed| {
        let loss = LossConfig { random: loss, ..LossConfig::default() };
        let delay = Duration::from_millis(20);
        Link::new(LinkConfig { delay, loss, ..LinkConfig::new(Trace::from_spec("constant:2mbps")?) }, seed)
            .map_err(Box::<dyn Error>::from)
    };
    let job_times = EncodeTime::built_in()?.job_times(64 * 48);
    let length = Duration::from_secs(10);
    let options = SimulationOptions { length, job_times, decode_time: Duration::from_millis(2) };
    let simulation = Simulation::new(
        sender,
        receiver.decoding_with(CODEC, decoder),
        source,
        link(loss, 1)?,
        link(0.0, 2)?,
        &options,
    );
    Ok(simulation.run(|_, _| Ok(()))?)
}

/// Observations of both halves of the codec.
#[derive(Default)]
struct Observed {
    reconstructions: BTreeMap<StateId, Picture>,
    key_frames: u32,
    decoded: Vec<(StateId, Picture)>,
    encoder_states: BTreeSet<StateId>,
    decoder_states: BTreeSet<StateId>,
    max_states: [usize; 2],
}

/// One half of the codec with observation, and optionally a fault.
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
    fn recovery(&self) -> Recovery {
        self.recovery
    }

    fn encode(&mut self, request: &EncodeRequest<'_>) -> Vec<EncodedPicture> {
        let frames = self.codec.encode(request);
        let mut observed = self.observed.lock().expect("no thread panicked");
        for frame in &frames {
            let reconstruction = frame.reconstruction.clone().expect("the codec returns it");
            observed.reconstructions.insert(frame.target, reconstruction);
            observed.key_frames += u32::from(frame.key_frame);
            observed.encoder_states.insert(frame.target);
        }
        observed.max_states[0] = observed.max_states[0].max(observed.encoder_states.len());
        frames
    }

    fn forget(&mut self, state: StateId) {
        PictureEncoder::forget(&mut self.codec, state);
        self.observed.lock().expect("no thread panicked").encoder_states.remove(&state);
    }
}

impl PictureDecoder for Half {
    fn decode(&mut self, source: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        let (name, picture) = self.codec.decode(source, frame, pixel_limit)?;
        let mut observed = self.observed.lock().expect("no thread panicked");
        observed.decoded.push((name, picture.clone()));
        observed.decoder_states.insert(name);
        observed.max_states[1] = observed.max_states[1].max(observed.decoder_states.len());
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
fn shown_pictures_equal_the_reconstructions_under_loss() {
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
        assert!(result.scores.psnr_db.is_some(), "{recovery:?}: PSNR was measured");
    }
}

#[test]
fn both_ends_forget_states_in_a_long_call() {
    let observed = Arc::default();
    call(Half::of(&observed), Half::of(&observed), 0.05).expect("the call runs");
    let most = observed.lock().expect("no thread panicked").max_states;
    assert!(most.iter().all(|states| (2..=40).contains(states)), "most states held: {most:?}");
}

#[test]
fn a_frame_with_another_target_state_is_mismatched() {
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
