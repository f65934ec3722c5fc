//! Smaller versions of a captured picture, for receivers that show it small.

use lockstep_vp8::{Picture, Plane};

/// A picture and its halves, which are computed when they are needed.
pub(crate) struct Halves(Vec<Picture>);

impl Halves {
    /// The picture in its own size.
    pub(crate) fn of(picture: Picture) -> Self {
        Self(vec![picture])
    }

    /// The picture, halved as often as it still fills `shown`, a width and a height in pixels.
    pub(crate) fn at_least(&mut self, shown: (usize, usize)) -> Picture {
        let mut level = 0;
        loop {
            let picture = &self.0[level];
            let is_enough = picture.width() / 2 >= shown.0 && picture.height() / 2 >= shown.1;
            if !is_enough {
                return picture.clone();
            }
            level += 1;
            if level == self.0.len() {
                let Some(half) = half(&self.0[level - 1]) else { return self.0[level - 1].clone() };
                self.0.push(half);
            }
        }
    }
}

/// Half the picture in each direction, rounded down. `None` if a side is shorter than two samples.
fn half(picture: &Picture) -> Option<Picture> {
    let (width, height) = (picture.width() / 2, picture.height() / 2);
    let mut samples = Vec::with_capacity(Picture::i420_length(width, height));
    for (plane, (width, height)) in picture.planes().iter().zip(sizes(width, height)) {
        halve(plane, width, height, &mut samples);
    }
    Picture::from_i420(width, height, samples).ok()
}

/// Sizes of the planes of a picture.
fn sizes(width: usize, height: usize) -> [(usize, usize); 3] {
    let chroma = (width.div_ceil(2), height.div_ceil(2));
    [(width, height), chroma, chroma]
}

/// Appends the means of two by two samples. The last row or column repeats where a plane is too short.
fn halve(plane: &Plane, width: usize, height: usize, samples: &mut Vec<u8>) {
    let last_row = plane.height() - 1;
    for y in 0..height {
        let (upper, lower) = (plane.row((2 * y).min(last_row)), plane.row((2 * y + 1).min(last_row)));
        let last = upper.len() - 1;
        samples.extend((0..width).map(|x| {
            let (left, right) = ((2 * x).min(last), (2 * x + 1).min(last));
            let sum: u32 = [upper[left], upper[right], lower[left], lower[right]].map(u32::from).iter().sum();
            ((sum + 2) / 4) as u8
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: usize, height: usize) -> Picture {
        let samples = (0..Picture::i420_length(width, height)).map(|at| (at * 7) as u8).collect();
        Picture::from_i420(width, height, samples).expect("a picture")
    }

    #[test]
    fn picture_is_halved_as_often_as_it_fills_its_place() {
        let mut halves = Halves::of(picture(640, 360));
        let mut width_for = |shown| halves.at_least(shown).width();
        assert_eq!(width_for((640, 360)), 640);
        assert_eq!(width_for((321, 100)), 640);
        assert_eq!(width_for((320, 181)), 640);
        assert_eq!(width_for((320, 180)), 320);
        assert_eq!(width_for((160, 90)), 160);
        assert_eq!(width_for((0, 0)), 2, "a picture never vanishes");
    }

    #[test]
    fn half_is_the_mean_of_four_samples() {
        let whole = Picture::from_i420(4, 2, vec![0, 10, 4, 4, 20, 30, 4, 5, 8, 16, 100, 102]).expect("a picture");
        assert_eq!(half(&whole).expect("two rows").to_i420(), [15, 4, 12, 101]);
        for (width, height) in [(5, 3), (2, 2), (3, 7)] {
            let half = half(&picture(width, height)).expect("two rows");
            assert_eq!((half.width(), half.height()), (width / 2, height / 2));
        }
        assert!(half(&picture(1, 9)).is_none());
    }
}
