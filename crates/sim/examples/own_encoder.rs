//! An application's own codec in a simulated call: it sends every eighth sample.
use std::{error::Error, time::Duration};

use lockstep_call::{EncodeRequest, EncodedPicture, ExternalEncoder, PictureDecoder, PictureEncoder};
use lockstep_call::{ReceivingEnd, SendingEnd, Tuning, announced};
use lockstep_control::{Algorithm, Setting};
use lockstep_link::{Link, LinkConfig, Trace};
use lockstep_media::{SourceOptions, open_source};
use lockstep_sim::{EncodeTime, Simulation, SimulationOptions};
use lockstep_transport::{CodecId, ReceiverConfig, Recovery, SenderConfig, StateId};
use lockstep_units::ByteCount;
use lockstep_vp8::{Picture, Preset};

/// Every frame is a key frame, so there are no states to hold.
struct Coarse;

fn decoded(frame: &[u8]) -> Option<(StateId, Picture)> {
    let picture = Picture::from_i420(64, 48, frame.iter().flat_map(|&sample| [sample; 8]).collect()).ok()?;
    Some((StateId(picture.hash().max(1)), picture))
}

impl PictureEncoder for Coarse {
    fn recovery(&self) -> Recovery {
        Recovery::FromHeldState
    }
    fn encode(&mut self, request: &EncodeRequest<'_>) -> Vec<EncodedPicture> {
        let bytes: Vec<u8> = request.picture.to_i420().into_iter().step_by(8).collect();
        let Some((target, picture)) = decoded(&bytes) else { return Vec::new() };
        vec![EncodedPicture { bytes, target, key_frame: true, quantizer: 64, reconstruction: Some(picture) }]
    }
    fn forget(&mut self, _: StateId) {}
}

impl PictureDecoder for Coarse {
    fn decode(&mut self, _: StateId, frame: &[u8], pixel_limit: usize) -> Option<(StateId, Picture)> {
        decoded(frame).filter(|_| 64 * 48 <= pixel_limit)
    }
    fn forget(&mut self, _: StateId) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let source = open_source("generated:64x48@30", &SourceOptions::default())?;
    let config = SenderConfig::new(1, announced(&source.format()));
    let setting = Setting::new(ByteCount::new(config.payload as u64), source.format().frame_interval());
    let (codec, algorithm) = (CodecId(200), Algorithm::Copa);
    let encoder = Box::new(ExternalEncoder::new(codec, Coarse));
    let sender = SendingEnd::new(config, algorithm.controller(&setting)?, encoder, &Tuning::default());
    let receiver = ReceivingEnd::new(ReceiverConfig::default(), algorithm.estimator(setting.bounds));
    let link = Link::new(LinkConfig::new(Trace::from_spec("constant:2mbps")?), 1)?;
    let job_times = EncodeTime::built_in()?.job_times(Preset::RealTime, 64 * 48);
    let options = SimulationOptions { length: Duration::from_secs(10), job_times, decode_time: Duration::ZERO };
    let receiver = receiver.decoding_with(codec, Coarse);
    let result = Simulation::new(sender, receiver, source, link.clone(), link, &options).run(|_, _| Ok(()))?;
    println!("{:?}", result.receiver.counts());
    Ok(())
}
