//! Hashes, smooth noise and a sine that are the same on every platform.

/// Hash of `value`: the output step of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
pub(super) const fn hash(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash of two values.
pub(super) const fn pair(first: u64, second: u64) -> u64 {
    hash(hash(first) ^ second)
}

/// Uniform number from 0 to 1, excluding 1.
pub(super) fn unit(first: u64, second: u64) -> f32 {
    (pair(first, second) >> 40) as f32 / (1 << 24) as f32
}

/// Smooth step: 0 up to `from`, 1 from `to` on.
pub(super) fn smooth(from: f32, to: f32, x: f32) -> f32 {
    let t = ((x - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Sine of an angle in turns. A parabola with one correction; its error is below 0.001.
pub(super) fn sine(turns: f64) -> f64 {
    let t = 2.0 * (turns - turns.floor()) - 1.0;
    let parabola = -4.0 * t * (1.0 - t.abs());
    parabola + 0.225 * (parabola * parabola.abs() - parabola)
}

/// Smooth noise along a line, from -1 to 1. It changes direction about once per unit.
pub(super) fn smooth_noise(x: f64, seed: u64) -> f64 {
    let cell = x.floor();
    let t = x - cell;
    let t = t * t * (3.0 - 2.0 * t);
    let at = |cell: f64| f64::from(unit(seed, cell as i64 as u64)) * 2.0 - 1.0;
    at(cell) * (1.0 - t) + at(cell + 1.0) * t
}

/// Smooth noise in the plane, from -1 to 1, with grains of one unit.
pub(super) fn grain(x: f32, y: f32, seed: u32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let (u, v) = (x - left, y - top);
    let (u, v) = (u * u * (3.0 - 2.0 * u), v * v * (3.0 - 2.0 * v));
    let (left, top) = (left as i32, top as i32);
    let at = |dx: i32, dy: i32| {
        let mut h = seed
            ^ (left.wrapping_add(dx) as u32).wrapping_mul(0x85eb_ca6b)
            ^ (top.wrapping_add(dy) as u32).wrapping_mul(0xc2b2_ae35);
        h ^= h >> 15;
        h = h.wrapping_mul(0x2c1b_3c6d);
        h ^= h >> 12;
        h = h.wrapping_mul(0x297a_2d39);
        (h >> 16) as f32 / 32_768.0 - 1.0
    };
    let upper = at(0, 0) * (1.0 - u) + at(1, 0) * u;
    let lower = at(0, 1) * (1.0 - u) + at(1, 1) * u;
    upper * (1.0 - v) + lower * v
}

/// Three octaves of [`grain`], from about -1 to 1.
pub(super) fn texture(x: f32, y: f32, seed: u32) -> f32 {
    0.57 * grain(x, y, seed) + 0.29 * grain(2.0 * x, 2.0 * y, seed ^ 1) + 0.14 * grain(4.0 * x, 4.0 * y, seed ^ 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_approximates_the_library_sine() {
        for step in -2000..2000 {
            let turns = f64::from(step) * 0.001;
            assert!((sine(turns) - (turns * std::f64::consts::TAU).sin()).abs() < 0.0015, "{turns}");
        }
    }

    #[test]
    fn noise_is_continuous_and_bounded() {
        for step in 0..4000 {
            let x = step as f32 * 0.01 - 20.0;
            let (here, next) = (texture(x, 1.3 * x, 5), texture(x + 0.001, 1.3 * x, 5));
            assert!((here - next).abs() < 0.02 && here.abs() <= 1.0);
            assert!(smooth_noise(f64::from(x), 9).abs() <= 1.0);
        }
    }
}
