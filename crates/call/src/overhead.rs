//! Overhead of frames: the share of headers and retransmissions in the sent bytes, which a codec with a bit rate must
//! leave free.

use lockstep_units::{Bitrate, ByteCount};

/// Weight of a fragment in the averages: about the last hundred count, a second of video.
const WEIGHT: f64 = 0.01;
/// Minimum share of the target for frames, at any number of retransmissions (WebRTC's `FecControllerDefault`,
/// `kProtectionOverheadRateThreshold`).
const MIN_FRAME_SHARE: f64 = 0.5;

/// Averages of all sent bytes and of new frame bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Overhead {
    all: f64,
    frames: f64,
}

impl Overhead {
    /// Adds a datagram of `size` that carries `payload` bytes of a frame for the first time.
    pub(crate) fn on_transmit(&mut self, size: ByteCount, payload: ByteCount) {
        self.all += WEIGHT * (size.as_f64() - self.all);
        self.frames += WEIGHT * (payload.as_f64() - self.frames);
    }

    /// The part of `target` for frames.
    pub(crate) fn less(&self, target: Bitrate) -> Bitrate {
        if self.all > 0.0 { target.mul_f64((self.frames / self.all).max(MIN_FRAME_SHARE)) } else { target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(of: impl Fn(u32) -> (u64, u64)) -> f64 {
        let mut overhead = Overhead::default();
        for (size, payload) in (0..1_000).map(of) {
            overhead.on_transmit(ByteCount::new(size), ByteCount::new(payload));
        }
        overhead.less(Bitrate::from_kbps(1_000)).as_bps() as f64 / 1e6
    }

    #[test]
    fn frames_get_the_target_without_overhead() {
        assert!((share(|_| (1_000, 900)) - 0.9).abs() < 1e-3);
        let fifth = share(|index| (1_000, if index % 5 == 0 { 0 } else { 900 }));
        assert!((fifth - 0.72).abs() < 0.02, "{fifth}");
        assert!((share(|_| (1_000, 0)) - MIN_FRAME_SHARE).abs() < 1e-9);
    }
}
