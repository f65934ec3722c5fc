//! The rooms of the generated clip. Coordinates are in heights of the picture: u from the middle to the right, v from
//! the top.

use super::random::{grain, smooth, texture, unit};
use super::sprite::{Canvas, Rgb, mix, shade};

/// Paints the room of a scene.
pub(super) fn paint(width: usize, height: usize, scene: u64, seed: u64) -> Canvas {
    let unit_length = 1.0 / height as f32;
    let middle = width as f32 * 0.5;
    let pixel = 2.0 * unit_length;
    let room = Room { seed, noise: seed as u32, pixel, side: middle * unit_length };
    Canvas::paint(width, height, |x, y| {
        let u = (2.0 * x as f32 + 1.0 - middle) * unit_length;
        let v = (2.0 * y as f32 + 1.0) * unit_length;
        let colour = match scene % 5 {
            // Dim, like a wall of books behind a lit face. Its contrast must not exceed that of the person.
            0 => mix([0.27, 0.20, 0.15], room.bookshelf(u, v), 0.58),
            1 => room.living_room(u, v),
            2 => room.window(u, v),
            3 => room.brick_wall(u, v),
            _ => room.office(u, v),
        };
        let from_middle = (u * u + (v - 0.45) * (v - 0.45)) / (room.side * room.side + 0.3);
        let light = 1.04 - 0.28 * from_middle + 0.06 * grain(u * 1.5 + 7.0, v * 1.5, room.noise);
        shade(colour, light)
    })
}

struct Room {
    seed: u64,
    noise: u32,
    /// Size of a painted sample.
    pixel: f32,
    /// Half of the picture's width.
    side: f32,
}

/// Signed distance to a rounded rectangle, negative inside.
fn rectangle(u: f32, v: f32, middle: (f32, f32), half: (f32, f32)) -> f32 {
    ((u - middle.0).abs() - half.0).max((v - middle.1).abs() - half.1)
}

const BOOK_COLOURS: [Rgb; 8] = [
    [0.55, 0.16, 0.14],
    [0.14, 0.25, 0.42],
    [0.20, 0.36, 0.24],
    [0.72, 0.62, 0.42],
    [0.16, 0.15, 0.17],
    [0.80, 0.77, 0.70],
    [0.62, 0.38, 0.16],
    [0.33, 0.20, 0.38],
];

impl Room {
    /// Share of a sample inside the shape, from its distance to the edge.
    fn cover(&self, distance: f32) -> f32 {
        (0.5 - distance / self.pixel).clamp(0.0, 1.0)
    }

    fn plaster(&self, colour: Rgb, u: f32, v: f32) -> Rgb {
        shade(colour, 1.0 + 0.018 * texture(u * 45.0, v * 45.0, self.noise))
    }

    fn bookshelf(&self, u: f32, v: f32) -> Rgb {
        const SHELF: f32 = 0.255;
        let wood: Rgb = [0.42, 0.28, 0.17];
        let row = ((v + 0.06) / SHELF).floor();
        let within = v + 0.06 - row * SHELF;
        let wood = shade(wood, 1.0 + 0.12 * texture(u * 4.0, v * 90.0, self.noise));
        let uprights = ((u + 0.31) / 0.62).fract().abs();
        let upright = uprights.min(1.0 - uprights) * 0.62;
        if within < 0.022 {
            return shade(wood, if within > 0.018 { 0.7 } else { 1.12 });
        }
        if upright < 0.013 {
            return wood;
        }
        // Books: uneven widths from jittered edges.
        let row_seed = self.seed ^ (row as i64 as u64) << 32;
        let step = 0.033;
        let edge = |i: i64| (i as f32 + 0.42 * unit(row_seed, i as u64)) * step;
        let mut book = (u / step).floor() as i64;
        if u < edge(book) {
            book -= 1;
        } else if u >= edge(book + 1) {
            book += 1;
        }
        let (left, right) = (edge(book), edge(book + 1));
        let dice = |salt: u64| unit(row_seed ^ 0xb00c ^ salt << 8, book as u64);
        let height = 0.14 + 0.075 * dice(1);
        let up = SHELF - within;
        let back = shade([0.20, 0.13, 0.09], 0.75 + 1.2 * within);
        if dice(2) < 0.10 || up > height {
            return back;
        }
        let across = (u - left) / (right - left);
        let round = 1.12 - 0.75 * (across - 0.42) * (across - 0.42) * 2.0;
        let cloth = BOOK_COLOURS[(dice(3) * 8.0) as usize % 8];
        let mut colour =
            shade(cloth, round * (0.85 + 0.3 * dice(4)) * (1.0 + 0.05 * grain(u * 220.0, v * 220.0, self.noise)));
        let gilt: Rgb = [0.78, 0.66, 0.40];
        let relative = up / height;
        if (relative - 0.86).abs() < 0.012 || (relative - 0.12).abs() < 0.012 {
            colour = mix(colour, gilt, 0.6);
        }
        let lettering = (across - 0.5).abs() < 0.2 && (0.3..0.75).contains(&relative);
        if lettering && dice(5) < 0.7 && grain(u * 90.0, v * 260.0, self.noise ^ 9) > 0.15 {
            colour = mix(colour, if dice(6) < 0.5 { gilt } else { [0.9, 0.9, 0.86] }, 0.55);
        }
        let gap = self.cover((u - left - 0.0012).min(right - u - 0.0012));
        mix(colour, [0.06, 0.05, 0.05], gap * 0.8)
    }

