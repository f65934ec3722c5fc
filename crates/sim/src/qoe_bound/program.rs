//! Dynamic program over the pictures of a call, for one price of SSIM.

use std::time::Duration;

use lockstep_link::LinkConfig;
use lockstep_measure::DRAIN;
use lockstep_units::{ByteCount, Timestamp};

use super::{BACKLOG_CELLS, BoundedCall, CELL, EXACT_CELLS, PENDING};
use crate::modelled_clip::{BestFrame, ClipCurves, ModelledPicture};

/// Bits of a size class after the leading one: classes of 1.6 %.
const SIZE_BITS: u32 = 6;
/// Classes of the reference's age, in pictures. A reference has at least the age of its class.
const AGES: [u32; 5] = [1, 2, 4, 8, 16];
/// Cell length of the coarse grid over that of the fine grid.
const COARSENESS: usize = 2;

/// A [`CELL`] of time in which the bottleneck has capacity.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// End of the cell.
    end: Timestamp,
    /// Bytes that pass before the cell, rounded down.
    before: f64,
    /// Bytes that pass until the end of the cell, rounded up.
    after: f64,
    /// Earliest display time of a frame whose last byte passes in this cell or later, seconds.
    shown_at: f64,
}

/// A picture in the program. Times are in seconds.
#[derive(Debug)]
struct Item {
    captured_at: f64,
    /// Earliest time at which this picture or a later one can be shown, at most the end of the call.
    followed_at: f64,
    /// Earliest time at which the picture can be shown.
    shown_at: f64,
    /// Bytes that pass before the picture can be served.
    passed: f64,
    /// Best frames by [`AGES`].
    frames: [SizeTable; AGES.len()],
}

/// Best SSIM of a picture by the bytes of its frame on the link.
#[derive(Debug, Default)]
struct SizeTable {
    /// Smallest [`size_class`].
    least: usize,
    /// Best SSIM of each class from `least` on.
    ssim: Vec<f64>,
}

/// Class of a size of at least one byte, on a logarithmic scale with [`SIZE_BITS`].
fn size_class(bytes: f64) -> usize {
    (bytes.max(1.0).to_bits() >> (52 - SIZE_BITS)) as usize
}

/// Index into [`AGES`] of the reference's smallest age, by the pictures skipped since the last shown one.
const AGE_CLASS: [usize; PENDING + 1] = {
    let (mut classes, mut pending) = ([0; PENDING + 1], 0);
    while pending <= PENDING {
        while classes[pending] + 1 < AGES.len() && AGES[classes[pending] + 1] as usize <= pending + 1 {
            classes[pending] += 1;
        }
        pending += 1;
    }
    classes
};

/// One choice of size for a picture.
#[derive(Debug, Clone, Copy)]
struct Choice {
    delay: f64,
    /// Worth of the picture and those after it without the delay, by the skipped pictures before it.
    worth: [f64; PENDING + 1],
    /// SSIM by [`AGES`].
    ssim: [f64; AGES.len()],
    /// Best schedule after it.
    after: Value,
}

impl SizeTable {
    /// Table of `frames`. `wire` returns the bytes of a frame on the link.
    fn new(frames: &[BestFrame], wire: impl Fn(ByteCount) -> u64) -> Option<Self> {
        let least = size_class(wire(frames.first()?.size) as f64);
        let mut ssim = Vec::new();
        for &BestFrame { size, ssim: best } in frames {
            let class = size_class(wire(size) as f64) - least;
            // Smaller sizes have the previous frame's SSIM.
            let known = ssim.last().copied().unwrap_or(best);
            ssim.resize(ssim.len().max(class), known);
            ssim.truncate(class);
            ssim.push(best);
        }
        Some(Self { least, ssim })
    }

    /// Best SSIM of a frame of class `size`; `None` if no frame is that small.
    fn best_ssim(&self, size: usize) -> Option<f64> {
        let class = size.checked_sub(self.least)?;
        self.ssim.get(class).or(self.ssim.last()).copied()
    }
}

/// Frames as which a picture can be coded, by the smallest age of the reference.
pub(super) type Frames<'a> = &'a dyn Fn(&ClipCurves, &ModelledPicture, u32) -> Vec<BestFrame>;

/// Time, divided into cells.
#[derive(Debug)]
pub(super) struct Grid {
    cells: Vec<Cell>,
    /// First cell that can serve each picture.
    first: Vec<usize>,
    /// [`BACKLOG_CELLS`] in cells of this grid.
    backlog: usize,
    /// [`EXACT_CELLS`] in cells of this grid.
    exact: usize,
}

/// Worths of the best schedules, by the next picture, by [`Grid::place`], by the skipped pictures before it.
pub(super) type Worths = Vec<Vec<[f32; PENDING + 1]>>;

