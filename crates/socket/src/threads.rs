//! Threads of a call: an unexpected end is detected and reported with its reason.

use std::any::Any;
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::SystemError;

/// Interval between two checks whether a thread has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A thread that does one part of a call's work.
pub struct Thread<E = SystemError> {
    name: &'static str,
    handle: Option<JoinHandle<Result<(), E>>>,
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

impl<E: From<SystemError> + Send + 'static> Thread<E> {
    /// Starts a thread with this `name`, which runs `work`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn spawn(name: &'static str, work: impl FnOnce() -> Result<(), E> + Send + 'static) -> Result<Self, E> {
        let handle = Builder::new().name(name.to_owned()).spawn(work);
        let handle = handle.map_err(|error| SystemError::Thread { name, reason: error.to_string() })?;
        Ok(Self { name, handle: Some(handle) })
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Reports the failure of the thread once, if it has ended.
    ///
    /// # Errors
    /// The failure of the thread.
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

    /// Waits up to `limit` for the thread to end, and reports its failure.
    ///
    /// # Errors
    /// The failure of the thread, or that it did not end.
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
    fn panic_of_a_thread_is_reported_with_its_name() {
        let mut decoder = Thread::<SystemError>::spawn("decoder", || panic!("no picture {}", 7)).expect("it starts");
        let error = decoder.finish(LIMIT).expect_err("it died").to_string();
        assert!(error.contains("decoder") && error.contains("no picture 7"), "{error}");
        assert!(decoder.check().is_ok(), "the error is reported once");
    }

    #[test]
    fn wait_for_a_stuck_thread_ends_at_its_limit() {
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