    fn living_room(&self, u: f32, v: f32) -> Rgb {
        let wall = mix([0.72, 0.69, 0.62], [0.56, 0.55, 0.52], smooth(0.0, 1.0, v));
        let mut colour = self.plaster(wall, u, v);
        // A framed landscape.
        let picture = (-0.52, 0.30);
        let frame = rectangle(u, v, picture, (0.25, 0.19));
        let shadow = rectangle(u, v, (picture.0 + 0.012, picture.1 + 0.016), (0.25, 0.19));
        colour = shade(colour, 1.0 - 0.22 * smooth(0.03, -0.01, shadow));
        colour = mix(colour, [0.16, 0.12, 0.10], self.cover(frame));
        colour = mix(colour, [0.90, 0.88, 0.84], self.cover(frame + 0.018));
        if frame + 0.055 < 0.0 {
            let (x, y) = ((u - picture.0) / 0.195, (v - picture.1) / 0.135);
            let ridge = 0.1 + 0.35 * texture(x * 1.6 + 3.0, 0.5, self.noise ^ 3);
            let near = 0.55 + 0.2 * texture(x * 3.0, 8.5, self.noise ^ 4);
            colour = mix([0.45, 0.62, 0.80], [0.93, 0.80, 0.62], smooth(-1.0, 0.4, y));
            colour = mix(colour, [0.34, 0.38, 0.50], smooth(ridge - 0.02, ridge + 0.02, y));
            let meadow = shade([0.26, 0.40, 0.22], 1.0 + 0.25 * texture(x * 14.0, y * 30.0, self.noise));
            colour = mix(colour, meadow, smooth(near - 0.02, near + 0.02, y));
        }
        // A plant in a pot on a sideboard.
        let board = v - 0.80;
        let top = shade([0.50, 0.36, 0.24], 1.0 + 0.1 * texture(u * 7.0, v * 120.0, self.noise ^ 5));
        colour = mix(colour, shade(top, if board < 0.02 { 1.15 } else { 0.8 }), self.cover(-board));
        if (u + 0.62 * board).rem_euclid(0.45) < 0.006 && board > 0.02 {
            colour = shade(colour, 0.6);
        }
        let root = (0.60, 0.66);
        let pot = rectangle(u, v, (root.0, 0.735), (0.075 - 0.15 * (v - 0.735), 0.07));
        let round = 1.05 - 6.0 * (u - root.0 + 0.02).abs();
        colour = mix(colour, shade([0.80, 0.76, 0.70], round), self.cover(pot));
        for leaf in 0..26 {
            let dice = |salt: u64| unit(self.seed ^ 0x1eaf ^ salt << 8, leaf);
            let (reach_u, reach_v) = (0.44 * (dice(0) - 0.5), -0.08 - 0.30 * dice(1));
            let length = (reach_u * reach_u + reach_v * reach_v).sqrt();
            let (du, dv) = (reach_u / length, reach_v / length);
            let (x, y) = (u - root.0 - reach_u * 0.62, v - root.1 - reach_v * 0.62);
            let along = (x * du + y * dv) / (0.55 * length);
            let across = (y * du - x * dv - 0.04 * along * along) / (0.018 + 0.016 * dice(2));
            let distance = ((along * along + across * across).sqrt() - 1.0) * 0.03;
            if distance < self.pixel {
                let green = mix([0.16, 0.34, 0.15], [0.42, 0.58, 0.24], dice(3));
                let vein = 1.0 + 0.25 * smooth(0.15, 0.0, across.abs()) - 0.22 * smooth(0.0, 1.0, across);
                colour = mix(colour, shade(green, vein * (0.75 + 0.4 * dice(4))), self.cover(distance));
            }
        }
        colour
    }

