//! The person in the generated clip. Its parts are painted once: hair behind, body, head, and face with several states
//! of eyelids and mouth. The parts then move against each other. Coordinates are in units of half a head's height, from
//! the middle of the head.

use super::motion::Pose;
use super::random::{grain, smooth, texture, unit};
use super::sprite::{Area, Canvas, Placement, Rgb, Sprite, mix, shade};

/// States of the mouth, from closed to open.
const MOUTHS: usize = 14;
/// States of the eyelids, from open to closed.
const EYELIDS: usize = 5;
/// Maximum movement of a part, units.
const REACH: f32 = 0.35;
/// Height of the pivot of the head: the neck.
const NECK: f32 = 1.0;

/// Appearance and seat of the person.
pub(super) struct Look {
    skin: Rgb,
    hair: Rgb,
    clothes: Rgb,
    trim: Rgb,
    pattern: Pattern,
    long_hair: bool,
    beard: bool,
    glasses: bool,
    /// Half of the head's height, in heights of the picture.
    scale: f32,
    /// Shift from the middle, in heights of the picture.
    shift: f32,
    /// Distance from the top of the picture to the middle of the head, in heights of the picture.
    drop: f32,
}

#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    Knit,
    Plaid,
    Stripes,
    Suit,
}

impl Look {
    /// The look in a scene. The scene selects the kind of person, the seed varies it.
    pub(super) fn new(scene: u64, seed: u64) -> Self {
        const SKINS: [Rgb; 5] =
            [[0.86, 0.66, 0.54], [0.48, 0.32, 0.23], [0.91, 0.73, 0.62], [0.67, 0.47, 0.34], [0.80, 0.59, 0.45]];
        const HAIRS: [Rgb; 5] =
            [[0.23, 0.15, 0.10], [0.09, 0.07, 0.07], [0.62, 0.44, 0.22], [0.12, 0.10, 0.10], [0.50, 0.48, 0.46]];
        const CLOTHES: [Rgb; 5] =
            [[0.20, 0.32, 0.46], [0.60, 0.20, 0.18], [0.36, 0.47, 0.38], [0.78, 0.76, 0.70], [0.17, 0.18, 0.22]];
        let number = (scene % 5) as usize;
        let dice = |salt: u64| unit(seed, 900 + salt) - 0.5;
        let vary = |colour: Rgb, salt: u64| shade(colour, 1.0 + 0.14 * dice(salt));
        Self {
            skin: vary(SKINS[number], 0),
            hair: vary(HAIRS[number], 1),
            clothes: vary(CLOTHES[number], 2),
            trim: [[0.85, 0.84, 0.80], [0.15, 0.14, 0.18], [0.88, 0.86, 0.78], [0.25, 0.34, 0.50], [0.50, 0.14, 0.16]]
                [number],
            pattern: [Pattern::Knit, Pattern::Plaid, Pattern::Knit, Pattern::Stripes, Pattern::Suit][number],
            long_hair: matches!(number, 1 | 2),
            beard: matches!(number, 3),
            glasses: matches!(number, 0 | 4),
            scale: [0.235, 0.215, 0.27, 0.20, 0.225][number],
            shift: [0.02, -0.10, -0.16, 0.05, 0.14][number] + 0.05 * dice(3),
            drop: [0.43, 0.42, 0.45, 0.42, 0.41][number],
        }
    }
}

/// A painted person.
pub(super) struct Person {
    hair_behind: Option<Sprite>,
    body: Sprite,
    head: Sprite,
    eyes: [Sprite; EYELIDS],
    mouths: [Sprite; MOUTHS],
    /// Samples per unit.
    scale: f64,
    /// Row of the neck, samples.
    pivot: i32,
}

/// A point to paint: its coordinates and the size of a sample there.
#[derive(Clone, Copy)]
struct Spot {
    x: f32,
    y: f32,
    pixel: f32,
    noise: u32,
}

impl Spot {
    /// Share of a sample inside the shape, from its distance to the edge.
    fn cover(self, distance: f32) -> f32 {
        (0.5 - distance / self.pixel).clamp(0.0, 1.0)
    }

    /// Approximate distance to the edge of an ellipse, negative inside.
    fn ellipse(self, middle: (f32, f32), half: (f32, f32)) -> f32 {
        let (x, y) = ((self.x - middle.0) / half.0, (self.y - middle.1) / half.1);
        ((x * x + y * y).sqrt() - 1.0) * half.0.min(half.1)
    }

