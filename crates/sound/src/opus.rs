//! Encodes and decodes Opus (RFC 6716) with libopus.

use lockstep_units::Bitrate;

use crate::coding::{CodingError, has_redundancy};
use crate::player::Decode;
use crate::{FRAME_SAMPLES, Frame, SAMPLE_RATE};

/// Largest packet, bytes: 20 ms at the highest bit rate of Opus (RFC 6716, section 3.2).
const MAX_PACKET_BYTES: usize = 1_275;
/// The encoder marks silence with packets of at most this many bytes. They need not be sent (RFC 7587, section 3.1.3).
const SILENT_PACKET: usize = 2;

/// Bit rate of a recording. It is transparent for one channel of speech and music, although the sound is coded twice.
const RECORDING_BITRATE: Bitrate = Bitrate::from_kbps(64);

/// Opus encoder for speech, with in-band forward error correction and DTX. It makes no packets in silence.
#[derive(Debug)]
pub struct SoundEncoder {
    encoder: opus::Encoder,
    /// Whether silent frames have packets, too.
    codes_silence: bool,
}

impl SoundEncoder {
    /// # Errors
    /// If Opus has no memory.
    pub fn new(bitrate: Bitrate) -> Result<Self, CodingError> {
        let mut encoder = opus::Encoder::new(SAMPLE_RATE, opus::Channels::Mono, opus::Application::Voip)?;
        encoder.set_inband_fec(true)?;
        encoder.set_dtx(true)?;
        let mut encoder = Self { encoder, codes_silence: false };
        encoder.set_bitrate(bitrate)?;
        Ok(encoder)
    }

    /// An encoder for a recording. Every frame has a packet, and there is no redundancy. It delays sound by
    /// [`LOOK_AHEAD`](crate::LOOK_AHEAD).
    ///
    /// # Errors
    /// If Opus has no memory.
    pub fn for_recording() -> Result<Self, CodingError> {
        let encoder = opus::Encoder::new(SAMPLE_RATE, opus::Channels::Mono, opus::Application::Audio)?;
        let mut encoder = Self { encoder, codes_silence: true };
        encoder.set_bitrate(RECORDING_BITRATE)?;
        Ok(encoder)
    }

    /// Sets the bit rate from the next frame on, without packet headers. It is clamped to 6 to 510 kb/s.
    ///
    /// # Errors
    /// If Opus refuses the bit rate.
    pub fn set_bitrate(&mut self, bitrate: Bitrate) -> Result<(), CodingError> {
        let bits = i32::try_from(bitrate.as_bps()).unwrap_or(i32::MAX);
        Ok(self.encoder.set_bitrate(opus::Bitrate::Bits(bits.clamp(6_000, 510_000)))?)
    }

    /// Sets the expected share of lost packets, 0 to 1. A higher loss makes Opus spend more on the redundant copy.
    ///
    /// # Errors
    /// If Opus refuses the value.
    pub fn set_loss(&mut self, share: f64) -> Result<(), CodingError> {
        Ok(self.encoder.set_packet_loss_perc((share.clamp(0.0, 1.0) * 100.0).round() as i32)?)
    }

    /// Encodes a frame. Returns no packet if the frame is silent and need not be sent.
    ///
    /// # Errors
    /// If Opus cannot encode the frame.
    pub fn encode(&mut self, frame: &Frame) -> Result<Option<Vec<u8>>, CodingError> {
        let packet = self.encoder.encode_vec(frame, MAX_PACKET_BYTES)?;
        Ok((self.codes_silence || packet.len() > SILENT_PACKET).then_some(packet))
    }
}

/// Opus decoder with concealment of lost packets.
#[derive(Debug)]
pub struct SoundDecoder {
    decoder: opus::Decoder,
}

impl SoundDecoder {
    /// # Errors
    /// If Opus has no memory.
    pub fn new() -> Result<Self, CodingError> {
        Ok(Self { decoder: opus::Decoder::new(SAMPLE_RATE, opus::Channels::Mono)? })
    }

    /// Decodes a packet.
    ///
    /// # Errors
    /// If the packet is damaged or does not last 20 ms. [`Self::conceal`] then makes a replacement.
    pub fn decode(&mut self, packet: &[u8]) -> Result<Frame, CodingError> {
        let wrong = |reason: String| CodingError::Packet { length: packet.len(), reason };
        let samples = self.decoder.get_nb_samples(packet).map_err(|error| wrong(error.to_string()))?;
        if samples != FRAME_SAMPLES {
            return Err(wrong(format!("{samples} samples")));
        }
        self.run(packet, false).map_err(|error| wrong(error.to_string()))
    }

    /// Decodes the lost frame before that of `next`. `next` has a coarse copy of it if [`has_redundancy`] is true.
    ///
    /// # Errors
    /// See [`Self::decode`].
    pub fn recover(&mut self, next: &[u8]) -> Result<Frame, CodingError> {
        self.run(next, true).map_err(|error| CodingError::Packet { length: next.len(), reason: error.to_string() })
    }

