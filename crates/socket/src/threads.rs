//! The threads of a call: an end that was not meant is noticed, and says why.

use std::any::Any;
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::SystemError;

/// How often a thread that is waited for is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A thread that does one part of a call's work.
pub struct Thread<E = SystemError> {
    name: &'static str,
    handle: Option<JoinHandle<Result<(), E>>>,
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

impl<E: From<SystemError> + Send + 'static> Thread<E> {
    /// Starts a thread called `name` that does `work`.
    ///
    /// # Errors
    /// If the system starts none.
    pub fn spawn(name: &'static str, work: impl FnOnce() -> Result<(), E> + Send + 'static) -> Result<Self, E> {
        let handle = Builder::new().name(name.to_owned()).spawn(work);
        let handle = handle.map_err(|error| SystemError::Thread { name, reason: error.to_string() })?;
        Ok(Self { name, handle: Some(handle) })
    }

    /// Whether its work is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What went wrong in it, once, if its work is over because of that.
    ///
    /// # Errors
    /// That.
    pub fn check(&mut self) -> Result<(), E> {
        if !self.is_over() {
            return Ok(());
        }
        match self.handle.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => Err(SystemError::Thread { name: self.name, reason: message(&*panic) }.into()),
        }
    }

    /// Waits for its work to end, up to `limit`, and says what went wrong in it.
    ///
    /// # Errors
    /// That, or that it did not end.
    pub fn finish(&mut self, limit: Duration) -> Result<(), E> {
        let deadline = Instant::now() + limit;
        while !self.is_over() {
            if Instant::now() >= deadline {
                return Err(SystemError::Stuck { name: self.name, seconds: limit.as_secs() }.into());
            }
            thread::sleep(LOOK_INTERVAL);
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_thread_that_dies_says_its_name_and_what_killed_it() {
        let mut decoder = Thread::<SystemError>::spawn("decoder", || panic!("no picture {}", 7)).expect("it starts");
        let error = decoder.finish(LIMIT).expect_err("it died").to_string();
        assert!(error.contains("decoder") && error.contains("no picture 7"), "{error}");
        assert!(decoder.check().is_ok(), "the error is reported once");
    }

    #[test]
    fn a_thread_that_does_not_end_is_not_waited_for_without_end() {
        let (hold, held) = mpsc::channel::<()>();
        let mut sink = Thread::<SystemError>::spawn("sink", move || {
            let _ = held.recv();
            Ok(())
        })
        .expect("it starts");
        assert!(matches!(sink.finish(Duration::from_millis(20)), Err(SystemError::Stuck { name: "sink", .. })));
        drop(hold);
        assert!(sink.finish(LIMIT).is_ok());
    }
}