    fn window(&self, u: f32, v: f32) -> Rgb {
        let wall = self.plaster(mix([0.50, 0.53, 0.56], [0.40, 0.42, 0.44], v), u, v);
        let opening = rectangle(u, v, (0.38, 0.36), (0.44, 0.34));
        let mut colour = mix(wall, [0.82, 0.81, 0.78], self.cover(opening - 0.03));
        colour = shade(colour, 1.0 - 0.25 * smooth(0.06, 0.03, opening) * smooth(0.0, 0.03, opening));
        if opening < 0.0 {
            // Blinds in front of a bright garden.
            let garden = mix(
                [0.82, 0.90, 0.97],
                [0.44, 0.58, 0.36],
                smooth(0.35, 0.6, v + 0.06 * texture(u * 5.0, v * 5.0, self.noise)),
            );
            let slat = (v / 0.030).fract();
            let tilt = 0.62 + 0.30 * slat;
            let blind = shade([0.90, 0.88, 0.82], tilt + 0.03 * grain(u * 3.0, v * 60.0, self.noise));
            colour = mix(garden, blind, smooth(0.18, 0.26, slat) * 0.92);
            for cord in [0.08, 0.38, 0.68] {
                colour = mix(colour, [0.70, 0.68, 0.62], self.cover((u - cord).abs() - 0.003) * 0.9);
            }
        }
        // A standing lamp on the other side.
        let glow = ((u + 0.62) * (u + 0.62) + (v - 0.34) * (v - 0.34)).sqrt();
        colour = mix(colour, [0.98, 0.90, 0.72], 0.35 * smooth(0.45, 0.0, glow));
        let pole = (u + 0.62).abs() - 0.008;
        if v > 0.42 {
            colour = mix(colour, [0.15, 0.14, 0.14], self.cover(pole));
        }
        let screen = rectangle(u, v, (-0.62, 0.33), (0.085 + 0.25 * (v - 0.33), 0.095));
        mix(
            colour,
            shade([1.0, 0.93, 0.76], 1.05 - 1.2 * (u + 0.62).abs() + 0.02 * grain(u * 300.0, v * 20.0, self.noise)),
            self.cover(screen),
        )
    }

    fn brick_wall(&self, u: f32, v: f32) -> Rgb {
        const BRICK: (f32, f32) = (0.135, 0.047);
        let row = (v / BRICK.1).floor();
        let shifted = u / BRICK.0 + 0.5 * (row * 0.5).fract() * 2.0;
        let column = shifted.floor();
        let (x, y) = ((shifted - column) * BRICK.0, (v / BRICK.1 - row) * BRICK.1);
        let dice = unit(self.seed ^ 0xb21c, (row as i64 as u64) << 32 ^ column as i64 as u64 & 0xffff_ffff);
        let clay = mix([0.52, 0.27, 0.20], [0.66, 0.42, 0.32], dice);
        let rough = texture(u * 60.0, v * 60.0, self.noise);
        let brick = shade(clay, 0.92 + 0.16 * rough + 0.1 * (1.0 - y / BRICK.1));
        let joint = x.min(BRICK.0 - x).min(y).min(BRICK.1 - y) - 0.0035 - 0.001 * rough;
        let mut colour = mix(brick, shade([0.66, 0.63, 0.58], 1.0 + 0.1 * rough), self.cover(joint));
        // A poster, and a board with mugs.
        let poster = rectangle(u, v, (0.60, 0.36), (0.17, 0.24));
        if poster < self.pixel {
            let (x, y) = ((u - 0.60) / 0.17, (v - 0.36) / 0.24);
            let sun = (x * x + (y + 0.2) * (y + 0.2) * 2.0).sqrt();
            let mut print = mix([0.10, 0.20, 0.30], [0.90, 0.86, 0.76], smooth(0.62, 0.60, sun));
            if (y * 14.0).fract().abs() < 0.5 && y > 0.1 && y < 0.6 && x.abs() < 0.75 {
                print = [0.86, 0.44, 0.22];
            }
            if y > 0.72 && x.abs() < 0.7 && grain(x * 12.0, y * 22.0, self.noise) > 0.0 {
                print = [0.92, 0.90, 0.84];
            }
            colour = mix(colour, print, self.cover(poster));
        }
        let board = rectangle(u, v, (-0.58, 0.34), (0.24, 0.012));
        colour = shade(colour, 1.0 - 0.3 * smooth(0.05, 0.0, board) * smooth(0.33, 0.36, v));
        colour = mix(
            colour,
            shade([0.36, 0.24, 0.16], 1.0 + 0.15 * texture(u * 6.0, v * 150.0, self.noise)),
            self.cover(board),
        );
        for (mug, tint) in [[0.82, 0.80, 0.74], [0.20, 0.36, 0.44], [0.75, 0.52, 0.22]].into_iter().enumerate() {
            let middle = (-0.72 + 0.13 * mug as f32, 0.286);
            let distance = rectangle(u, v, middle, (0.034, 0.042));
            colour = mix(colour, shade(tint, 1.08 - 9.0 * (u - middle.0 + 0.008).abs()), self.cover(distance));
        }
        colour
    }