    /// 1 in the middle of an ellipse, 0 from its edge on.
    fn spread(self, middle: (f32, f32), half: (f32, f32)) -> f32 {
        let (x, y) = ((self.x - middle.0) / half.0, (self.y - middle.1) / half.1);
        let rest = (1.0 - x * x - y * y).max(0.0);
        rest * rest
    }
}

/// Layered colours.
#[derive(Clone, Copy)]
struct Paint {
    colour: Rgb,
    opacity: f32,
}

impl Paint {
    const NOTHING: Self = Self { colour: [0.0; 3], opacity: 0.0 };

    fn over(self, colour: Rgb, opacity: f32) -> Self {
        let total = opacity + self.opacity * (1.0 - opacity);
        if total <= 0.0 {
            return Self::NOTHING;
        }
        Self { colour: mix(self.colour, colour, opacity / total), opacity: total }
    }
}

impl Person {
    /// Paints all parts of a person for pictures of this size.
    pub(super) fn paint(width: usize, height: usize, look: &Look, seed: u64) -> Self {
        let (columns, rows) = (width as f32, height as f32);
        let scale = (look.scale * rows).min(0.3 * columns).max(1.0);
        let (middle_x, middle_y) =
            (columns * 0.5 + (look.shift * rows).clamp(-0.15 * columns, 0.15 * columns), look.drop * rows);
        let reach = REACH * scale + 4.0;
        let seen = Area {
            left: -reach as i32,
            top: -reach as i32,
            right: (columns + reach) as i32,
            bottom: (rows + reach) as i32,
        };
        let part = |left: f32, top: f32, right: f32, bottom: f32, painter: &dyn Fn(Spot) -> Paint| {
            let area = Area {
                left: (middle_x + left * scale) as i32,
                top: (middle_y + top * scale) as i32,
                right: (middle_x + right * scale) as i32,
                bottom: (middle_y + bottom * scale) as i32,
            };
            Sprite::paint(area.within(seen), |x, y| {
                let spot = Spot {
                    x: (x - middle_x) / scale,
                    y: (y - middle_y) / scale,
                    pixel: 1.0 / scale,
                    noise: seed as u32,
                };
                let Paint { colour, opacity } = painter(spot);
                (colour, opacity)
            })
        };
        let step = |number: usize, states: usize| number as f32 / (states - 1) as f32;
        Self {
            hair_behind: look.long_hair.then(|| part(-1.15, -1.15, 1.15, 1.95, &|spot| look.hair_behind(spot))),
            body: part(-2.3, 0.3, 2.3, 6.0, &|spot| look.body(spot)),
            head: part(-1.0, -1.25, 1.0, 1.1, &|spot| look.head(spot)),
            eyes: std::array::from_fn(|i| part(-0.7, -0.45, 0.7, 0.42, &|spot| look.eyes(spot, step(i, EYELIDS)))),
            mouths: std::array::from_fn(|i| part(-0.4, 0.36, 0.4, 0.86, &|spot| look.mouth(spot, step(i, MOUTHS)))),
            scale: f64::from(scale),
            pivot: (middle_y + NECK * scale) as i32,
        }
    }

    /// Draws the person.
    pub(super) fn draw(&self, canvas: &mut Canvas, pose: &Pose) {
        let sixteenths = |units: f64| (units * self.scale * 16.0 + 0.5).floor() as i32;
        let lean = (pose.lean * 4096.0 + 0.5).floor() as i32;
        let place =
            |x: f64, y: f64, lean: i32| Placement { x: sixteenths(x), y: sixteenths(y), lean, pivot: self.pivot };
        let state = |share: f64, states: usize| ((share * (states - 1) as f64 + 0.5) as usize).min(states - 1);
        let head = place(pose.head_x, pose.head_y, lean);
        let face = place(pose.head_x + pose.turn, pose.head_y + pose.nod, lean);
        if let Some(hair) = &self.hair_behind {
            hair.draw(canvas, place(pose.head_x * 0.9, pose.head_y, lean / 2));
        }
        self.body.draw(canvas, place(pose.body_x, pose.body_y, 0));
        self.head.draw(canvas, head);
        self.eyes[state(pose.eyelids, EYELIDS)].draw(canvas, face);
        self.mouths[state(pose.mouth, MOUTHS)].draw(canvas, face);
    }
}

