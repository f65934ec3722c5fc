//! Movement of the person: a pose for each time.

use super::random::{pair, sine, smooth_noise, unit};

/// Mean time between blinks, seconds.
const BLINK_INTERVAL: f64 = 3.4;
/// Duration of a blink, seconds.
const BLINK_LENGTH: f64 = 0.22;
/// Interval between possible bursts of nods, seconds.
const NOD_INTERVAL: f64 = 4.7;

/// Pose of the person at one time. Distances are in units of half a head's height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pose {
    /// Shift of the head to the right.
    pub head_x: f64,
    /// Downward shift of the head.
    pub head_y: f64,
    /// Lean of the head to the right, shift per unit of height.
    pub lean: f64,
    /// Shift of the face to the right on the head, which shows turning.
    pub turn: f64,
    /// Downward shift of the face on the head, which shows nodding.
    pub nod: f64,
    /// Shift of the body to the right.
    pub body_x: f64,
    /// Downward shift of the body.
    pub body_y: f64,
    /// Opening of the mouth, 0 to 1.
    pub mouth: f64,
    /// Closing of the eyes, 0 to 1.
    pub eyelids: f64,
}

impl Pose {
    /// The pose at a time in seconds.
    pub(super) fn at(time: f64, seed: u64) -> Self {
        let strand = |number: u64| pair(seed, number);
        let phase = |number: u64| f64::from(unit(seed, 100 + number));

        // Phrases last two or three seconds, with pauses between them. They have about four syllables per second.
        let speaking = (0.75 + 1.6 * smooth_noise(time * 0.42, strand(0))).clamp(0.0, 1.0);
        let syllables = 0.5 + 0.5 * sine(time * 4.1 + 0.35 * smooth_noise(time * 2.3, strand(1)));
        let stress = 0.65 + 0.35 * smooth_noise(time * 1.7, strand(2));
        let mouth = (speaking * syllables * stress).clamp(0.0, 1.0);

        let sway = 0.10 * smooth_noise(time * 0.31, strand(3)) + 0.045 * smooth_noise(time * 0.9, strand(4));
        let bob = 0.035 * smooth_noise(time * 0.8, strand(5)) + 0.030 * speaking * smooth_noise(time * 2.1, strand(6));
        let nodding = Self::nodding(time, seed);
        let breath = sine(time * 0.27 + phase(0));
        let turn =
            0.075 * smooth_noise(time * 0.37, strand(7)) + 0.025 * speaking * smooth_noise(time * 1.3, strand(8));
        Self {
            head_x: sway + 0.3 * turn,
            head_y: bob + 0.055 * nodding + 0.008 * breath,
            lean: 0.055 * smooth_noise(time * 0.45, strand(9)) + 0.15 * sway,
            turn,
            nod: 0.03 * smooth_noise(time * 0.6, strand(10)) + 0.055 * nodding,
            body_x: 0.55 * sway,
            body_y: 0.012 * breath + 0.25 * bob,
            mouth,
            eyelids: Self::blinking(time, seed),
        }
    }

    /// Nodding at a time: bursts of two or three nods in about half of the intervals.
    fn nodding(time: f64, seed: u64) -> f64 {
        let burst = (time / NOD_INTERVAL).floor();
        let chance = f64::from(unit(seed ^ 0x40d, burst as u64));
        let since = time - burst * NOD_INTERVAL - chance * 2.0;
        let length = 1.3;
        if chance > 0.55 || !(0.0..length).contains(&since) {
            return 0.0;
        }
        let swell = sine(since / length * 0.5);
        swell * sine(since * 1.9)
    }

    fn blinking(time: f64, seed: u64) -> f64 {
        let blink = (time / BLINK_INTERVAL).floor();
        let start = (blink + 0.9 * f64::from(unit(seed ^ 0xb11, blink as u64))) * BLINK_INTERVAL;
        let part = (time - start) / BLINK_LENGTH;
        if (0.0..1.0).contains(&part) { (1.6 * sine(part * 0.5)).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_speech_pauses_blinks_and_nods() {
        for seed in 0..8 {
            let poses: Vec<Pose> = (0..1800).map(|frame| Pose::at(f64::from(frame) / 30.0, seed)).collect();
            let share = |test: fn(&Pose) -> bool| poses.iter().filter(|pose| test(pose)).count();
            assert!(share(|pose| pose.mouth > 0.3) > 200);
            assert!(share(|pose| pose.mouth < 0.02) > 100);
            assert!((30..240).contains(&share(|pose| pose.eyelids > 0.5)));
            assert!(share(|pose| pose.nod.abs() > 0.03) > 20);
        }
    }

    #[test]
    fn motion_is_continuous_from_frame_to_frame() {
        for frame in 0..9000 {
            let (here, next) = (f64::from(frame) / 30.0, f64::from(frame + 1) / 30.0);
            let (here, next) = (Pose::at(here, 5), Pose::at(next, 5));
            for (a, b, limit) in [
                (here.head_x, next.head_x, 0.03),
                (here.head_y, next.head_y, 0.04),
                (here.lean, next.lean, 0.02),
                (here.body_x, next.body_x, 0.02),
            ] {
                assert!((a - b).abs() < limit, "frame {frame}: {a} to {b}");
            }
        }
    }
}