    /// Makes a frame for a lost one without a copy. It continues the last sound and fades.
    ///
    /// # Errors
    /// If Opus fails.
    pub fn conceal(&mut self) -> Result<Frame, CodingError> {
        Ok(self.run(&[], false)?)
    }

    fn run(&mut self, packet: &[u8], of_the_one_before: bool) -> Result<Frame, opus::Error> {
        let mut frame = [0; FRAME_SAMPLES];
        self.decoder.decode(packet, &mut frame, of_the_one_before)?;
        Ok(frame)
    }
}

impl Decode for SoundDecoder {
    type Payload = Vec<u8>;

    fn is_silence(payload: &Vec<u8>) -> bool {
        payload.is_empty()
    }

    fn decode(&mut self, payload: &Vec<u8>) -> Option<Frame> {
        SoundDecoder::decode(self, payload).ok()
    }

    fn recover(&mut self, next: &Vec<u8>) -> Option<Frame> {
        has_redundancy(next).then(|| SoundDecoder::recover(self, next).ok()).flatten()
    }

    fn conceal(&mut self) -> Frame {
        SoundDecoder::conceal(self).unwrap_or([0; FRAME_SAMPLES])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::{SoundSource, Tone};

    fn energy(frame: &Frame) -> f64 {
        frame.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>() / FRAME_SAMPLES as f64
    }

    fn frames(count: usize) -> Vec<Frame> {
        let mut tone = Tone::default();
        (0..count).filter_map(|_| tone.next_frame().unwrap()).collect()
    }

    #[test]
    fn coding_keeps_the_loudness_and_meets_the_bit_rate() {
        for kbps in [24, 64] {
            let mut encoder = SoundEncoder::new(Bitrate::from_kbps(kbps)).unwrap();
            let mut decoder = SoundDecoder::new().unwrap();
            let (mut before, mut after, mut bytes, mut packets) = (0.0, 0.0, 0, 0);
            for frame in frames(100) {
                let Some(packet) = encoder.encode(&frame).unwrap() else { continue };
                (bytes, packets) = (bytes + packet.len(), packets + 1);
                before += energy(&frame);
                after += energy(&decoder.decode(&packet).unwrap());
            }
            assert!((0.5..2.0).contains(&(after / before)), "{kbps} kb/s: {}", after / before);
            let rate = bytes as f64 * 8.0 / (packets as f64 * 0.02) / 1e3;
            assert!((0.6..1.3).contains(&(rate / kbps as f64)), "{rate} kb/s, expected {kbps}");
        }
    }

    #[test]
    fn most_silent_frames_have_no_packet() {
        let mut encoder = SoundEncoder::new(Bitrate::from_kbps(32)).unwrap();
        let sent = (0..250).filter(|_| encoder.encode(&[0; FRAME_SAMPLES]).unwrap().is_some()).count();
        assert!((1..60).contains(&sent), "{sent} of 250 silent frames");
    }

    #[test]
    fn under_loss_redundancy_restores_better_than_concealment() {
        let mut encoder = SoundEncoder::new(Bitrate::from_kbps(32)).unwrap();
        encoder.set_loss(0.2).unwrap();
        let frames = frames(60);
        let packets: Vec<_> = frames.iter().filter_map(|frame| encoder.encode(frame).unwrap()).collect();
        assert!(packets.iter().skip(2).filter(|packet| has_redundancy(packet)).count() * 2 > packets.len());
        // The output of a decoder without loss is the reference.
        let mut whole = SoundDecoder::new().unwrap();
        let truth: Vec<_> = packets.iter().map(|packet| whole.decode(packet).unwrap()).collect();
        let error = |frame: &Frame, truth: &Frame| {
            frame.iter().zip(truth).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>()
        };
        let (mut recovered, mut concealed) = (0.0, 0.0);
        for lost in (5..packets.len() - 1).filter(|&lost| has_redundancy(&packets[lost + 1])) {
            for (sum, recover) in [(&mut recovered, true), (&mut concealed, false)] {
                let mut decoder = SoundDecoder::new().unwrap();
                packets[..lost].iter().for_each(|packet| _ = decoder.decode(packet).unwrap());
                let frame = if recover { decoder.recover(&packets[lost + 1]) } else { decoder.conceal() };
                *sum += error(&frame.unwrap(), &truth[lost]);
            }
        }
        assert!(recovered < 0.8 * concealed, "error {recovered} recovered, {concealed} concealed");
    }

    #[test]
    fn equal_sound_gives_equal_bytes() {
        let packets = || {
            let mut encoder = SoundEncoder::new(Bitrate::from_kbps(48)).unwrap();
            frames(50).iter().map(|frame| encoder.encode(frame).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(packets(), packets());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8)) {
            let mut decoder = SoundDecoder::new().unwrap();
            for packet in &packets {
                _ = has_redundancy(packet);
                _ = decoder.recover(packet);
                _ = decoder.decode(packet);
                prop_assert!(decoder.conceal().is_ok());
            }
        }
    }
}
