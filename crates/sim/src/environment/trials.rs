//! Episodes for reinforcement at the sender, a step a picture: Lockstep's own controller in calls over paths drawn at random,
//! trying out by how much frames depart from its rule, and what came of each picture.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use lockstep_call::{KeptFrames, LoggedFrame};
use lockstep_control::Setting;
use lockstep_control::learned::{ADJUSTMENT, Lesson, Lockstep, Model, Trial};
use lockstep_link::random::normal;
use lockstep_media::ssim_db;

use super::pictures::{FOREIGN, LessonSetting, Path, Shared};
use super::vector::side_by_side;
use super::{EnvironmentError, EnvironmentSetting};

/// For so many pictures the same is tried: what one picture does is little beside what differs from call to call.
pub const HELD: u32 = 4;

/// A picture that was decided on, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TriedPicture {
    /// What was seen, and what the path took from then on.
    pub lesson: Lesson,
    /// What was tried.
    pub trial: Trial,
    /// How many pictures were captured until its frame was shown and since the last frame before it was: those that viewers
    /// wait for until then. None, where it was not shown.
    pub shown_for: u32,
    /// Luma SSIM of what is shown, dB, as often as `shown_for` says.
    pub ssim_db: f64,
    /// The video delays of those pictures, seconds, in all.
    pub delay: f64,
}

impl LessonSetting {
    /// The pictures of `count` calls with the functional codec under `model` by its rule for balanced latency, over `threads`
    /// threads (0: one a core). To each of the numbers by which the model departs from the rule is added what is normally
    /// distributed with the standard deviation `spread`. Equal settings and seeds give equal pictures, whatever the number of
    /// threads. Of pictures at the end of a call of which it is not known when they, or later ones, were shown there is nothing.
    ///
    /// # Errors
    /// If the setting makes no sense, the model is for something else, or threads cannot be started.
    pub fn try_out(
        &self,
        model: &Arc<Model>,
        spread: f32,
        count: usize,
        seed: u64,
        threads: usize,
    ) -> Result<Vec<Vec<TriedPicture>>, EnvironmentError> {
        let environment = self.environment()?;
        Ok(side_by_side(count, seed, threads, |seed| self.tried_call(&environment, model, spread, seed))?.0)
    }

    fn tried_call(
        &self,
        environment: &EnvironmentSetting,
        model: &Arc<Model>,
        spread: f32,
        seed: u64,
    ) -> Result<Vec<TriedPicture>, EnvironmentError> {
        let mut generator = Pcg64::seed_from_u64(seed);
        let path = Path::from(self, &mut generator);
        let drawn = path.drawn(self, environment, &mut generator);
        let call = path.call(self, &drawn, &mut generator);
        let tried = tries(spread, self.pictures, &mut generator);
        let control = Setting::new(call.payload, call.frame_interval());
        let controller = Lockstep::with_model(&control, Arc::clone(model)).map_err(|_| FOREIGN)?.with_trials(tried);
        let controller = Shared::with_lessons(controller, &drawn);
        let frames = KeptFrames::default();
        self.run(environment, drawn, &call, &controller, Some(Box::new(frames.clone())))?;
        let mut controller = controller.lock();
        let mut pictures = outcomes(controller.take_lessons(), controller.take_trials(), &frames.take());
        pictures.truncate(self.pictures as usize);
        Ok(pictures)
    }
}

/// What is tried for each picture: the same for [`HELD`] of them in turn, from a random one on.
fn tries(spread: f32, pictures: u32, generator: &mut Pcg64) -> Vec<[f32; ADJUSTMENT]> {
    let phase = generator.random_range(0..HELD);
    let mut tried = [0.0; ADJUSTMENT];
    let any = |picture| {
        if picture == 0 || (picture + phase) % HELD == 0 {
            tried = std::array::from_fn(|_| spread * normal(generator) as f32);
        }
        tried
    };
    (0..pictures).map(any).collect()
}