impl Look {
    /// Colour of the hair: strands in the direction of combing.
    fn strands(&self, spot: Spot) -> Rgb {
        let bend = 0.35 * spot.x * spot.y;
        let strand = grain((spot.x + bend) * 42.0, spot.y * 3.0 + spot.x * 2.0, spot.noise);
        let fine = grain((spot.x + bend) * 110.0, spot.y * 7.0, spot.noise ^ 5);
        let shine = smooth(0.35, 0.0, (spot.y + 0.72 - 0.3 * spot.x * spot.x).abs());
        let gloss = 0.28 * shine * (0.6 + 0.4 * strand);
        let light = 0.86 + 0.24 * strand + 0.12 * fine - 0.12 * spot.x;
        mix(shade(self.hair, light), [0.9, 0.85, 0.78], gloss * 0.5)
    }

    /// Colour of the skin, lit from above on the left.
    fn lit_skin(&self, spot: Spot) -> Rgb {
        let (x, y) = (spot.x / 0.80, spot.y / 1.06);
        let z = (1.0 - x * x - y * y).max(0.0).sqrt();
        let lit = (-0.42 * x - 0.40 * y + 0.81 * z).max(0.0);
        let pores = 0.022 * texture(spot.x * 34.0, spot.y * 34.0, spot.noise);
        let blotches = 0.030 * texture(spot.x * 5.0, spot.y * 5.0, spot.noise ^ 3);
        let base = shade(self.skin, 0.58 + 0.50 * lit + pores + blotches);
        let blush = spot.spread((-0.42, 0.22), (0.3, 0.26)) + spot.spread((0.42, 0.22), (0.3, 0.26));
        [base[0] * (1.0 + 0.04 * blush), base[1] * (1.0 - 0.07 * blush), base[2] * (1.0 - 0.05 * blush)]
    }

    fn head(&self, spot: Spot) -> Paint {
        let Spot { x, y, .. } = spot;
        let mut paint = Paint::NOTHING;
        for side in [-1.0, 1.0] {
            let ear = spot.ellipse((0.76 * side, 0.02), (0.10, 0.20));
            let inner = spot.spread((0.78 * side, 0.03), (0.06, 0.13));
            paint = paint
                .over(mix(shade(self.skin, 0.80 - 0.1 * side), shade(self.skin, 0.5), 0.7 * inner), spot.cover(ear));
        }
        // The jaw is narrower than the temples.
        let low = y.clamp(0.0, 1.0);
        let half = 0.75 - 0.20 * low * low;
        let outline = ((x / half) * (x / half) + y * y).sqrt() - 1.0;
        let skin_cover = spot.cover(outline * 0.7);
        let mut skin = self.lit_skin(spot);
        let chin_shade = smooth(0.80, 1.0, y) * 0.18 + smooth(-0.14, 0.0, outline) * 0.14;
        skin = shade(skin, 1.0 - chin_shade);
        if self.beard {
            let rim = smooth(0.15, 0.50, y + 0.55 * x * x - 0.15)
                * smooth(0.23, 0.34, spot.ellipse((0.0, 0.50), (0.05, 0.05)) + 0.16);
            let bristles = 0.75 + 0.25 * grain(x * 60.0, y * 26.0, spot.noise ^ 8);
            skin = mix(skin, shade(self.strands(spot), 0.9), (rim * bristles).clamp(0.0, 0.92));
        }
        paint = paint.over(skin, skin_cover);
        // Hair above the hairline and down the temples.
        let ragged = 0.035 * grain(x * 22.0, y * 3.0, spot.noise ^ 4) + 0.02 * grain(x * 60.0, 0.0, spot.noise ^ 6);
        let parting = 0.10 * (x - 0.2);
        let hairline = -0.60
            + 0.50 * x * x
            + 0.9 * smooth(0.52, 0.78, x.abs()) * (0.45 + 0.3 * f32::from(u8::from(self.long_hair)))
            + parting
            + ragged;
        let outer = spot.ellipse((0.0, -0.06), (0.83, 1.05)) + 0.5 * ragged;
        let below = (y - hairline) * 0.8;
        let shadow = smooth(0.13, 0.0, below) * skin_cover;
        paint = paint.over(shade(self.skin, 0.45), 0.40 * shadow);
        paint.over(self.strands(spot), spot.cover(outer.max(below)))
    }

