//! A device that may be unplugged: it is opened again when it, or another, is there.

use std::sync::Arc;
use std::time::Instant;

use lockstep_sound::SoundFailure;

use crate::capture::ATTEMPT_INTERVAL;
use crate::sound::Metronome;

/// An open device.
pub(crate) trait Named {
    /// Name for people.
    fn name(&self) -> &str;
}

/// A device and the way to open it again.
pub(crate) struct Following<T> {
    open: Box<dyn FnMut() -> Result<T, SoundFailure> + Send>,
    /// None while there is no device.
    device: Option<T>,
    next_attempt: Instant,
    /// Pace of frames without a device.
    metronome: Metronome,
    /// Consequence of a lost device, for the user.
    consequence: &'static str,
    notice: Arc<dyn Fn(&str) + Send + Sync>,
}

impl<T: Named> Following<T> {
    /// Opens the device.
    pub(crate) fn new(
        mut open: impl FnMut() -> Result<T, SoundFailure> + Send + 'static,
        consequence: &'static str,
        notice: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, SoundFailure> {
        let device = Some(open()?);
        let (next_attempt, metronome) = (Instant::now(), Metronome::start(true));
        Ok(Self { open: Box::new(open), device, next_attempt, metronome, consequence, notice })
    }

    /// Uses the device for one frame. Without a device this waits for the duration of a frame, and returns None.
    pub(crate) fn during_frame<R>(&mut self, act: impl FnOnce(&mut T) -> Result<R, SoundFailure>) -> Option<R> {
        self.look(Instant::now());
        if self.device.is_none() {
            self.metronome.tick();
            return None;
        }
        self.attempt(Instant::now(), act)
    }

    /// Opens a lost device if the next attempt is due.
    fn look(&mut self, now: Instant) {
        if self.device.is_none() && now >= self.next_attempt {
            self.next_attempt = now + ATTEMPT_INTERVAL;
            if let Ok(device) = (self.open)() {
                (self.notice)(&format!("now using {}", device.name()));
                self.device = Some(device);
            }
        }
    }

    /// Uses the device at `now`. Without a device this returns None at once.
    pub(crate) fn attempt<R>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut T) -> Result<R, SoundFailure>,
    ) -> Option<R> {
        self.look(now);
        let device = self.device.as_mut()?;
        let failure = match act(device) {
            Ok(result) => return Some(result),
            Err(failure) => failure,
        };
        // A device that is closed first may be opened again.
        self.device = None;
        match (self.open)() {
            Ok(device) => {
                (self.notice)(&format!("{failure}; now using {}", device.name()));
                self.device = Some(device);
            }
            Err(_) => {
                (self.notice)(&format!("{failure}; {} until it, or another, is there", self.consequence));
                self.next_attempt = now + ATTEMPT_INTERVAL;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Fake(&'static str);

    impl Named for Fake {
        fn name(&self) -> &str {
            self.0
        }
    }

    /// A device that opens as `outcomes` say, and its notices.
    fn following(outcomes: &'static [Option<&'static str>]) -> (Following<Fake>, Arc<Mutex<Vec<String>>>) {
        let mut outcomes = outcomes.iter();
        let open = move || {
            let name = outcomes.next().copied().flatten();
            name.map(Fake).ok_or_else(|| SoundFailure("there is no microphone".to_owned()))
        };
        let notices = Arc::<Mutex<Vec<String>>>::default();
        let kept = notices.clone();
        let notice = Arc::new(move |text: &str| kept.lock().unwrap().push(text.to_owned()));
        (Following::new(open, "silence", notice).unwrap(), notices)
    }

    fn lost(_: &mut Fake) -> Result<(), SoundFailure> {
        Err(SoundFailure("the microphone failed".to_owned()))
    }

    #[test]
    fn lost_device_is_replaced_at_once_by_the_new_default() {
        let (mut device, notices) = following(&[Some("a"), Some("b")]);
        assert_eq!(device.during_frame(|device| Ok(device.name().to_owned())), Some("a".to_owned()));
        assert_eq!(device.during_frame(lost), None);
        assert_eq!(device.during_frame(|device| Ok(device.name().to_owned())), Some("b".to_owned()));
        assert_eq!(*notices.lock().unwrap(), ["the microphone failed; now using b"]);
    }

    #[test]
    fn call_is_silent_until_a_device_is_there_again() {
        let (mut device, notices) = following(&[Some("a"), None, None, Some("a")]);
        assert_eq!(device.during_frame(lost), None);
        // The first attempt of two is not yet due.
        assert_eq!(device.during_frame(|_| Ok(())), None);
        for answer in [None, Some(())] {
            device.next_attempt = Instant::now();
            assert_eq!(device.during_frame(|_| Ok(())), answer);
        }
        let expected = ["the microphone failed; silence until it, or another, is there", "now using a"];
        assert_eq!(*notices.lock().unwrap(), expected);
    }

    #[test]
    fn device_that_is_missing_at_the_start_is_an_error() {
        let opened = Following::new(|| Err::<Fake, _>(SoundFailure("none".to_owned())), "", Arc::new(|_: &str| ()));
        assert_eq!(opened.err(), Some(SoundFailure("none".to_owned())));
    }
}
