//! Sound of live calls, over loopback.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::calls::{self, both_ways, clip, listener, run, sending};
use lockstep_live::{CallOptions, Ended, LiveError, Loudspeaker, RemoteEnd};
use lockstep_sound::{Frame, SoundFailure, SoundSink, SoundSource, Tone};

/// Counts the loud frames of 20 ms; if the flag is set, `finish` fails.
#[derive(Clone, Default)]
pub struct LoudFrames(Arc<Mutex<usize>>, bool);

impl LoudFrames {
    /// Loud frames so far.
    pub fn count(&self) -> usize {
        *self.0.lock().unwrap()
    }
}

impl SoundSink for LoudFrames {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        *self.0.lock().unwrap() += usize::from(frame.iter().any(|sample| sample.unsigned_abs() > 300));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SoundFailure> {
        if self.1 { Err(SoundFailure("the disk is full".to_owned())) } else { Ok(()) }
    }
}

/// An end that sends sound, and plays to `heard`.
fn talking(peer: RemoteEnd, heard: LoudFrames, source: Box<dyn SoundSource>, length: Duration) -> CallOptions {
    let mut half = sending(clip());
    half.microphone = Some(source);
    let mut options = both_ways(peer, half);
    if let Some(receiving) = options.receiving.first_mut() {
        receiving.loudspeaker = Some(Loudspeaker { sink: Box::new(heard), lip_sync: true });
    }
    CallOptions { length: Some(length), ..options }
}

#[test]
fn both_ends_hear_each_other() {
    let (listener, ticket) = listener();
    let heard = [LoudFrames::default(), LoudFrames::default()];
    let waiting = talking(RemoteEnd::At(listener), heard[0].clone(), Box::new(Tone::default()), calls::LIMIT);
    let waiting = thread::spawn(move || run(waiting).0);
    let joining = talking(RemoteEnd::Of(ticket), heard[1].clone(), Box::new(Tone::default()), calls::LIMIT);
    let both = heard.clone();
    let stop = Box::new(move || both.iter().all(|heard| *heard.0.lock().unwrap() > 50));
    let joined = run(CallOptions { stop, ..joining }).0;
    let waited = waiting.join().unwrap();
    assert!(matches!((&joined.result, &waited.result), (Ok(Ended::Stopped), Ok(Ended::ByPeer))));
    for finished in [waited, joined] {
        let sound = finished.sound.expect("there was a loudspeaker");
        assert!(sound.packets > 50, "{sound:?}");
        // The clocks of the two ends started at different times. A busy machine adds delay.
        let delay = sound.mouth_to_ear_ms.expect("something was heard");
        assert!((20.0..60_000.0).contains(&delay.p50), "{sound:?}");
    }
}

#[test]
fn failure_of_the_sound_sink_ends_the_call_with_its_reason() {
    let (listener, ticket) = listener();
    let waiting = talking(RemoteEnd::At(listener), LoudFrames::default(), Box::new(Tone::default()), calls::LIMIT);
    let waiting = thread::spawn(move || run(waiting).0);
    let broken = LoudFrames(Arc::default(), true);
    let joined = run(talking(RemoteEnd::Of(ticket), broken, Box::new(Tone::default()), Duration::from_millis(500))).0;
    let error = joined.result.expect_err("nothing was kept");
    assert!(matches!(&error, LiveError::Sound(reason) if reason == "the disk is full"), "{error}");
    assert!(waiting.join().unwrap().result.is_ok());
}