    fn hair_behind(&self, spot: Spot) -> Paint {
        let half = 0.90 + 0.10 * smooth(-0.2, 1.0, spot.y) + 0.03 * grain(spot.y * 4.0, 0.0, spot.noise);
        let top = spot.ellipse((0.0, -0.05), (0.92, 1.08));
        let fall = (spot.x.abs() - half).max(-spot.y).max(spot.y - 1.6 - 0.12 * grain(spot.x * 12.0, 3.0, spot.noise));
        let depth = 0.55 + 0.35 * smooth(0.55, 0.95, spot.x.abs());
        Paint::NOTHING.over(shade(self.strands(spot), depth), spot.cover(top.min(fall)))
    }

    fn body(&self, spot: Spot) -> Paint {
        let Spot { x, y, .. } = spot;
        let mut paint = Paint::NOTHING;
        let neck = (x.abs() - 0.36 - 0.25 * smooth(1.05, 1.5, y) * smooth(1.05, 1.5, y)).max(0.45 - y);
        let under_chin = 1.0 - 0.38 * smooth(1.42, 0.85, y + 0.10 * x);
        let round = 0.98 - 0.35 * (x + 0.12) * (x + 0.12) / 0.2;
        let sinew = 0.04 * texture(x * 9.0, y * 3.0, spot.noise);
        paint = paint.over(shade(self.skin, (round * under_chin + sinew).max(0.15)), spot.cover(neck));
        // Shoulders: flat by the neck, falling off at the arms.
        let beyond = (x.abs() - 1.25).max(0.0);
        let shoulder = 1.20 + 0.17 * x * x + 1.6 * beyond * beyond + 3.0 * beyond * beyond * beyond;
        let opening =
            if self.pattern == Pattern::Suit { 0.50 - 0.28 * (y - 1.15) } else { 0.46 - 0.85 * (y - 1.15).max(0.0) };
        let cloth = ((shoulder - y) * 0.85).max((opening - x.abs()) * 0.75);
        let covered = spot.cover(cloth);
        if self.pattern == Pattern::Suit {
            let shirt = ((1.12 + 0.3 * x.abs() - y) * 0.9).max(x.abs() - 0.62);
            let folds = 0.93 + 0.06 * texture(x * 5.0, y * 4.0, spot.noise ^ 2);
            paint = paint.over(shade([0.86, 0.87, 0.90], folds), spot.cover(shirt));
            let knot = (x.abs() - 0.085 - 0.05 * smooth(1.5, 2.6, y)).max(1.28 - y);
            let stripe = if ((x + y) * 9.0).rem_euclid(1.0) < 0.3 { 1.35 } else { 1.0 };
            paint = paint.over(shade(self.trim, stripe * folds), spot.cover(knot));
        }
        paint = paint.over(shade(self.skin, 0.35), 0.45 * smooth(0.06, 0.0, cloth) * (1.0 - covered) * paint.opacity);
        paint.over(self.cloth(spot, cloth), covered)
    }

    /// Colour of the clothing. `edge` is the distance to its edge, negative inside.
    fn cloth(&self, spot: Spot, edge: f32) -> Rgb {
        let Spot { x, y, noise, .. } = spot;
        let folds = texture(x * 1.7 + 0.5 * y, y * 1.1 - 0.4 * x.abs(), noise ^ 11);
        let crease = 1.0 - (folds * 6.0).abs().min(1.0);
        let light = 0.94 + 0.20 * folds + 0.05 * crease - 0.10 * x - 0.10 * (x.abs() - 1.1).max(0.0);
        let weave = match self.pattern {
            Pattern::Knit => {
                let rib = ((x * 26.0 + 0.3 * folds).rem_euclid(1.0) - 0.5).abs();
                let purl = ((y * 38.0 + rib).rem_euclid(1.0) - 0.5).abs();
                0.88 + 0.22 * rib + 0.14 * purl
            }
            _ => 1.0,
        } + 0.05 * grain(x * 70.0, y * 70.0, noise ^ 12);
        let mut colour = match self.pattern {
            Pattern::Knit => self.clothes,
            Pattern::Plaid => {
                let (across, down) =
                    ((x * 3.2 + 0.06 * folds).rem_euclid(1.0), (y * 3.2 + 0.05 * folds).rem_euclid(1.0));
                let band = |at: f32| smooth(0.30, 0.34, at) * smooth(0.70, 0.66, at);
                let line = |at: f32| smooth(0.06, 0.03, (at - 0.08).abs());
                let base = mix(self.clothes, self.trim, 0.42 * band(across) + 0.42 * band(down));
                mix(base, [0.85, 0.78, 0.62], 0.45 * (line(across) + line(down)).min(1.0))
            }
            Pattern::Stripes => {
                let stripe = (y * 5.0 + 0.35 * x * x + 0.10 * folds).rem_euclid(1.0);
                mix(self.clothes, self.trim, smooth(0.60, 0.64, stripe) * smooth(1.0, 0.96, stripe))
            }
            Pattern::Suit => {
                let pin = ((x * 14.0 + 0.2 * folds).rem_euclid(1.0) - 0.5).abs();
                let lapel = smooth(0.02, 0.0, (edge + 0.20 + 0.06 * (y - 1.5)).abs());
                shade(mix(self.clothes, [0.5, 0.5, 0.54], 0.35 * smooth(0.08, 0.0, pin)), 1.0 - 0.5 * lapel)
            }
        };
        let collar = smooth(-0.085, -0.075, edge) * smooth(2.1, 1.9, y) * smooth(0.9, 0.7, x.abs());
        if self.pattern != Pattern::Suit {
            colour = mix(colour, shade(self.trim, 0.8 + 0.4 * ((x * 40.0).rem_euclid(1.0) - 0.5).abs()), 0.85 * collar);
        }
        shade(colour, light * weave)
    }

