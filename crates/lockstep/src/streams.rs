//! Video streams that one end of a call sends.

use std::fmt;
use std::time::Instant;

use lockstep_live::{CallHandle, LiveError, MAX_STREAMS, PictureSource, StreamName};
use lockstep_media::{FrameRate, Source, SourceError, VideoFormat};
use lockstep_units::Bitrate;
use lockstep_vp8::Picture;

type OpenSource = Box<dyn FnMut() -> Result<Box<dyn Source>, SourceError> + Send>;

/// Origin of a stream's pictures.
enum Pictures {
    Pushed(VideoFormat),
    Source(OpenSource),
}

/// A video stream that an end of a call sends; see [`CallBuilder::stream`](crate::CallBuilder::stream).
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

    /// Pictures that the application passes to [`SentStream::send_frame`], in this format. The name has up to 32
    /// letters, digits, `-` and `_`.
    pub fn frames(name: &str, format: VideoFormat) -> Self {
        Self::new(name, Pictures::Pushed(format))
    }

    /// Pictures of a source, which a thread of the call reads. `open` runs for each connection.
    pub fn source(name: &str, open: impl FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static) -> Self {
        Self::new(name, Pictures::Source(Box::new(open)))
    }

    /// Pictures of the source that `specification` names: `camera`, `/dev/video0`, `generated`, a y4m file, or any
    /// input of ffmpeg.
    pub fn open_source(name: &str, specification: &str) -> Self {
        let specification = specification.to_owned();
        Self::source(name, move || {
            lockstep_media::open_source(&specification, &lockstep_media::SourceOptions::default())
        })
    }

    /// Sets the share of the call's budget, in proportion to the priorities of the other streams (RFC 8699). The
    /// default is 1.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = priority;
        self
    }

    /// Format of the pictures, if the application pushes them.
    pub(crate) fn pushed(&self) -> Option<VideoFormat> {
        match &self.pictures {
            Pictures::Pushed(format) => Some(*format),
            Pictures::Source(_) => None,
        }
    }

    /// Opens the source.
    pub(crate) fn open(&mut self) -> Result<(PictureSource, VideoFormat), SourceError> {
        match &mut self.pictures {
            Pictures::Pushed(format) => Ok((PictureSource::Pushed, *format)),
            Pictures::Source(open) => {
                let source = open()?;
                let format = source.format();
                Ok((source.into(), format))
            }
        }
    }
}

/// A source that fails with `error` when its first picture is due, as a source that fails later.
pub(crate) fn unopened(error: SourceError, format: VideoFormat) -> PictureSource {
    PictureSource::Source(Box::new(Unopened { format, error: Some(error) }))
}

/// A source that cannot be opened.
struct Unopened {
    format: VideoFormat,
    error: Option<SourceError>,
}

impl Source for Unopened {
    fn format(&self) -> VideoFormat {
        self.format
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.error.take().map_or(Ok(None), Err)
    }
}

/// Name of a stream and its share of the budget.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) name: StreamName,
    pub(crate) priority: f64,
}

/// Shares of the streams; the only stream of a call may lack a name.
///
/// # Errors
/// There are too many streams, two have the same name, or a name or priority is invalid.
pub(crate) fn shares(streams: &[Stream]) -> Result<Vec<Share>, LiveError> {
    let failed = |reason: String| Err(LiveError::Streams(reason));
    if streams.len() > MAX_STREAMS {
        return failed(format!("expected at most {MAX_STREAMS}, got {}", streams.len()));
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
            return failed(format!("two are named {name}; give each a different name"));
        }
        shares.push(Share { name: parsed, priority: *priority });
    }
    Ok(shares)
}

/// Splits `cap` in proportion to the priorities.
pub(crate) fn split(cap: Bitrate, priorities: &[f64]) -> Vec<Bitrate> {
    let sum: f64 = priorities.iter().sum();
    priorities.iter().map(|priority| cap.mul_f64(priority / sum)).collect()
}

/// A video stream that this end sends, while the call runs.
#[derive(Debug, Clone, Copy)]
pub struct SentStream<'a> {
    handle: &'a CallHandle,
    stream: usize,
}

impl<'a> SentStream<'a> {
    pub(crate) fn new(handle: &'a CallHandle, stream: usize) -> Self {
        Self { handle, stream }
    }

    /// Sends a picture that was captured at `captured_at`; see [`Call::send_frame`](crate::Call::send_frame).
    pub fn send_frame(&self, picture: Picture, captured_at: Instant) -> bool {
        self.handle.send_frame(self.stream, picture, captured_at)
    }

    /// Changes the cap of the stream's bit rate; `None` removes it.
    pub fn set_max_bitrate(&self, cap: Option<Bitrate>) {
        self.handle.set_max_bitrate(self.stream, cap);
    }

    /// Announces a new frame rate of the pictures that the application sends.
    pub fn set_frame_rate(&self, frame_rate: FrameRate) {
        self.handle.set_frame_rate(self.stream, frame_rate);
    }

    /// Sets whether the pictures that the application sends show a screen; see [`Call::set_screen`](crate::Call::set_screen).
    pub fn set_screen(&self, is_screen: bool) {
        self.handle.set_screen(self.stream, is_screen);
    }

    /// Pauses or resumes the stream. A paused source rests, and the other streams get its share of the budget.
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
    fn streams_with_invalid_names_or_priorities_are_refused() {
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
