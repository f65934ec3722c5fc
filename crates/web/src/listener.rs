//! Sound for the loudspeaker, decoded by the browser.

use lockstep_sound::{Decode, FRAME_SAMPLES, Frame};

/// Share of its amplitude that a repeated frame keeps; 100 ms after the last packet, 97 % is gone.
const FADING: f64 = 0.5;

/// A frame that the browser decoded; empty in silence.
pub type Sound = Vec<i16>;

/// Decoder whose packets are decoded already. It repeats and fades the last frame for a lost one.
#[derive(Debug)]
pub(crate) struct Decoded {
    last: Frame,
    gain: f64,
}

impl Default for Decoded {
    fn default() -> Self {
        Self { last: [0; FRAME_SAMPLES], gain: 0.0 }
    }
}

impl Decode for Decoded {
    type Payload = Sound;

    fn is_silence(payload: &Sound) -> bool {
        payload.is_empty()
    }

    fn decode(&mut self, payload: &Sound) -> Option<Frame> {
        self.last = payload.as_slice().try_into().ok()?;
        self.gain = 1.0;
        Some(self.last)
    }

    fn recover(&mut self, _: &Sound) -> Option<Frame> {
        None
    }

    fn conceal(&mut self) -> Frame {
        let (from, to) = (self.gain, self.gain * FADING);
        self.gain = to;
        let step = (to - from) / FRAME_SAMPLES as f64;
        std::array::from_fn(|place| (f64::from(self.last[place]) * (from + step * place as f64)) as i16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn energy(frame: &Frame) -> f64 {
        frame.iter().map(|&sample| f64::from(sample).powi(2)).sum()
    }

    #[test]
    fn lost_frames_repeat_the_last_one_and_fade() {
        let mut decoder = Decoded::default();
        assert_eq!(energy(&decoder.conceal()), 0.0);
        let whole = decoder.decode(&vec![1_000; FRAME_SAMPLES]).unwrap();
        let energies: Vec<f64> = (0..6).map(|_| energy(&decoder.conceal())).collect();
        assert!(energies[0] < energy(&whole) && energies.is_sorted_by(|one, next| one > next), "{energies:?}");
        assert!(energies[5] < 1e-3 * energy(&whole), "{energies:?}");
    }

    #[test]
    fn frame_of_another_length_is_damaged() {
        assert!(Decoded::default().decode(&vec![1; FRAME_SAMPLES - 1]).is_none());
    }
}
