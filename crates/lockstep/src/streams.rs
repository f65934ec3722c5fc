//! The video streams that one end of a call sends.

use std::fmt;
use std::time::Instant;

use lockstep_live::{CallHandle, LiveError, MOST_STREAMS, PictureSource, StreamName};
use lockstep_media::{FrameRate, Source, SourceError, VideoFormat};
use lockstep_units::Bitrate;
use lockstep_vp8::Picture;

type OpenSource = Box<dyn FnMut() -> Result<Box<dyn Source>, SourceError> + Send>;

/// The origin of a stream's pictures.
enum Pictures {
    Pushed(VideoFormat),
    Source(OpenSource),
}

/// A video stream that an end of a call sends; [`CallBuilder::stream`](crate::CallBuilder::stream) takes it.
#[must_use]
pub struct Stream {
    name: String,
    priority: f64,
    pictures: Pictures,
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stream").field("name", &self.name).field("priority", &self.priority).finish()
    }
}

impl Stream {
    fn new(name: &str, pictures: Pictures) -> Self {
        Self { name: name.to_owned(), priority: 1.0, pictures }
    }

    /// Pictures that the application gives to [`SentStream::send_frame`], of this format. The name has up to 32 letters, digits,
    /// `-` and `_`.
    pub fn frames(name: &str, format: VideoFormat) -> Self {
        Self::new(name, Pictures::Pushed(format))
    }

    /// Pictures of a source, which a thread of the call reads. `open` runs at each connection.
    pub fn source(name: &str, open: impl FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static) -> Self {
        Self::new(name, Pictures::Source(Box::new(open)))
    }

    /// Pictures of the source that `specification` names: `camera`, `/dev/video0`, `generated`, a y4m file, or anything that
    /// ffmpeg reads.
    pub fn open_source(name: &str, specification: &str) -> Self {
        let specification = specification.to_owned();
        Self::source(name, move || {
            lockstep_media::open_source(&specification, &lockstep_media::SourceOptions::default())
        })
    }

    /// The share of the call's budget, in proportion to the priorities of the other streams (RFC 8699); 1 without it.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = priority;
        self
    }

    /// The format of pictures that the application pushes.
    pub(crate) fn pushed(&self) -> Option<VideoFormat> {
        match &self.pictures {
            Pictures::Pushed(format) => Some(*format),
            Pictures::Source(_) => None,
        }
    }

    /// Opens the source.
    pub(crate) fn open(&mut self) -> Result<(PictureSource, VideoFormat), LiveError> {
        match &mut self.pictures {
            Pictures::Pushed(format) => Ok((PictureSource::Pushed, *format)),
            Pictures::Source(open) => {
                let source = open().map_err(|error| LiveError::Source(error.to_string()))?;
                let format = source.format();
                Ok((source.into(), format))
            }
        }
    }
}

/// The name of a stream and its part of the budget.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) name: StreamName,
    pub(crate) priority: f64,
}

/// The shares of streams; the only stream of a call may lack a name.
///
/// # Errors
/// If there are too many streams, two of one name, or a name or priority that is not one.
pub(crate) fn shares(streams: &[Stream]) -> Result<Vec<Share>, LiveError> {
    let failed = |reason: String| Err(LiveError::Streams(reason));
    if streams.len() > MOST_STREAMS {
        return failed(format!("expected at most {MOST_STREAMS}, got {}", streams.len()));
    }
    let mut shares = Vec::<Share>::new();
    for Stream { name, priority, .. } in streams {
        let parsed = if name.is_empty() && streams.len() == 1 {
            StreamName::default()
        } else {
            name.parse().map_err(|error: lockstep_live::StreamNameError| LiveError::Streams(error.to_string()))?
        };
        if !priority.is_finite() || *priority <= 0.0 {
            return failed(format!("priority of {name}: expected a number above 0, got {priority}"));
        }
        if shares.iter().any(|other| other.name == parsed) {
            return failed(format!("two are named {name}; give each a name of its own"));
        }
        shares.push(Share { name: parsed, priority: *priority });
    }
    Ok(shares)
}

/// The part of `cap` for each priority.
pub(crate) fn split(cap: Bitrate, priorities: &[f64]) -> Vec<Bitrate> {
    let sum: f64 = priorities.iter().sum();
    priorities.iter().map(|priority| cap.mul_f64(priority / sum)).collect()
}

/// A video stream that this end of a call sends, while the call runs.
#[derive(Debug, Clone, Copy)]
pub struct SentStream<'a> {
    handle: &'a CallHandle,
    stream: usize,
}

impl<'a> SentStream<'a> {
    pub(crate) fn new(handle: &'a CallHandle, stream: usize) -> Self {
        Self { handle, stream }
    }

    /// Sends a picture that was captured at `captured_at`; as [`Call::send_frame`](crate::Call::send_frame).
    pub fn send_frame(&self, picture: Picture, captured_at: Instant) -> bool {
        self.handle.send_frame(self.stream, picture, captured_at)
    }

    /// Changes the cap of the stream's bit rate; none removes it.
    pub fn set_max_bitrate(&self, cap: Option<Bitrate>) {
        self.handle.set_max_bitrate(self.stream, cap);
    }

    /// Announces another frame rate of the pictures that the application sends.
    pub fn set_frame_rate(&self, frame_rate: FrameRate) {
        self.handle.set_frame_rate(self.stream, frame_rate);
    }

    /// Pauses the stream, or resumes it; a source rests meanwhile. The other streams get its part of the budget.
    pub fn set_paused(&self, is_paused: bool) {
        self.handle.set_paused(self.stream, is_paused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str) -> Stream {
        Stream::frames(name, VideoFormat::new(64, 48))
    }

    #[test]
    fn streams_without_names_or_priorities_of_their_own_are_refused() {
        let refused = |streams: &[Stream]| shares(streams).expect_err("it is refused").to_string();
        assert!(refused(&[stream("front"), stream("front")]).contains("two are named front"));
        assert!(refused(&[stream("front"), stream("")]).contains("expected 1 to 32 letters"));
        assert!(refused(&[stream("front").priority(0.0)]).contains("priority of front"));
        assert!(refused(&[stream("front").priority(f64::NAN)]).contains("above 0"));
        let many: Vec<Stream> = (0..9).map(|number| stream(&number.to_string())).collect();
        assert!(refused(&many).contains("at most 8"));
        assert!(shares(&[stream("")]).is_ok_and(|shares| shares.len() == 1));
    }

    #[test]
    fn cap_is_split_by_priority() {
        assert_eq!(split(Bitrate::from_kbps(400), &[3.0, 1.0]), [300, 100].map(Bitrate::from_kbps));
    }
}
