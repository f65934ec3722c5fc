//! A custom codec between two peers in virtual time: it sends every eighth sample.
use lockstep::codec::{CodecId, EncodeRequest, EncodedPicture, PictureDecoder, PictureEncoder, Recovery, StateId};
use lockstep::{Input, Output, Peer, PeerConfig, Picture, ReceiveOptions, SendOptions, Timestamp, VideoFormat};

/// A codec with key frames only, so there are no states to hold.
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

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addresses = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()];
    let (identity, codec, start) = (lockstep::Identity::new()?, CodecId(200), Timestamp::ZERO);
    let ticket = Peer::ticket(&identity, &addresses[1..], &[]);
    let sending = PeerConfig::sending(SendOptions::new(VideoFormat::new(64, 48)).external_end(codec, Coarse)?);
    let receiving = PeerConfig::receiving(ReceiveOptions::default().external_end(codec, Coarse));
    let mut peers = [Peer::join(ticket, sending, start)?, Peer::listen(&identity, &[], receiving, start)?];
    for step in 0..4_000u64 {
        let now = Timestamp::from_millis(step);
        if step % 33 == 0 {
            peers[0].send_frame(now, 0, now, Picture::from_i420(64, 48, vec![step as u8; 64 * 48 * 3 / 2])?);
        }
        for (end, from) in addresses.into_iter().enumerate() {
            peers[end].handle_input(now, Input::Timeout);
            loop {
                match peers[end].poll_output(now) {
                    Output::Transmit { bytes, .. } => {
                        peers[1 - end].handle_input(now, Input::Datagram { from, bytes: &bytes });
                    }
                    Output::Timeout(_) => break,
                    _ => {}
                }
            }
        }
    }
    let decoded = peers[1].receiving_end(0).map(|end| end.counts().decoded);
    if decoded < Some(90) { Err("too few frames".into()) } else { Ok(()) }
}
