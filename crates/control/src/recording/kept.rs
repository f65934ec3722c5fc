//! Recordings in memory.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Event, Header, Recorder, end_line, event_line, header_line};

/// Recorder in memory. Its clones share the recording.
#[derive(Debug, Clone, Default)]
pub struct KeptEvents(Arc<Mutex<Kept>>);

/// Description, inputs and answers of one controller.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Description of the controller; none before the start.
    pub header: Option<Header>,
    /// Inputs and answers in order.
    pub events: Vec<Event>,
}

impl KeptEvents {
    /// Takes the recording so far and starts an empty one.
    #[must_use]
    pub fn take(&self) -> Kept {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    /// The recording in the format of a file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text: String = self.header.iter().map(header_line).collect();
        let numbered = self.events.iter().zip(0..);
        text.extend(numbered.map(|(event, number)| event_line(number, event)));
        text + &end_line(self.events.len() as u64)
    }
}

impl Recorder for KeptEvents {
    fn begin(&mut self, header: &Header) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).header = Some(header.clone());
    }

    fn record(&mut self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).events.push(event.clone());
    }
}
