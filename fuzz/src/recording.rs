//! Reads arbitrary bytes as a recording of a controller, and replays its events on that controller.

use lockstep_control::PathObserver;
use lockstep_control::recording::RecordingReader;

use crate::memory::bounded;

/// Memory for the built-in models and the state of thousands of packets. A line has at most 4 kB here.
const MEMORY: usize = 48 << 20;

/// Input: the recording.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let Ok((header, mut reader)) = RecordingReader::new(data) else { return };
        let Ok(mut controller) = header.algorithm.controller(&header.setup()) else { return };
        let mut path = PathObserver::new(header.setup().payload, &header.setup().tuning);
        while let Ok(Some(event)) = reader.next_event() {
            let _ = event.replay(&mut path, controller.as_mut());
        }
        assert!(reader.events() <= data.len() as u64);
    });
}
