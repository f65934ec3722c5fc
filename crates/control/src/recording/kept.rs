//! A recording in memory.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Event, Header, Recorder, end_line, event_line, header_line};

/// Keeps all that it hears; its clones keep the same.
#[derive(Debug, Clone, Default)]
pub struct KeptEvents(Arc<Mutex<Kept>>);

/// What one controller was made of, told and answered.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// What it was made of; none before there was one.
    pub header: Option<Header>,
    /// What it was told and answered, in that order.
    pub events: Vec<Event>,
}

impl KeptEvents {
    /// What was kept so far; it begins anew.
    #[must_use]
    pub fn take(&self) -> Kept {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    /// The same as a file has it.
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
