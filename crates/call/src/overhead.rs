//! What of the bytes sent are frames, and what headers and copies: a codec that is given a bit rate must leave room for
//! those.

use lockstep_units::{Bitrate, ByteCount};

/// Weight of a fragment in the averages: the last hundred or so count, about a second of video.
const WEIGHT: f64 = 0.01;
/// Frames have at least this share of the target, however much is sent again (WebRTC's `FecControllerDefault`,
/// `kProtectionOverheadRateThreshold`).
const LEAST_SHARE: f64 = 0.5;

/// A running share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Overhead {
    all: f64,
    frames: f64,
}

impl Overhead {
    /// A datagram of `size` left, in which `payload` bytes of a frame were sent for the first time.
    pub(crate) fn on_transmit(&mut self, size: ByteCount, payload: ByteCount) {
        self.all += WEIGHT * (size.as_f64() - self.all);
        self.frames += WEIGHT * (payload.as_f64() - self.frames);
    }

    /// What frames may have of `target`.
    pub(crate) fn less(&self, target: Bitrate) -> Bitrate {
        if self.all > 0.0 { target.mul_f64((self.frames / self.all).max(LEAST_SHARE)) } else { target }
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
    fn frames_get_what_headers_and_copies_leave() {
        assert!((share(|_| (1_000, 900)) - 0.9).abs() < 1e-3);
        let fifth = share(|index| (1_000, if index % 5 == 0 { 0 } else { 900 }));
        assert!((fifth - 0.72).abs() < 0.02, "{fifth}");
        assert!((share(|_| (1_000, 0)) - LEAST_SHARE).abs() < 1e-9);
    }
}
