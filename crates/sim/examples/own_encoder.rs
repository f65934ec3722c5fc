//! An application's own codec in a simulated call: differences of coarse samples, coded as runs.
use std::collections::HashMap;
use std::{error::Error, iter, time::Duration};

use lockstep_call::{EncodeRequest, EncodedPicture, External, ExternalEncoder, PictureDecoder, PictureEncoder};
use lockstep_call::{EncodeTime, ReceivingEnd, SendingEnd, Tuning, announced};
use lockstep_control::{Algorithm, Setting};
use lockstep_link::{Link, LinkConfig, LossConfig, Trace};
use lockstep_media::{SourceOptions, open_source};
use lockstep_sim::{Simulation, SimulationOptions, SimulationResult};
use lockstep_transport::{CodecId, ReceiverConfig, Recovery, SenderConfig, StateId};
use lockstep_units::ByteCount;
use lockstep_vp8::{Picture, Preset};

/// A state of this codec is a picture. Encoder and decoder hold them by name.
#[derive(Default)]
pub struct Runs(HashMap<StateId, Picture>);

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
    fn codec(&self) -> CodecId {
        CodecId(200)
    }

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
    fn codec(&self) -> CodecId {
        CodecId(200)
    }

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

/// A call of ten seconds over 2 Mb/s, of which a share `loss` of the datagrams is lost.
pub fn call(
    encoder: impl PictureEncoder + 'static,
    decoder: impl PictureDecoder + 'static,
    loss: f64,
) -> Result<SimulationResult<External>, Box<dyn Error>> {
    let source = open_source("generated:64x48@30", &SourceOptions::default())?;
    let config = SenderConfig::new(1, announced(&source.format()));
    let setting = Setting::new(ByteCount::new(config.payload as u64), source.format().frame_interval());
    let algorithm: Algorithm = "salsify".parse()?;
    let encoder = Box::new(ExternalEncoder::new(encoder));
    let sender = SendingEnd::new(config, algorithm.controller(&setting)?, encoder, &Tuning::default());
    let receiver = ReceivingEnd::new(ReceiverConfig::default(), algorithm.estimator(setting.bounds));
    let link = |loss, seed| {
        let loss = LossConfig { random: loss, ..LossConfig::default() };
        let delay = Duration::from_millis(20);
        Link::new(LinkConfig { delay, loss, ..LinkConfig::new(Trace::from_spec("constant:2mbps")?) }, seed)
            .map_err(Box::<dyn Error>::from)
    };
    let job_times = EncodeTime::built_in()?.job_times(Preset::RealTime, 64 * 48);
    let length = Duration::from_secs(10);
    let options = SimulationOptions { length, job_times, decode_time: Duration::from_millis(2) };
    let simulation =
        Simulation::new(sender, receiver.decoding_with(decoder), source, link(loss, 1)?, link(0.0, 2)?, &options);
    Ok(simulation.run(|_, _| Ok(()))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let result = call(Runs::default(), Runs::default(), 0.05)?;
    println!("{:?}", result.receiver.counts());
    println!("{:?}", result.scores.psnr_db);
    Ok(())
}
