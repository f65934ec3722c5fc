//! Sound between GStreamer and a call: 48,000 samples per second, 16 bits.
//!
//! A call accepts one channel in frames of 20 ms and paces them by its own clock. So a short queue connects the
//! pipeline's clock with that of the call. The queue drops the oldest samples beyond 200 ms, and returns silence while
//! it fills.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gst::prelude::*;
use lockstep::{SOUND_FRAME_SAMPLES, SoundFailure, SoundFrame, SoundSink, SoundSource};

/// Samples per second.
const RATE: i32 = 48_000;
/// Duration of a frame.
const FRAME: gst::ClockTime = gst::ClockTime::from_mseconds(20);
/// Samples that wait for the call: 200 ms.
const MAX_WAITING_SAMPLES: usize = 10 * SOUND_FRAME_SAMPLES;
/// Samples that wait after an underrun before the next frame leaves: 40 ms.
const FILLED: usize = 2 * SOUND_FRAME_SAMPLES;
/// Bytes that wait for a pipeline: half a second.
const MAX_QUEUED_BYTES: u64 = RATE as u64;
/// Clock difference at which time stamps of received sound restart.
const MAX_DRIFT: gst::ClockTime = gst::ClockTime::from_mseconds(40);

/// The caps of sound with these channels.
pub fn caps(channels: impl Into<gst::glib::Value> + Send) -> gst::Caps {
    gst::Caps::builder("audio/x-raw")
        .field("format", "S16LE")
        .field("layout", "interleaved")
        .field("rate", RATE)
        .field("channels", channels)
        .build()
}

#[derive(Debug, Default)]
struct Waiting {
    samples: VecDeque<i16>,
    is_filled: bool,
}

/// Samples from a pipeline that wait for the call. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SoundQueue(Arc<Mutex<Waiting>>);

impl SoundQueue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a buffer of interleaved samples; several channels become their mean.
    pub fn push(&self, bytes: &[u8], channels: usize) {
        let mut waiting = self.waiting();
        for samples in bytes.chunks_exact(2 * channels.max(1)) {
            let sum: i32 = samples.chunks_exact(2).map(|pair| i32::from(i16::from_le_bytes([pair[0], pair[1]]))).sum();
            waiting.samples.push_back((sum / channels.max(1) as i32) as i16);
        }
        let excess = waiting.samples.len().saturating_sub(MAX_WAITING_SAMPLES);
        waiting.samples.drain(..excess);
    }

    /// Drops all samples.
    pub fn clear(&self) {
        *self.waiting() = Waiting::default();
    }
}

impl SoundSource for SoundQueue {
    fn next_frame(&mut self) -> Result<Option<SoundFrame>, SoundFailure> {
        let mut waiting = self.waiting();
        let needed = if waiting.is_filled { SOUND_FRAME_SAMPLES } else { FILLED };
        waiting.is_filled = waiting.samples.len() >= needed;
        let mut frame = [0; SOUND_FRAME_SAMPLES];
        if waiting.is_filled {
            frame.iter_mut().zip(waiting.samples.drain(..SOUND_FRAME_SAMPLES)).for_each(|(to, from)| *to = from);
        }
        Ok(Some(frame))
    }
}

/// Passes the sound of a call to a pipeline.
pub struct PipelineSound {
    appsrc: gst_app::AppSrc,
    next: Option<gst::ClockTime>,
}

impl PipelineSound {
    /// Sound for the pipeline of `appsrc`.
    pub fn new(appsrc: gst_app::AppSrc) -> Self {
        Self { appsrc, next: None }
    }
}

impl SoundSink for PipelineSound {
    fn play(&mut self, frame: &SoundFrame) -> Result<(), SoundFailure> {
        let now = self.appsrc.current_running_time().filter(|_| self.appsrc.current_state() == gst::State::Playing);
        let Some(now) = now.filter(|_| self.appsrc.current_level_bytes() < MAX_QUEUED_BYTES) else {
            self.next = None;
            return Ok(());
        };
        let due = self.next.filter(|next| next.absdiff(now) <= MAX_DRIFT);
        let at = due.unwrap_or(now);
        self.next = Some(at + FRAME);
        let bytes: Vec<u8> = frame.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut buffer = gst::Buffer::from_mut_slice(bytes);
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(at);
            buffer.set_duration(FRAME);
            if due.is_none() {
                buffer.set_flags(gst::BufferFlags::DISCONT);
            }
        }
        // A pipeline that stops refuses buffers; the call ends soon after.
        let _ = self.appsrc.push_buffer(buffer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(samples: impl IntoIterator<Item = i16>) -> Vec<u8> {
        samples.into_iter().flat_map(i16::to_le_bytes).collect()
    }

    fn next(queue: &mut SoundQueue) -> SoundFrame {
        queue.next_frame().expect("no device").expect("no end")
    }

    #[test]
    fn queue_is_silent_until_forty_milliseconds_wait() {
        let mut queue = SoundQueue::default();
        queue.push(&bytes([5; SOUND_FRAME_SAMPLES]), 1);
        assert_eq!(next(&mut queue)[0], 0, "it fills");
        queue.push(&bytes([6; SOUND_FRAME_SAMPLES]), 1);
        assert_eq!([next(&mut queue)[0], next(&mut queue)[0]], [5, 6]);
        queue.push(&bytes([7; SOUND_FRAME_SAMPLES - 1]), 1);
        assert_eq!(next(&mut queue)[0], 0, "it has run empty");
        queue.push(&bytes([7]), 1);
        assert_eq!(next(&mut queue)[0], 0, "it fills again");
    }

    #[test]
    fn oldest_samples_are_dropped_beyond_the_limit() {
        let mut queue = SoundQueue::default();
        (0..15).for_each(|frame| queue.push(&bytes([frame; SOUND_FRAME_SAMPLES]), 1));
        assert_eq!(next(&mut queue)[0], 5);
    }

    #[test]
    fn stereo_becomes_the_mean_of_its_channels() {
        let mut queue = SoundQueue::default();
        queue.push(&bytes([i16::MAX, i16::MAX, 100, -50].repeat(FILLED / 2)), 2);
        assert_eq!(next(&mut queue)[..2], [i16::MAX, 25]);
    }
}
