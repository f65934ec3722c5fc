//! Writes pictures to a sink, and the sound track if the sink records sound.

use std::time::Duration;

use lockstep_media::{Sink, SinkError};
use lockstep_sound::{CodingError, Decoded, LOOK_AHEAD, SoundTrack};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

/// Sound older than the newest picture by this much will never be played, so the track is silent there. Playout waits
/// for jitter and for pictures, up to 200 ms for the latter.
const LATEST_SOUND: Duration = Duration::from_millis(500);

/// Why a recording ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("cannot record sound: {0}")]
    Sound(#[from] CodingError),
}

/// Writes pictures to a sink, and encodes sound for a sink that records it.
pub(crate) struct Recorder {
    sink: Box<dyn Sink>,
    track: Option<SoundTrack>,
    /// Capture time of the newest picture.
    newest: Timestamp,
}

impl Recorder {
    /// A recorder whose first picture was captured at `first`. `has_sound` states whether the call plays sound.
    pub(crate) fn new(mut sink: Box<dyn Sink>, has_sound: bool, first: Timestamp) -> Result<Self, RecordError> {
        let track = if has_sound && sink.begin_sound(LOOK_AHEAD as u16) { Some(SoundTrack::new(first)?) } else { None };
        Ok(Self { sink, track, newest: first })
    }

    /// Whether [`Self::record_sound`] has an effect.
    pub(crate) fn records_sound(&self) -> bool {
        self.track.is_some()
    }

