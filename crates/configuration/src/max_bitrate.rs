//! Maximum long-term bit rate of a call.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use lockstep_control::CeilingConfig;
use lockstep_media::VideoFormat;
use lockstep_units::Bitrate;
use lockstep_units::quantity::parse_rate;

/// Maximum long-term bit rate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MaxBitrate {
    /// Rate beyond which pictures of the source's size and rate hardly improve ([`CeilingConfig::rate`]).
    #[default]
    Auto,
    /// No limit other than that of the controller.
    Unlimited,
    /// This rate.
    At(Bitrate),
}

impl MaxBitrate {
    /// Limit for pictures of `format`, if there is one.
    #[must_use]
    pub fn ceiling(self, format: &VideoFormat, config: &CeilingConfig) -> Option<Bitrate> {
        match self {
            Self::Auto => Some(config.rate(format.width, format.height, format.frame_interval())),
            Self::Unlimited => None,
            Self::At(rate) => Some(rate),
        }
    }
}

impl fmt::Display for MaxBitrate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Unlimited => formatter.write_str("none"),
            Self::At(rate) => write!(formatter, "{}bps", rate.as_bps()),
        }
    }
}

impl FromStr for MaxBitrate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::Unlimited),
            _ => match parse_rate(text) {
                Ok(rate) if rate > Bitrate::ZERO => Ok(Self::At(rate)),
                _ => Err(format!("`{text}` is not a bit rate such as 5mbps, auto or none")),
            },
        }
    }
}

impl TryFrom<String> for MaxBitrate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MaxBitrate> for String {
    fn from(limit: MaxBitrate) -> Self {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_invalid_text_is_refused() {
        for text in ["auto", "none", "5000000bps"] {
            assert_eq!(text.parse::<MaxBitrate>().map(|limit| limit.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "0mbps", "fast", "-1mbps"] {
            assert!(text.parse::<MaxBitrate>().unwrap_err().contains("such as 5mbps"), "{text}");
        }
    }
}