    fn eyes(&self, spot: Spot, closed: f32) -> Paint {
        let Spot { x, y, .. } = spot;
        let mut paint = Paint::NOTHING;
        // Nose: a shadow on one side, light on the other, nostrils.
        paint = paint.over(shade(self.skin, 0.45), 0.40 * spot.spread((0.13, 0.14), (0.10, 0.30)));
        paint = paint.over([1.0, 0.93, 0.86], 0.28 * spot.spread((-0.015, 0.10), (0.055, 0.30)));
        paint = paint.over([1.0, 0.95, 0.90], 0.30 * spot.spread((-0.03, 0.235), (0.07, 0.06)));
        paint = paint.over(shade(self.skin, 0.35), 0.55 * spot.spread((0.02, 0.345), (0.20, 0.05)));
        for side in [-1.0, 1.0] {
            paint = paint.over([0.18, 0.09, 0.07], 0.8 * spot.spread((0.075 * side, 0.305), (0.05, 0.032)));
            paint = paint.over(shade(self.skin, 0.5), 0.35 * spot.spread((0.14 * side, 0.27), (0.05, 0.09)));
            // Sockets, brows.
            paint = paint.over(shade(self.skin, 0.50), 0.42 * spot.spread((0.29 * side, -0.14), (0.26, 0.17)));
            paint = paint.over(shade(self.skin, 0.55), 0.25 * spot.spread((0.29 * side, 0.03), (0.18, 0.06)));
            let along = x * side - 0.30;
            let thick = 0.034 - 0.035 * along;
            let brow = ((y + 0.285 - 0.55 * along * along - 0.06 * along).abs() - thick).max(along.abs() - 0.19);
            let hairs = 0.72 + 0.28 * grain(x * 70.0 + y * 40.0, y * 20.0, spot.noise ^ 9);
            paint = paint.over(shade(self.hair, 0.75), hairs * spot.cover(brow * 0.8).min(smooth(0.01, -0.03, brow)));
            // Eyeball between the lids.
            let (across, height) = (x - 0.29 * side, 0.082 * (1.0 - 0.92 * closed));
            let lid = 1.0 - (across / 0.15) * (across / 0.15);
            let middle = -0.09 + 0.055 * closed;
            let opening = ((y - middle).abs() - height * lid.max(0.0)).max(across.abs() - 0.15);
            let lash = (y - (middle - height * lid)).abs() - 0.013;
            let crease = (y - (middle - 0.045 - height * lid)).abs() - 0.008;
            if lid > 0.0 {
                let skin_lid = spot.cover((y - middle).abs() - 0.09 * lid);
                paint = paint.over(shade(self.skin, 0.78), skin_lid * closed);
            }
            let ball = shade([0.90, 0.88, 0.86], 0.72 + 0.28 * smooth(-0.09, 0.0, y - middle));
            let (dx, dy) = (across, y + 0.093);
            let radius = (dx * dx + dy * dy).sqrt();
            let rays = 0.85 + 0.3 * grain(dx * 60.0, dy * 60.0, spot.noise ^ 13);
            let mut eye = mix(ball, shade([0.32, 0.25, 0.16], rays), spot.cover(radius - 0.075));
            eye = mix(eye, [0.03, 0.03, 0.03], spot.cover(radius - 0.034));
            let glint = ((dx + 0.025) * (dx + 0.025) + (dy + 0.027) * (dy + 0.027)).sqrt();
            eye = mix(eye, [0.98, 0.98, 0.98], spot.cover(glint - 0.014));
            paint = paint.over(eye, spot.cover(opening));
            if lid > -0.15 {
                paint = paint.over([0.10, 0.06, 0.05], 0.88 * spot.cover(lash) * smooth(-0.15, 0.1, lid));
                paint = paint.over(shade(self.skin, 0.5), 0.5 * spot.cover(crease) * smooth(0.1, 0.4, lid));
            }
            if self.glasses {
                let (gx, gy) = ((across.abs() - 0.15).max(0.0), ((y + 0.06).abs() - 0.09).max(0.0));
                let lens = (gx * gx + gy * gy).sqrt() - 0.075;
                let reflection = smooth(0.03, 0.0, (x * 0.8 + y * 0.6 - 0.21 * side + 0.05).abs());
                paint = paint.over([0.9, 0.95, 1.0], spot.cover(lens) * (0.05 + 0.09 * reflection));
                let rim = lens.abs() - 0.016;
                let temple = ((y + 0.10).abs() - 0.018).max(0.5 - x * side).max(x * side - 0.69);
                let bridge = ((y + 0.09 - 0.4 * x * x).abs() - 0.014).max(x.abs() - 0.08);
                paint = paint.over([0.07, 0.07, 0.08], 0.95 * spot.cover(rim.min(bridge).min(temple)));
            }
        }
        paint
    }