    pub(crate) fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), RecordError> {
        if let Some(track) = &mut self.track {
            let latest = captured_at.as_nanos().saturating_sub(LATEST_SOUND.as_nanos() as u64);
            track.fill_until(Timestamp::from_nanos(latest))?;
        }
        self.write_sound()?;
        self.newest = captured_at;
        Ok(self.sink.show(picture, captured_at)?)
    }

    pub(crate) fn record_sound(&mut self, sound: &Decoded) -> Result<(), RecordError> {
        if let Some(track) = &mut self.track {
            track.push(sound)?;
        }
        self.write_sound()
    }

    fn write_sound(&mut self) -> Result<(), RecordError> {
        while let Some(packet) = self.track.as_mut().and_then(SoundTrack::poll_packet) {
            self.sink.write_sound(&packet.payload, packet.captured)?;
        }
        Ok(())
    }

    /// Ends the recording; its sound track is as long as its video.
    pub(crate) fn finish(&mut self) -> Result<(), RecordError> {
        if let Some(track) = &mut self.track {
            track.fill_until(self.newest)?;
        }
        self.write_sound()?;
        Ok(self.sink.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use lockstep_media::{VideoFormat, WebmSink};
    use lockstep_sound::{FRAME_DURATION, FRAME_SAMPLES, Frame, Player, SAMPLE_RATE, SoundDecoder, SoundSender};
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Times of a flash and beep of 200 ms each, in milliseconds after the first picture.
    const BEEPS: [u64; 4] = [1_000, 2_220, 3_500, 5_240];
    const LENGTH: u64 = 7_000;
    const FRAME: u64 = FRAME_DURATION.as_millis() as u64;

    fn beeps(at: u64) -> bool {
        BEEPS.iter().any(|&beep| (beep..beep + 200).contains(&at))
    }

    fn ms(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(90_000 + milliseconds)
    }

    /// Records a call in virtual time: 5 % of its packets are lost, and others are delayed by up to 60 ms.
    fn record(path: &Path) {
        let format = VideoFormat::new(64, 48);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut sound = SoundSender::new().unwrap();
        let mut arrivals = Vec::new();
        for begin in (0..LENGTH).step_by(FRAME as usize) {
            let loud = if beeps(begin) { 9_000 } else { 0 };
            let frame: Frame = std::array::from_fn(|sample| if sample % 96 < 48 { loud } else { -loud });
            let packet = sound.capture(ms(begin + FRAME), &frame).unwrap();
            let delay = random.random_range(50..110);
            arrivals.extend(packet.filter(|_| !random.random_bool(0.05)).map(|packet| (begin + FRAME + delay, packet)));
        }
        arrivals.sort_by_key(|&(at, _)| at);
        let mut arrivals = arrivals.into_iter().peekable();
        let mut player = Player::new(SoundDecoder::new().unwrap());
        let mut recorder = Recorder::new(Box::new(WebmSink::create(path, format).unwrap()), true, ms(0)).unwrap();
        for now in 0..LENGTH + 500 {
            while let Some((at, packet)) = arrivals.next_if(|(at, _)| *at <= now) {
                player.insert(ms(at), packet.frame, packet.captured, packet.payload);
            }
            if now % FRAME == 7 {
                player.play(ms(now));
                while let Some(decoded) = player.poll_decoded() {
                    recorder.record_sound(&decoded).unwrap();
                }
            }
            // Pictures are captured every 40 ms and displayed 120 ms later.
            if let Some(captured) = now.checked_sub(120).filter(|captured| captured % 40 == 0 && *captured < LENGTH) {
                let luma = if beeps(captured) { 220 } else { 30 };
                let picture = Picture::from_i420(64, 48, [vec![luma; 64 * 48], vec![128; 64 * 24]].concat()).unwrap();
                recorder.show(&picture, ms(captured)).unwrap();
            }
        }
        recorder.finish().unwrap();
    }

    fn output(program: &str, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new(program).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{program}: {errors}");
        output.stdout
    }

    /// Times at which `loud` becomes true after at least 100 ms of false; `at` is the time of a value in milliseconds.
    fn beginnings(loud: impl Iterator<Item = bool>, at: impl Fn(usize) -> f64) -> Vec<f64> {
        let times: Vec<f64> = loud.enumerate().filter(|&(_, loud)| loud).map(|(index, _)| at(index)).collect();
        (0..times.len()).filter(|&i| i == 0 || times[i] - times[i - 1] > 100.0).map(|i| times[i]).collect()
    }

    #[test]
    fn beep_and_flash_are_within_40_ms_despite_losses() {
        if Command::new("ffprobe").arg("-version").output().is_err() {
            eprintln!("skipped: ffmpeg is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("call.webm");
        record(&path);
        let path = path.to_str().unwrap();
        let probe = ["-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time", "-of", "csv=p=0", path];
        let times = String::from_utf8(output("ffprobe", &probe)).unwrap();
        let times: Vec<f64> =
            times.lines().map(|line| line.trim_end_matches(',').parse::<f64>().unwrap() * 1e3).collect();
        let read = ["-nostdin", "-v", "error", "-i", path];
        let pictures = ["-fps_mode", "passthrough", "-vf", "scale=1:1,format=gray", "-f", "rawvideo", "-"];
        let pictures = output("ffmpeg", &[&read[..], &pictures].concat());
        let samples = output("ffmpeg", &[&read[..], &["-f", "s16le", "-ac", "1", "-"]].concat());
        assert_eq!(pictures.len(), times.len());
        let flashes = beginnings(pictures.iter().map(|&luma| luma > 128), |index| times[index]);
        let loud = samples.chunks_exact(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]]).unsigned_abs() > 1_000);
        let heard = beginnings(loud, |index| index as f64 * 1e3 / f64::from(SAMPLE_RATE));
        assert_eq!((flashes.len(), heard.len()), (BEEPS.len(), BEEPS.len()), "{flashes:?} {heard:?}");
        for (flash, beep) in flashes.iter().zip(&heard) {
            assert!((flash - beep).abs() <= 40.0, "{flash} ms and {beep} ms");
        }
        let length = samples.len() as f64 / 2.0 / FRAME_SAMPLES as f64 * FRAME_DURATION.as_secs_f64();
        assert!((6.0..7.1).contains(&length), "{length} s of sound");
    }
}
