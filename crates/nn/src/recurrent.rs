//! Recurrent networks: forward GRU and LSTM, as ONNX defines them.

use crate::product::Packed;
use crate::view::View;

/// A GRU or an LSTM.
#[derive(Debug)]
pub(crate) struct Recurrent {
    pub units: usize,
    /// Whether this is an LSTM; otherwise a GRU.
    pub is_lstm: bool,
    /// For a GRU: whether the reset gate applies after the product with the state.
    pub linear_before_reset: bool,
    pub input: Packed,
    pub state: Packed,
    pub bias: Vec<f32>,
}

pub(crate) fn sigmoid(number: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-number))
}

impl Recurrent {
    /// Returns all hidden states, the last hidden state, and the last cell state.
    pub fn run(&self, input: View<'_>, hidden: Option<View<'_>>, cell: Option<View<'_>>) -> [Vec<f32>; 3] {
        let (units, [steps, calls, width]) = (self.units, [input.shape[0], input.shape[1], input.shape[2]]);
        let rows = self.input.columns;
        let start =
            |given: Option<View<'_>>| given.map_or_else(|| vec![0.0; calls * units], |given| given.numbers.to_vec());
        let (mut hidden, mut cell) = (start(hidden), start(cell));
        let mut all = Vec::with_capacity(steps * calls * units);
        let (mut of_input, mut of_state) = (vec![0.0; rows], vec![0.0; rows]);
        for step in 0..steps {
            for call in 0..calls {
                let now = &input.numbers[(step * calls + call) * width..][..width];
                let hidden = &mut hidden[call * units..(call + 1) * units];
                let cell = &mut cell[call * units..(call + 1) * units];
                let bias = |sums: &mut [f32], from: usize| match self.bias.get(from..from + rows) {
                    Some(bias) => sums.copy_from_slice(bias),
                    None => sums.fill(0.0),
                };
                bias(&mut of_input, 0);
                bias(&mut of_state, rows);
                self.input.add_product(now, &mut of_input);
                if self.is_lstm {
                    self.state.add_product(hidden, &mut of_state);
                    lstm(&of_input, &of_state, hidden, cell);
                } else {
                    self.gru(&of_input, &mut of_state, hidden);
                }
            }
            all.extend_from_slice(&hidden);
        }
        [all, hidden, cell]
    }

    /// A step of a GRU; gates are update, reset and new.
    fn gru(&self, of_input: &[f32], of_state: &mut [f32], hidden: &mut [f32]) {
        let units = self.units;
        let bias: Vec<f32> = of_state[2 * units..].to_vec();
        self.state.add_product(hidden, of_state);
        let gate = |from: usize, unit: usize, of_state: &[f32]| sigmoid(of_input[from + unit] + of_state[from + unit]);
        if !self.linear_before_reset {
            let reset: Vec<f32> = (0..units).map(|unit| gate(units, unit, of_state) * hidden[unit]).collect();
            let mut again = vec![0.0; 3 * units];
            again[2 * units..].copy_from_slice(&bias);
            self.state.add_product(&reset, &mut again);
            of_state[2 * units..].copy_from_slice(&again[2 * units..]);
        }
        for unit in 0..units {
            let (update, reset) = (gate(0, unit, of_state), gate(units, unit, of_state));
            let state = of_state[2 * units + unit];
            let state = if self.linear_before_reset { reset * state } else { state };
            let new = libm::tanhf(of_input[2 * units + unit] + state);
            hidden[unit] = (1.0 - update) * new + update * hidden[unit];
        }
    }
}

/// A step of an LSTM; gates are input, output, forget and cell.
fn lstm(of_input: &[f32], of_state: &[f32], hidden: &mut [f32], cell: &mut [f32]) {
    let units = hidden.len();
    let sum = |gate: usize, unit: usize| of_input[gate * units + unit] + of_state[gate * units + unit];
    for unit in 0..units {
        let (input, output, kept) = (sigmoid(sum(0, unit)), sigmoid(sum(1, unit)), sigmoid(sum(2, unit)));
        cell[unit] = kept * cell[unit] + input * libm::tanhf(sum(3, unit));
        hidden[unit] = output * libm::tanhf(cell[unit]);
    }
}