/// What came of each picture.
fn outcomes(lessons: Vec<Lesson>, trials: Vec<Trial>, frames: &[LoggedFrame]) -> Vec<TriedPicture> {
    let unknown = |(lesson, trial)| TriedPicture { lesson, trial, shown_for: 0, ssim_db: 0.0, delay: 0.0 };
    let mut pictures: Vec<TriedPicture> = lessons.into_iter().zip(trials).map(unknown).collect();
    let (mut waiting, mut delay, mut known) = (0, 0.0, 0);
    for LoggedFrame { record, video_delay, followed } in frames {
        if !followed {
            break;
        }
        waiting += 1;
        delay += video_delay.as_secs_f64();
        let Some(ssim) = record.ssim.filter(|_| record.displayed_at.is_some()) else { continue };
        let decided = record.sent_at.unwrap_or(record.captured_at);
        let Some(place) = pictures.partition_point(|picture| picture.trial.at <= decided).checked_sub(1) else {
            continue;
        };
        // Decisions that were made for one frame are one picture's, but a busy encoder may have had two.
        pictures[place].shown_for += waiting;
        pictures[place].ssim_db += f64::from(waiting) * ssim_db(ssim);
        pictures[place].delay += delay;
        known = known.max(place + 1);
        (waiting, delay) = (0, 0.0);
    }
    pictures.truncate(known);
    pictures
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_call::{ClipCurves, CodecModel, FrameRecord};
    use lockstep_control::learned::{HORIZONS, MODEL_STATE, OBSERVED, shipped};
    use lockstep_link::Trace;
    use lockstep_media::FrameRate;
    use lockstep_units::{Bitrate, Timestamp};

    use super::*;

    fn decided(at_ms: u64) -> (Lesson, Trial) {
        let lesson = Lesson { seen: [0.0; OBSERVED], right: [0.0; HORIZONS.len()] };
        let at = Timestamp::from_millis(at_ms);
        (lesson, Trial { at, remembered: [0.0; MODEL_STATE], tried: [0.0; ADJUSTMENT], counts: true })
    }

    /// A picture that was captured, and sent and shown if so many milliseconds later.
    fn frame(captured_ms: u64, shown_after_ms: Option<u64>, video_delay_ms: u64) -> LoggedFrame {
        let captured_at = Timestamp::from_millis(captured_ms);
        let after = |time: u64| captured_at + Duration::from_millis(time);
        let record = FrameRecord {
            sent_at: shown_after_ms.map(|_| after(5)),
            displayed_at: shown_after_ms.map(after),
            ssim: shown_after_ms.map(|_| 0.9),
            ..FrameRecord::captured(0, captured_at)
        };
        LoggedFrame { record, video_delay: Duration::from_millis(video_delay_ms), followed: true }
    }

    #[test]
    fn the_frame_that_is_shown_answers_for_all_who_waited_for_it() {
        let (lessons, trials) = [0, 33, 66, 100].map(decided).into_iter().unzip();
        let frames = [frame(0, Some(60), 60), frame(33, None, 93), frame(66, Some(60), 60)];
        let pictures = outcomes(lessons, trials, &frames);
        let came: Vec<_> = pictures.iter().map(|picture| (picture.shown_for, (1e3 * picture.delay).round())).collect();
        assert_eq!(came, [(1, 60.0), (0, 0.0), (2, 153.0)], "of the last picture nothing is known");
        assert!((pictures[2].ssim_db - 20.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_tried_is_held_for_some_pictures_and_is_as_wide_as_asked_for() {
        let tried = tries(0.5, 4_000, &mut Pcg64::seed_from_u64(1));
        let changes = tried.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((998..=1_000).contains(&changes), "{changes}");
        let square = tried.iter().map(|one| one[0] * one[0]).sum::<f32>() / 4_000.0;
        assert!((square.sqrt() - 0.5).abs() < 0.05, "{square}");
        assert!(tries(0.0, 10, &mut Pcg64::seed_from_u64(1)).iter().all(|one| *one == [0.0; ADJUSTMENT]));
    }

    #[test]
    fn longer_deadlines_make_larger_frames_that_come_later_whatever_the_number_of_threads() {
        let clips = CodecModel::built_in().unwrap().clips;
        let setting = LessonSetting {
            traces: vec![Trace::constant(Bitrate::from_kbps(1_000))],
            clips: vec![Arc::new(ClipCurves::new(&clips[0], 640, 360))],
            frame_rates: vec![FrameRate::default()],
            delay: Duration::from_millis(20)..=Duration::from_millis(20),
            queue_packets: 200..=200,
            loss: 0.0..=0.0,
            jitter: Duration::ZERO..=Duration::ZERO,
            feedback: Vec::new(),
            pictures: 300,
        };
        let model = shipped::Shipped::Lockstep.model().unwrap();
        let calls = setting.try_out(&model, 0.6, 8, 1, 1).unwrap();
        assert_eq!(calls, setting.try_out(&model, 0.6, 8, 1, 2).unwrap());
        let means = |longer: bool| {
            let some = calls.iter().flatten().filter(|picture| {
                picture.trial.counts && picture.shown_for > 0 && (picture.trial.tried[1] > 0.0) == longer
            });
            let (mut count, mut ssim, mut delay) = (0.0, 0.0, 0.0);
            for picture in some {
                count += f64::from(picture.shown_for);
                ssim += picture.ssim_db;
                delay += picture.delay;
            }
            (ssim / count, delay / count)
        };
        let (longer, shorter) = (means(true), means(false));
        assert!(longer.0 > shorter.0 && longer.1 > shorter.1, "{longer:?} {shorter:?}");
    }
}
