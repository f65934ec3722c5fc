//! Any bytes as the recording of a controller's decisions, and what can be read of it told to that controller again.

use lockstep_control::PathObserver;
use lockstep_control::recording::RecordingReader;

use crate::memory::bounded;

/// The models that come with controllers, once read, and what one keeps of thousands of packets; a line has 4 kB here.
const MEMORY: usize = 48 << 20;

/// Reads, and replays.
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