    fn mouth(&self, spot: Spot, open: f32) -> Paint {
        let Spot { x, y, .. } = spot;
        let half = 0.27 - 0.045 * open;
        let bow = 1.0 - (x / half) * (x / half);
        let line = 0.535 - 0.02 * (x / half) * (x / half) + 0.02 * open;
        let (up, down) = (0.025 * open, 0.135 * open);
        let dip = 0.022 * smooth(0.07, 0.0, x.abs());
        let mut paint = Paint::NOTHING;
        paint = paint.over(shade(self.skin, 0.45), 0.40 * spot.spread((0.01, line + down + 0.115), (0.18, 0.05)));
        paint = paint.over(shade(self.skin, 0.6), 0.28 * spot.spread((0.0, 0.42), (0.05, 0.09)));
        if bow <= -0.1 {
            return paint;
        }
        let bow = bow.max(0.0);
        let full = bow.sqrt();
        let lip_top = line - up * full - (0.052 * bow + 0.008) + dip * bow;
        let lip_bottom = line + down * full + 0.068 * full * bow + 0.006;
        let lips = (lip_top - y).max(y - lip_bottom);
        let wrinkles = 0.94 + 0.10 * grain(x * 55.0, y * 6.0, spot.noise ^ 14);
        let red = mix(self.skin, [0.62, 0.24, 0.24], 0.52);
        let lower = smooth(line, line + 0.03, y);
        let gloss = 0.22 * smooth(0.03, 0.0, (y - lip_bottom + 0.04).abs()) * smooth(0.16, 0.0, x.abs());
        let lip = mix(shade(red, wrinkles * (0.80 + 0.16 * lower)), [1.0, 0.92, 0.90], gloss);
        paint = paint.over(lip, spot.cover(lips) * 0.94);
        let inside = (line - up * full - y).max(y - line - down * full);
        let mut hollow: Rgb = [0.16, 0.05, 0.05];
        let teeth = y - line + up * full;
        hollow = mix(
            hollow,
            [0.86, 0.83, 0.76],
            smooth(0.035 + 0.02 * open, 0.02, teeth) * smooth(0.9, 0.7, x.abs() / half) * smooth(0.12, 0.3, open),
        );
        hollow = mix(hollow, [0.55, 0.24, 0.24], 0.8 * spot.spread((0.0, line + down + 0.01), (0.15, 0.07)) * open);
        let seam = ((y - line).abs() - 0.010).max(-bow);
        paint = paint.over([0.25, 0.10, 0.09], 0.85 * spot.cover(seam) * smooth(0.0, 0.1, bow));
        paint.over(hollow, spot.cover(inside) * smooth(0.02, 0.10, open))
    }
}
