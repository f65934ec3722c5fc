//! One's own picture, small, in a corner of the far one.

use std::sync::{Arc, Mutex, PoisonError};

use lockstep_media::{Sink, SinkError, Source, SourceError, VideoFormat};
use lockstep_vp8::Picture;

/// The inset's share of the far picture's sides, one in so many, and its distance from the corner in pixels.
const SHARE: usize = 4;
const MARGIN: usize = 8;

/// The newest picture of one's own source.
#[derive(Debug, Clone, Default)]
pub struct OwnPicture(Arc<Mutex<Option<Picture>>>);

/// A source that shows its pictures to somebody else, too.
struct Seen {
    source: Box<dyn Source>,
    own: OwnPicture,
}

impl OwnPicture {
    /// The same source; what it gives is seen here.
    #[must_use]
    pub fn of(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Seen { source, own: self.clone() })
    }

    fn newest(&self) -> Option<Picture> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Source for Seen {
    fn format(&self) -> VideoFormat {
        self.source.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        let picture = self.source.next()?;
        self.own.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&picture);
        Ok(picture)
    }

    fn prepare(&mut self) {
        self.source.prepare();
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }
}

/// A sink that draws one's own picture into what it hands on.
struct Inset {
    sink: Box<dyn Sink>,
    own: OwnPicture,
}

/// The same sink, with one's own picture in the corner of what it shows.
#[must_use]
pub fn with_inset(sink: Box<dyn Sink>, own: OwnPicture) -> Box<dyn Sink> {
    Box::new(Inset { sink, own })
}

impl Sink for Inset {
    fn show(&mut self, picture: &Picture, frame: &[u8]) -> Result<(), SinkError> {
        match self.own.newest().and_then(|own| drawn(picture, &own)) {
            Some(both) => self.sink.show(&both, frame),
            None => self.sink.show(picture, frame),
        }
    }

    fn is_live(&self) -> bool {
        self.sink.is_live()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }
}

/// `far` with `own` in its lower right corner, mirrored as people know themselves; none where it has no room.
fn drawn(far: &Picture, own: &Picture) -> Option<Picture> {
    let (width, height) = (far.width(), far.height());
    // As large as fits a quarter of either side, in the shape of one's own picture, at even places for chroma.
    let across = (width / SHARE).min(own.width() * (height / SHARE) / own.height()) & !1;
    let down = (own.height() * across / own.width()) & !1;
    let left = width.checked_sub(across + MARGIN)? & !1;
    let top = height.checked_sub(down + MARGIN)? & !1;
    if across == 0 || down == 0 {
        return None;
    }
    let mut samples = far.to_i420();
    let mut start = 0;
    for (plane, source) in own.planes().iter().enumerate() {
        let half = |side: usize| if plane == 0 { side } else { side / 2 };
        let stride = if plane == 0 { width } else { width.div_ceil(2) };
        let rows = if plane == 0 { height } else { height.div_ceil(2) };
        let (across, down) = (half(across), half(down));
        for y in 0..down {
            let row = source.row(y * source.height() / down);
            let at = start + (half(top) + y) * stride + half(left);
            for (x, sample) in samples.get_mut(at..at + across)?.iter_mut().enumerate() {
                *sample = row[(across - 1 - x) * source.width() / across];
            }
        }
        start += stride * rows;
    }
    Picture::from_i420(width, height, samples).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose luma is `luma` of its column.
    fn picture(width: usize, height: usize, luma: impl Fn(usize) -> u8) -> Picture {
        let mut samples: Vec<u8> = (0..width * height).map(|at| luma(at % width)).collect();
        samples.resize(samples.len() + 2 * width.div_ceil(2) * height.div_ceil(2), 128);
        Picture::from_i420(width, height, samples).expect("a picture")
    }

    #[test]
    fn ones_own_picture_is_in_the_corner_mirrored_and_the_rest_is_as_it_was() {
        let far = picture(320, 180, |_| 50);
        let both = drawn(&far, &picture(64, 36, |x| if x < 32 { 100 } else { 200 })).expect("there is room");
        assert_eq!((both.width(), both.height()), (320, 180));
        let rows: Vec<&[u8]> = both.luma().rows().collect();
        let own = |value: u8| rows.iter().flat_map(|row| row.iter()).filter(|&&sample| sample == value).count();
        assert_eq!((own(100), own(200)), (40 * 44, 40 * 44));
        assert_eq!((rows[150][320 - 8 - 2], rows[150][320 - 8 - 78]), (100, 200), "as in a mirror");
        assert_eq!((rows[179][0], rows[179][319], rows[100][300]), (50, 50, 50));
    }

    #[test]
    fn pictures_of_all_sizes_can_be_drawn_into_each_other() {
        for far in [(1, 1), (17, 33), (64, 48), (321, 181)] {
            for own in [(1, 1), (16, 900), (900, 16), (33, 17)] {
                let _ = drawn(&picture(far.0, far.1, |_| 1), &picture(own.0, own.1, |_| 2));
            }
        }
    }
}
