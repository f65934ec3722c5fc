//! The video's format as the sender's hello has it.

use lockstep_media::VideoFormat;

/// What a sender announces of video of this format. Sides of more than 65,535 samples, which no codec here has, are
/// said to be as long as that.
#[must_use]
pub fn announced(format: &VideoFormat) -> lockstep_transport::VideoFormat {
    let side = |samples: usize| u16::try_from(samples).unwrap_or(u16::MAX);
    lockstep_transport::VideoFormat {
        width: side(format.width),
        height: side(format.height),
        frame_rate_numerator: format.frame_rate.numerator(),
        frame_rate_denominator: format.frame_rate.denominator(),
    }
}