#[derive(Debug)]
pub(super) struct Problem {
    items: Vec<Item>,
    end: f64,
    pub(super) max_ssim: f64,
    pub(super) coarse: Grid,
    pub(super) fine: Grid,
}

/// Value of a schedule from one picture on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Value {
    /// `price * sum(ssim - m) - sum(delay)`.
    pub(super) worth: f64,
    /// `sum(ssim - m)` over shown pictures.
    pub(super) gained: f64,
    /// Number of shown pictures.
    pub(super) shown: f64,
}

impl Problem {
    /// Program of `call`. `frames_of` returns the frames as which a picture can be coded.
    pub(super) fn new(call: &BoundedCall, frames_of: Frames<'_>) -> Option<Self> {
        let mut clip = call.clip.clone();
        let pictures = (0..).take_while(|&picture| call.captured_at(picture) < Timestamp::ZERO + call.length).count();
        let horizon = Timestamp::ZERO + call.length + DRAIN;
        let end = call.length.as_secs_f64();
        let on_trace = |at: Timestamp| at + call.link.trace_offset;
        let mut max_ssim = 0.0_f64;
        let curves = clip.curves().clone();
        let mut items = Vec::with_capacity(pictures);
        for picture in 0..pictures as u64 {
            let captured = call.captured_at(picture);
            let ready = captured + call.encode_time;
            let source = clip.next_picture();
            let best = |age| frames_of(&curves, &source, age);
            let frames = best(AGES[0]);
            let smallest = call.wire(frames.first()?.size);
            max_ssim = max_ssim.max(frames.last()?.ssim);
            let mut tables: [SizeTable; AGES.len()] = Default::default();
            tables[0] = SizeTable::new(&frames, |size| call.wire(size))?;
            for (table, age) in tables.iter_mut().zip(AGES).skip(1) {
                *table = SizeTable::new(&best(if call.shows_all { age } else { 1 }), |size| call.wire(size))?;
            }
            let passed_at = call.link.trace.time_to_pass(on_trace(ready), ByteCount::new(smallest));
            let wait = passed_at.map(|at| at.saturating_since(on_trace(ready)));
            let on_the_way = call.link.delay + call.decode_time;
            let shown_at = wait.map_or(f64::INFINITY, |wait| (ready + wait + on_the_way).as_secs_f64());
            let passed = call.link.trace.bytes_between(on_trace(Timestamp::ZERO), on_trace(ready)).as_f64();
            let captured_at = captured.as_secs_f64();
            items.push(Item { captured_at, followed_at: shown_at.min(end), shown_at, passed, frames: tables });
        }
        let mut earliest = end;
        for item in items.iter_mut().rev() {
            earliest = earliest.min(item.followed_at);
            item.followed_at = earliest;
        }
        let (coarse, fine) = (Grid::new(call, horizon, COARSENESS, pictures), Grid::new(call, horizon, 1, pictures));
        (!items.is_empty()).then_some(Self { items, end, max_ssim, coarse, fine })
    }

    /// Number of pictures.
    pub(super) fn pictures(&self) -> usize {
        self.items.len()
    }

    /// Upper bound on `price * sum(ssim - mean) - sum(delay)` over all schedules. If given, `kept` receives the worths
    /// of all states.
    pub(super) fn best_schedule(&self, grid: &Grid, mean: f64, price: f64, mut kept: Option<&mut Worths>) -> Value {
        let mut next = vec![[Value::default(); PENDING + 1]; grid.backlog];
        let mut now = next.clone();
        let mut choices = Vec::new();
        for (index, item) in self.items.iter().enumerate().rev() {
            let next_item = self.items.get(index + 1);
            let (due, followed_at) =
                next_item.map_or((self.end, self.end), |next| (next.captured_at, next.followed_at));
            let interval = due - item.captured_at;
            for (place, values) in now.iter_mut().enumerate() {
                let served = grid.first[index] + place;
                let skipped = &next[grid.place(index + 1, served)];
                for (pending, value) in values.iter_mut().enumerate() {
                    let after = skipped[(pending + 1).min(PENDING)];
                    // Pictures beyond the exact ones wait until any later picture can be shown.
                    let settled = if pending == PENDING { followed_at - due } else { 0.0 };
                    *value = Value { worth: after.worth - (pending + 1) as f64 * interval - settled, ..after };
                }
                self.find_choices(grid, index, item, served, mean, price, &next, &mut choices);
                let mut worths = values.map(|value| value.worth);
                let mut chosen = [usize::MAX; PENDING + 1];
                for (number, choice) in choices.iter().enumerate() {
                    for pending in 0..=PENDING {
                        let worth = choice.worth[pending] - (pending + 1) as f64 * choice.delay;
                        let is_better = worth > worths[pending];
                        worths[pending] = if is_better { worth } else { worths[pending] };
                        chosen[pending] = if is_better { number } else { chosen[pending] };
                    }
                }
                for (pending, value) in values.iter_mut().enumerate() {
                    if let Some(choice) = choices.get(chosen[pending]) {
                        let gained = choice.after.gained + choice.ssim[AGE_CLASS[pending]] - mean;
                        *value = Value { worth: worths[pending], gained, shown: choice.after.shown + 1.0 };
                    }
                }
            }
            if let Some(kept) = &mut kept {
                kept.push(now.iter().map(|values| values.map(|value| value.worth as f32)).collect());
            }
            std::mem::swap(&mut now, &mut next);
        }
        next[0][0]
    }

