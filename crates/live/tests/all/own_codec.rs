//! Live calls with an application's own codec.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use lockstep_call::{
    EncodeRequest, EncodedPicture, External, ExternalEncoder, FrameRecord, Outcome, PictureCodec, PictureDecoder,
    PictureEncoder, ReceivingEnd, SendingEnd, SerialMenu, Tuning, announced,
};
use lockstep_control::{Algorithm, ControllerSetup, EstimatorKind, RateBounds};
use lockstep_live::{
    CallEvent, CallKind, CallObserver, CallOptions, Ended, Finished, LiveError, OpenSink, Receiving, RemoteEnd, Sending,
};
use lockstep_socket::Clock;
use lockstep_transport::{CodecId, ReceiverConfig, Recovery, SenderConfig, StateId};
use lockstep_units::ByteCount;
use lockstep_vp8::Picture;

use crate::calls::{self, LIMIT, counting, listener, listening_with, pictures, receiving_end, sink};

const CODEC: CodecId = CodecId(201);
/// One of this many samples is kept in each frame.
const KEPT: usize = 8;

/// Codec that keeps one sample of eight, and repeats it eight times.
struct Coarse;

fn shown(samples: &[u8], length: usize) -> Option<Picture> {
    let samples = samples.iter().flat_map(|&sample| [sample; KEPT]).take(length).collect();
    Picture::from_i420(64, 48, samples).ok()
}

fn name(picture: &Picture) -> StateId {
    StateId(picture.hash().max(1))
}

impl PictureEncoder for Coarse {
    fn recovery(&self) -> Recovery {
        Recovery::FromHeldState
    }

    fn encode(&mut self, request: &EncodeRequest<'_>) -> Vec<EncodedPicture> {
        let samples = request.picture.to_i420();
        let bytes: Vec<u8> = samples.iter().step_by(KEPT).copied().collect();
        let Some(picture) = shown(&bytes, samples.len()) else { return Vec::new() };
        let target = name(&picture);
        vec![EncodedPicture { bytes, target, key_frame: true, quantizer: 64, reconstruction: Some(picture) }]
    }

    fn forget(&mut self, _: StateId) {}
}

impl PictureDecoder for Coarse {
    fn decode(&mut self, _: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        let picture = shown(frame, 64 * 48 * 3 / 2).filter(|_| pixel_limit >= 64 * 48)?;
        Some((name(&picture), picture))
    }

    fn forget(&mut self, _: StateId) {}
}

fn sending() -> Sending<External> {
    let source = pictures(12);
    let config = SenderConfig { estimator: 1, ..SenderConfig::new(7, announced(&source.format())) };
    let setup = ControllerSetup::new(ByteCount::new(config.payload as u64), Duration::from_millis(33));
    let algorithm: Algorithm = "salsify".parse().expect("there is one");
    let controller = algorithm.controller(&setup).expect("it needs no path");
    let encoder = Box::new(ExternalEncoder::new(CODEC, Coarse));
    let end = SendingEnd::new(config, controller, encoder, &Tuning::default());
    Sending {
        end,
        name: Default::default(),
        source: source.into(),
        runner: Box::new(SerialMenu),
        microphone: None,
        measures_quality: true,
    }
}

fn options<C: PictureCodec>(
    peer: RemoteEnd,
    sending: Option<Sending<C>>,
    receiving: Option<Receiving<C>>,
) -> CallOptions<C> {
    CallOptions {
        peer,
        kind: CallKind::OneWay,
        sending: sending.into_iter().collect(),
        receiving: receiving.into_iter().collect(),
        length: Some(LIMIT),
        wait_limit: Some(LIMIT),
        starts_at_once: false,
        idle_limit: Some(LIMIT),
        stop: Box::new(|| false),
        freshness: Default::default(),
        handle: Default::default(),
        qlog: None,
    }
}

#[derive(Default)]
struct Log(Vec<FrameRecord>);

impl CallObserver<External> for Log {
    fn event(&mut self, _: CallEvent) {}

    fn captured(&mut self, _: usize, record: FrameRecord) {
        self.0.push(record);
    }
}

fn run(options: CallOptions<External>) -> (Finished<External>, Vec<FrameRecord>) {
    let mut log = Log::default();
    let finished = lockstep_live::run(Clock::start(), options, &mut log);
    (finished, log.0)
}

#[test]
fn live_call_carries_the_codec_of_an_application() {
    let (listener, ticket) = listener();
    let count = Arc::<AtomicUsize>::default();
    let open_sink: OpenSink = counting(&count);
    let receiver = thread::spawn(move || {
        let end = ReceivingEnd::with_estimators(ReceiverConfig::default(), |number| {
            Some(EstimatorKind::from_number(number)?.make(RateBounds::default()))
        });
        let receiving = Receiving { end: end.decoding_with(CODEC, Coarse), open_sink, loudspeaker: None };
        run(options(RemoteEnd::At(listener), None, Some(receiving))).0
    });
    let (sender, records) = run(options(RemoteEnd::Of(ticket), Some(sending()), None));
    let receiver = receiver.join().expect("it does not panic");
    assert_eq!((sender.result.ok(), receiver.result.ok()), (Some(Ended::Done), Some(Ended::ByPeer)));
    let counts = receiver.receiving[0].counts();
    let sent = records.iter().filter(|record| record.outcome == Outcome::Sent);
    assert!(sent.clone().count() >= 6 && sent.clone().count() as u64 == counts.decoded, "{counts:?}");
    assert!(sent.clone().all(|record| record.psnr_db.is_some()), "the reconstructions were measured");
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed) as u64, counts.decoded);
}

#[test]
fn receiver_without_the_codec_refuses_the_call() {
    let listener = listening_with(receiving_end, sink(calls::discard));
    let (sender, _) = run(options(RemoteEnd::Of(listener.ticket()), Some(sending()), None));
    assert!(matches!(sender.result, Err(LiveError::Refused)), "{:?}", sender.result);
    let error = listener.join().0.result.expect_err("it has no such decoder");
    assert!(matches!(error, LiveError::UnknownCodec { number: 201 }), "{error}");
}
