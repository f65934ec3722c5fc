//! Screen sharing: a source that switches between its pictures and the screen during a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockstep_media::{Source, SourceError, SourceOptions, VideoFormat, open_source};
use lockstep_vp8::Picture;

/// Whether a call shares the screen, for the thread of the source and those of keys and windows.
#[derive(Debug, Clone, Default)]
pub struct ScreenSharing(Arc<AtomicBool>);

/// Opens the screen.
type Open = Box<dyn FnMut() -> Result<Box<dyn Source>, SourceError> + Send>;

/// Pictures of `usual`, or of the screen while it is shared.
struct Switched {
    usual: Box<dyn Source>,
    screen: Option<Box<dyn Source>>,
    open: Open,
    sharing: ScreenSharing,
    failed: Box<dyn FnMut(&SourceError) + Send>,
}

impl ScreenSharing {
    /// Shares the screen, or stops.
    pub fn toggle(&self) {
        self.0.fetch_xor(true, Ordering::Relaxed);
    }

    /// Whether the screen is shared.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A source that shows the screen `specification` while it is shared, and `usual` otherwise. A screen that cannot be
    /// read ends the sharing, and `failed` receives the error.
    pub fn source(
        &self,
        usual: Box<dyn Source>,
        specification: String,
        failed: impl FnMut(&SourceError) + Send + 'static,
    ) -> Box<dyn Source> {
        let open = move || open_source(&specification, &SourceOptions::default());
        let (open, failed, sharing): (Open, _, _) = (Box::new(open), Box::new(failed), self.clone());
        Box::new(Switched { usual, screen: None, open, sharing, failed })
    }
}

impl Switched {
    fn screen_picture(&mut self) -> Result<Option<Picture>, SourceError> {
        if self.screen.is_none() {
            self.screen = Some((self.open)()?);
            self.usual.rest();
        }
        self.screen.as_mut().map_or(Ok(None), |screen| screen.next())
    }
}

impl Source for Switched {
    fn format(&self) -> VideoFormat {
        self.usual.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        if self.sharing.is_on() {
            match self.screen_picture() {
                Ok(Some(picture)) => return Ok(Some(picture)),
                Ok(None) => {}
                Err(error) => (self.failed)(&error),
            }
            self.sharing.0.store(false, Ordering::Relaxed);
        }
        self.screen = None;
        self.usual.next()
    }

    fn prepare(&mut self) {
        self.usual.prepare();
    }

    fn rest(&mut self) {
        self.screen = None;
        self.usual.rest();
    }

    fn is_screen(&self) -> bool {
        self.sharing.is_on() || self.usual.is_screen()
    }

    fn is_live(&self) -> bool {
        self.usual.is_live()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn switched(screen: &'static str) -> (Switched, ScreenSharing, mpsc::Receiver<String>) {
        let (errors, failures) = mpsc::channel();
        let sharing = ScreenSharing::default();
        let open = |name: &str| open_source(name, &SourceOptions::default());
        let failed = move |error: &SourceError| errors.send(error.to_string()).unwrap();
        let source = Switched {
            usual: open("generated:64x36").unwrap(),
            screen: None,
            open: Box::new(move || open(screen)),
            sharing: sharing.clone(),
            failed: Box::new(failed),
        };
        (source, sharing, failures)
    }

    #[test]
    fn pictures_switch_to_the_screen_and_back() {
        let (mut source, sharing, _) = switched("generated:32x18");
        let mut width = || source.next().unwrap().unwrap().width();
        assert_eq!(width(), 64);
        sharing.toggle();
        assert_eq!((width(), width()), (32, 32));
        sharing.toggle();
        assert_eq!(width(), 64);
    }

    #[test]
    fn screen_that_fails_ends_the_sharing_and_not_the_call() {
        let (mut source, sharing, failures) = switched("/nowhere.y4m");
        sharing.toggle();
        assert_eq!(source.next().unwrap().unwrap().width(), 64);
        assert!(!sharing.is_on());
        assert!(failures.recv().unwrap().contains("/nowhere.y4m"));
    }
}
