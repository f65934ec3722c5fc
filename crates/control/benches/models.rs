//! Benchmark: time of one decision of a learned controller, on one core. Run by `cargo bench -p lockstep-control`.

use criterion::{Criterion, criterion_group, criterion_main};
use lockstep_control::learned::shipped::Shipped;
use lockstep_control::learned::{Observation, ObservationKind};
use lockstep_nn::Model;
use lockstep_units::Timestamp;

fn models(criterion: &mut Criterion) {
    for (shipped, name) in [(Shipped::Concerto, "concerto"), (Shipped::Lockstep, "lockstep")] {
        let model = shipped.model().expect("a model");
        let input = vec![0.3; model.inputs()[0].shape.iter().product()];
        criterion.bench_function(&format!("{name}: a decision"), |bencher| bencher.iter(|| model.run(&[&input])));
        criterion.bench_function(&format!("{name}: reading the file"), |bencher| {
            let bytes = shipped.bytes().expect("the model is embedded");
            bencher.iter(|| Model::from_bytes(bytes));
        });
    }
    let mut observation: Box<dyn Observation> = ObservationKind::Concerto.make();
    let mut state = vec![0.0; observation.shape().iter().product()];
    criterion.bench_function("concerto: an empty observation", |bencher| {
        bencher.iter(|| observation.observe(Timestamp::from_millis(1_000), &mut state));
    });
}

criterion_group!(benches, models);
criterion_main!(benches);
