//! The dynamic program over the pictures of a call, for one price of SSIM.

use std::time::Duration;

use lockstep_link::LinkConfig;
use lockstep_measure::DRAIN;
use lockstep_units::{ByteCount, Timestamp};

use super::{BACKLOG_CELLS, BoundedCall, CELL, EXACT_CELLS, PENDING};
use crate::modelled_clip::{BestFrame, ClipCurves, ModelledPicture};

/// Sizes are told apart by so many bits after the first one: by 1.6 %.
const SIZE_BITS: u32 = 6;
/// Ages of references that are distinguished, in pictures: a reference is at least that old.
const AGES: [u32; 5] = [1, 2, 4, 8, 16];
/// How much coarser the coarse grid is than the fine one.
const COARSENESS: usize = 2;

/// A [`CELL`] of time in which the bottleneck has capacity.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Its end.
    end: Timestamp,
    /// Bytes that have passed before it, rounded down, and until its end, rounded up.
    before: f64,
    after: f64,
    /// The earliest moment, seconds, at which a frame is shown whose last byte passes in it or later.
    shown_at: f64,
}

/// A picture as the program sees it. Times are in seconds.
#[derive(Debug)]
struct Item {
    captured_at: f64,
    /// The earliest moment at which it, or a later one, can be shown, or the end of the call.
    followed_at: f64,
    /// The earliest moment at which it can be shown.
    shown_at: f64,
    /// Bytes that have passed before it can be served.
    passed: f64,
    /// Its best frames by [`AGES`].
    frames: [SizeTable; AGES.len()],
}

/// The best SSIM of a picture by the bytes that its frame takes on the link.
#[derive(Debug, Default)]
struct SizeTable {
    /// The least bytes, as [`size_class`] has it.
    least: usize,
    /// The best SSIM of each class from there on.
    ssim: Vec<f64>,
}

/// Bytes, at least 1, on a logarithmic scale of [`SIZE_BITS`].
fn size_class(bytes: f64) -> usize {
    (bytes.max(1.0).to_bits() >> (52 - SIZE_BITS)) as usize
}

/// The place in [`AGES`] of the least age of a reference, by the pictures skipped since the last one shown.
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

/// A way of showing a picture.
#[derive(Debug, Clone, Copy)]
struct Way {
    delay: f64,
    /// What the picture and those after it are worth but for the delay, by the skipped pictures before it.
    worth: [f64; PENDING + 1],
    /// Its SSIM by [`AGES`].
    ssim: [f64; AGES.len()],
    /// The best schedule after it.
    after: Value,
}

impl SizeTable {
    /// The table of `frames`, whose bytes on the link `wire` gives.
    fn new(frames: &[BestFrame], wire: impl Fn(ByteCount) -> u64) -> Option<Self> {
        let least = size_class(wire(frames.first()?.size) as f64);
        let mut ssim = Vec::new();
        for &BestFrame { size, ssim: best } in frames {
            let class = size_class(wire(size) as f64) - least;
            // Until this size the frame before it is the best one.
            let known = ssim.last().copied().unwrap_or(best);
            ssim.resize(ssim.len().max(class), known);
            ssim.truncate(class);
            ssim.push(best);
        }
        Some(Self { least, ssim })
    }

    /// The best SSIM of a frame of class `size`; none if no frame is as small.
    fn best_ssim(&self, size: usize) -> Option<f64> {
        let class = size.checked_sub(self.least)?;
        self.ssim.get(class).or(self.ssim.last()).copied()
    }
}

/// Which frames a picture may be coded as, by the least age of the reference.
pub(super) type Frames<'a> = &'a dyn Fn(&ClipCurves, &ModelledPicture, u32) -> Vec<BestFrame>;

/// Time, divided into cells.
#[derive(Debug)]
pub(super) struct Grid {
    cells: Vec<Cell>,
    /// The first cell that can serve each picture.
    first: Vec<usize>,
    /// [`BACKLOG_CELLS`] and [`EXACT_CELLS`] of it.
    backlog: usize,
    exact: usize,
}

/// Worths of the best schedules: by the picture that comes next, by [`Grid::place`], by skipped pictures before it.
pub(super) type Worths = Vec<Vec<[f32; PENDING + 1]>>;

#[derive(Debug)]
pub(super) struct Problem {
    items: Vec<Item>,
    end: f64,
    pub(super) most_ssim: f64,
    pub(super) coarse: Grid,
    pub(super) fine: Grid,
}

/// A schedule of the pictures from one on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Value {
    /// `price * sum(ssim - m) - sum(delay)`.
    pub(super) worth: f64,
    /// `sum(ssim - m)` and how many are shown.
    pub(super) gained: f64,
    pub(super) shown: f64,
}