    fn office(&self, u: f32, v: f32) -> Rgb {
        let mut colour = self.plaster(mix([0.80, 0.82, 0.82], [0.62, 0.66, 0.68], smooth(0.1, 1.0, v)), u, v);
        // A whiteboard with writing.
        let board = rectangle(u, v, (-0.36, 0.32), (0.42, 0.26));
        colour = mix(colour, [0.62, 0.64, 0.66], self.cover(board - 0.012));
        if board < 0.0 {
            let mut white = shade([0.93, 0.94, 0.94], 1.0 + 0.04 * grain(u * 3.0, v * 5.0, self.noise));
            let line = (v / 0.055).floor();
            let ink: Rgb = if unit(self.seed, line as u64) < 0.3 { [0.65, 0.15, 0.15] } else { [0.12, 0.18, 0.38] };
            let height = 0.55 + 0.3 * grain(u * 75.0, line * 7.3, self.noise ^ 2);
            let word = grain(u * 13.0, line * 3.1, self.noise ^ 7) > -0.3;
            let stroke = ((v / 0.055).fract() - height).abs();
            if word && board < -0.04 {
                white = mix(white, ink, 0.75 * smooth(0.10, 0.04, stroke));
            }
            colour = white;
        }
        // A cupboard with binders next to it.
        let cupboard = rectangle(u, v, (0.66, 0.62), (0.28, 0.42));
        if cupboard < 0.0 {
            let shelf = ((v - 0.20) / 0.21).fract();
            let binder = ((u - 0.38) / 0.052).floor();
            let x = ((u - 0.38) / 0.052).fract();
            let row = ((v - 0.20) / 0.21).floor();
            let dice = unit(self.seed ^ 0xb1d, (row as i64 as u64) << 8 ^ binder as i64 as u64 & 0xff);
            let tint = [[0.16, 0.18, 0.22], [0.22, 0.34, 0.52], [0.60, 0.60, 0.58], [0.58, 0.22, 0.18]]
                [(dice * 4.0) as usize % 4];
            colour = shade(tint, 1.1 - 0.5 * (x - 0.4).abs());
            if (x - 0.5).abs() < 0.3 && (0.35..0.6).contains(&shelf) {
                colour = [0.88, 0.87, 0.84];
                if (shelf * 60.0).fract() < 0.4 && (x - 0.5).abs() < 0.22 {
                    colour = [0.45, 0.45, 0.47];
                }
            }
            let ring = ((x - 0.5) * (x - 0.5) * 0.052 * 0.052 + (shelf - 0.85) * (shelf - 0.85) * 0.21 * 0.21).sqrt();
            colour = mix(colour, [0.75, 0.75, 0.76], self.cover((ring - 0.009).abs() - 0.002));
            if !(0.06..0.96).contains(&x) {
                colour = shade(colour, 0.45);
            }
            if shelf < 0.12 || cupboard > -0.016 {
                colour = shade([0.70, 0.62, 0.50], 1.0 + 0.06 * texture(u * 60.0, v * 6.0, self.noise));
            } else if shelf < 0.2 {
                colour = [0.13, 0.12, 0.12];
            }
        }
        colour
    }
}