    /// Collects the choices for showing `item` if the bottleneck is busy until the cell `served`. Skips choices that
    /// are later and no better.
    #[allow(clippy::too_many_arguments)] // the inner loop of the program
    fn find_choices(
        &self,
        grid: &Grid,
        index: usize,
        item: &Item,
        served: usize,
        mean: f64,
        price: f64,
        next: &[[Value; PENDING + 1]],
        choices: &mut Vec<Choice>,
    ) {
        choices.clear();
        let Some(start) = grid.cells.get(served) else { return };
        let before = if served > grid.first[index] { start.before.max(item.passed) } else { item.passed };
        let best = item.frames.each_ref().map(|table| table.ssim.last().copied().unwrap_or_default());
        let (mut cell, mut size_before) = (served, 0);
        let mut worth_most = [f64::NEG_INFINITY; AGES.len()];
        while cell < grid.cells.len() {
            let stride = if cell - served < grid.exact { 1 } else { (cell - served) / grid.exact * 2 };
            let last = (cell + stride - 1).min(grid.cells.len() - 1);
            let size = size_class(grid.cells[last].after - before);
            if size > size_before {
                size_before = size;
                let ssim = item.frames.each_ref().map(|table| table.best_ssim(size).unwrap_or(f64::NEG_INFINITY));
                let after = next[grid.place(index + 1, cell)][0];
                let mut is_better = false;
                let mut worths = [0.0; AGES.len()];
                for age in 0..AGES.len() {
                    worths[age] = after.worth + price * (ssim[age] - mean);
                    is_better |= worths[age] > worth_most[age];
                    worth_most[age] = worth_most[age].max(worths[age]);
                }
                if is_better {
                    let delay = grid.cells[cell].shown_at.max(item.shown_at) - item.captured_at;
                    let worth = std::array::from_fn(|pending| worths[AGE_CLASS[pending]]);
                    choices.push(Choice { delay, worth, ssim, after });
                }
                if ssim == best {
                    break;
                }
            }
            cell += stride;
        }
    }
}

impl Grid {
    /// Grid of cells with capacity until `horizon`. Each cell has `length` times [`CELL`].
    fn new(call: &BoundedCall, horizon: Timestamp, length: usize, pictures: usize) -> Self {
        let cells = cells(call, horizon, CELL * length as u32);
        let ready = |picture| call.captured_at(picture) + call.encode_time;
        let first = |picture| cells.partition_point(|cell: &Cell| cell.end <= ready(picture));
        let first = (0..pictures as u64).map(first).collect();
        Self { cells, first, backlog: BACKLOG_CELLS / length, exact: EXACT_CELLS / length }
    }

    /// Position of a backlog until `cell` in the window of picture `index`.
    pub(super) fn place(&self, index: usize, cell: usize) -> usize {
        let first = self.first.get(index).copied().unwrap_or(cell);
        cell.saturating_sub(first).min(self.backlog - 1)
    }

    /// Cell in which byte `bytes` passes.
    pub(super) fn cell_of(&self, bytes: f64) -> usize {
        self.cells.partition_point(|cell| cell.after < bytes)
    }
}

/// Cells of `length` with capacity until `horizon`.
fn cells(call: &BoundedCall, horizon: Timestamp, length: Duration) -> Vec<Cell> {
    let LinkConfig { trace, trace_offset, delay, .. } = &call.link;
    let on_trace = |at: Timestamp| at + *trace_offset;
    let passed = |at: Timestamp| trace.bytes_between(on_trace(Timestamp::ZERO), on_trace(at)).as_f64();
    let on_the_way = *delay + call.decode_time;
    let (mut cells, mut start, mut before) = (Vec::new(), Timestamp::ZERO, 0.0);
    while start < horizon {
        let end = start + length;
        let after = passed(end);
        if after > before {
            let first = trace.time_to_pass(on_trace(start), ByteCount::new(1));
            let wait = first.map_or(Duration::ZERO, |first| first.saturating_since(on_trace(start)));
            let shown_at = (start + wait.min(length) + on_the_way).as_secs_f64();
            cells.push(Cell { end, before, after: after + 1.0, shown_at });
        }
        (start, before) = (end, after);
    }
    cells
}
