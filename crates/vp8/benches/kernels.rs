//! How long each kernel takes, portable and with the vector instructions that were chosen for this processor:
//! `sad_16x16/portable`, `sad_16x16/sse2`. Only the ratio of the two, measured in one run, says anything.

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
