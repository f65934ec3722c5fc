//! Times each kernel in its portable form and with the vector instructions of this processor.
//!
//! Benchmarks are named `sad_16x16/portable`, `sad_16x16/sse2`. Compare only the two times of one run.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lockstep_vp8::kernels::{Blocks, kernels};

fn each_kernel(criterion: &mut Criterion) {
    for kernel in kernels() {
        let mut group = criterion.benchmark_group(kernel.name);
        for (instructions, run) in std::iter::once(("portable", kernel.portable)).chain(kernel.vector) {
            let mut blocks = Blocks::new(1);
            group.bench_function(instructions, |bencher| bencher.iter(|| black_box(run(black_box(&mut blocks)))));
        }
        group.finish();
    }
}

criterion_group!(benches, each_kernel);
criterion_main!(benches);
