//! Video format of the sender's hello.

use lockstep_media::VideoFormat;

/// The hello's format for video of `format`. Sides above 65,535 samples, which no codec here supports, are clipped to
/// that.
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