impl Problem {
    /// The program of `call`, each picture coded as one of its `frames`.
    pub(super) fn new(call: &BoundedCall, frames_of: Frames<'_>) -> Option<Self> {
        let mut clip = call.clip.clone();
        let pictures = (0..).take_while(|&picture| call.captured_at(picture) < Timestamp::ZERO + call.length).count();
        let horizon = Timestamp::ZERO + call.length + DRAIN;
        let end = call.length.as_secs_f64();
        let on_trace = |at: Timestamp| at + call.link.trace_offset;
        let mut most_ssim = 0.0_f64;
        let curves = clip.curves().clone();
        let mut items = Vec::with_capacity(pictures);
        for picture in 0..pictures as u64 {
            let captured = call.captured_at(picture);
            let ready = captured + call.encode_time;
            let source = clip.next_picture();
            let best = |age| frames_of(&curves, &source, age);
            let frames = best(AGES[0]);
            let smallest = call.wire(frames.first()?.size);
            most_ssim = most_ssim.max(frames.last()?.ssim);
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
        (!items.is_empty()).then_some(Self { items, end, most_ssim, coarse, fine })
    }

    /// How many pictures there are.
    pub(super) fn pictures(&self) -> usize {
        self.items.len()
    }

    /// An upper bound on `price * sum(ssim - mean) - sum(delay)` over all schedules.
    /// `kept` gets the worths of all states.
    pub(super) fn best_schedule(&self, grid: &Grid, mean: f64, price: f64, mut kept: Option<&mut Worths>) -> Value {
        let mut next = vec![[Value::default(); PENDING + 1]; grid.backlog];
        let mut now = next.clone();
        let mut ways = Vec::new();
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
                    // Those that are not told apart wait for what can be shown first.
                    let settled = if pending == PENDING { followed_at - due } else { 0.0 };
                    *value = Value { worth: after.worth - (pending + 1) as f64 * interval - settled, ..after };
                }
                self.find_ways(grid, index, item, served, mean, price, &next, &mut ways);
                let mut worths = values.map(|value| value.worth);
                let mut chosen = [usize::MAX; PENDING + 1];
                for (number, way) in ways.iter().enumerate() {
                    for pending in 0..=PENDING {
                        let worth = way.worth[pending] - (pending + 1) as f64 * way.delay;
                        let is_better = worth > worths[pending];
                        worths[pending] = if is_better { worth } else { worths[pending] };
                        chosen[pending] = if is_better { number } else { chosen[pending] };
                    }
                }
                for (pending, value) in values.iter_mut().enumerate() {
                    if let Some(way) = ways.get(chosen[pending]) {
                        let gained = way.after.gained + way.ssim[AGE_CLASS[pending]] - mean;
                        *value = Value { worth: worths[pending], gained, shown: way.after.shown + 1.0 };
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

    /// Collects the ways of showing `item` when all before it is served until the cell `served`. Ways that are later and
    /// no better are left out.
    #[allow(clippy::too_many_arguments)] // the inner loop of the program
    fn find_ways(
        &self,
        grid: &Grid,
        index: usize,
        item: &Item,
        served: usize,
        mean: f64,
        price: f64,
        next: &[[Value; PENDING + 1]],
        ways: &mut Vec<Way>,
    ) {
        ways.clear();
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
                    ways.push(Way { delay, worth, ssim, after });
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
    /// Cells with capacity until `horizon`, each as long as `length` of [`CELL`].
    fn new(call: &BoundedCall, horizon: Timestamp, length: usize, pictures: usize) -> Self {
        let cells = cells(call, horizon, CELL * length as u32);
        let ready = |picture| call.captured_at(picture) + call.encode_time;
        let first = |picture| cells.partition_point(|cell: &Cell| cell.end <= ready(picture));
        let first = (0..pictures as u64).map(first).collect();
        Self { cells, first, backlog: BACKLOG_CELLS / length, exact: EXACT_CELLS / length }
    }

    /// Where in the window of the picture `index` a schedule is that has been served until `cell`.
    pub(super) fn place(&self, index: usize, cell: usize) -> usize {
        let first = self.first.get(index).copied().unwrap_or(cell);
        cell.saturating_sub(first).min(self.backlog - 1)
    }

    /// The cell in which byte `bytes` passes.
    pub(super) fn cell_of(&self, bytes: f64) -> usize {
        self.cells.partition_point(|cell| cell.after < bytes)
    }
}

/// The cells of `length` with capacity until `horizon`.
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
