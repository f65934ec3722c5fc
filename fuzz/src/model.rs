//! Parses arbitrary bytes as a model. A valid one must run within bounds and give equal outputs of the declared shapes
//! twice. If it fits an estimator, the estimate must be within its bounds.

use std::sync::Arc;
use std::time::Duration;

use lockstep_control::{BobRules, EstimatorKind, RateBounds};
use lockstep_nn::Model;
use lockstep_transport::Arrival;
use lockstep_units::{ByteCount, Timestamp};

use crate::memory::bounded;

/// Models may have 16 M values of 4 bytes between operators. Convolutions and products copy their operands once.
const MEMORY: usize = 256 << 20;

/// Input: the file.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let Ok(model) = Model::from_bytes(data) else { return };
        let inputs: Vec<Vec<f32>> = model.inputs().iter().map(|port| vec![0.25; port.shape.iter().product()]).collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let outputs = model.run(&inputs).expect("inputs have the declared shapes");
        for (port, numbers) in model.outputs().iter().zip(&outputs) {
            assert_eq!(numbers.len(), port.shape.iter().product::<usize>());
        }
        let bits = |outputs: &[Vec<f32>]| outputs.iter().flatten().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&outputs), bits(&model.run(&inputs).expect("a second run succeeds")));
        let bounds = RateBounds::default();
        let model = Arc::new(model);
        let bob = [BobRules::Released, BobRules::Printed].map(EstimatorKind::Bob);
        for kind in bob.into_iter().chain([EstimatorKind::Hrcc, EstimatorKind::Gemini, EstimatorKind::Mmsys24]) {
            let Ok(mut estimator) = kind.with_model(bounds, Some(Arc::clone(&model))) else { continue };
            for number in 0..4 {
                estimator.on_arrival(&arrival(number));
            }
            let estimate =
                estimator.estimate(Timestamp::from_millis(600)).capacity.expect("it always estimates a rate");
            assert!((bounds.min..=bounds.max).contains(&estimate));
        }
    });
}

fn arrival(number: u64) -> Arrival {
    Arrival {
        arrived_at: Timestamp::from_millis(50 + 150 * number),
        sent_at: Timestamp::from_millis(150 * number),
        size: ByteCount::new(1_200),
        sequence: number,
        frame: 0,
        fragment: 0,
        grace: Duration::ZERO,
        congestion_experienced: false,
    }
}
