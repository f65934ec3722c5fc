//! Self-view: the newest picture of this end's own source.

use std::sync::{Arc, Mutex, PoisonError};

use lockstep_media::{Source, SourceError, VideoFormat};
use lockstep_vp8::Picture;

/// The newest picture of the own source.
#[derive(Debug, Clone, Default)]
pub struct OwnPicture(Arc<Mutex<Option<Picture>>>);

/// A source that copies its pictures to the self-view.
struct Seen {
    source: Box<dyn Source>,
    own: OwnPicture,
}

impl OwnPicture {
    /// Wraps `source`, whose pictures then appear here.
    #[must_use]
    pub fn of(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Seen { source, own: self.clone() })
    }

    /// The newest picture; `None` before the first, and while no picture is wanted.
    #[must_use]
    pub fn newest(&self) -> Option<Picture> {
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

    fn rest(&mut self) {
        *self.own.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.source.rest();
    }

    fn is_screen(&self) -> bool {
        self.source.is_screen()
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }
}
