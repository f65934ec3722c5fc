//! The kernels by name, for `benches/kernels.rs`.
//!
//! Each kernel has a portable form and the form chosen for this processor. This module is not part of the library's
//! interface.

use crate::encoder::distortion;
use crate::encoder::forward_quantizer::{ForwardQuantizer, Rounding};
use crate::encoder::{forward_transform, subblock_modes, whole_modes};
use crate::loop_filter::{self, Edge, Limits};
use crate::predict::inter::{self, Interpolation};
use crate::predict::intra::Edges;
use crate::transform;

/// Distance between rows of a plane, in samples.
const STRIDE: usize = 64;
/// Index of a block that has samples on all sides.
const INSIDE: usize = 8 * STRIDE + 8;
/// Indices of two such blocks.
const RUNS: [usize; 2] = [INSIDE, INSIDE + 20 * STRIDE];

/// Inputs and outputs of the kernels, deterministic for a seed.
#[derive(Debug, Clone)]
pub struct Blocks {
    first: Vec<u8>,
    second: Vec<u8>,
    coefficients: [[i16; 16]; 16],
    levels: [[i16; 16]; 16],
    restored: [[i16; 16]; 16],
    ends: [u8; 16],
    quantizer: ForwardQuantizer,
    limits: Limits,
}

impl Blocks {
    /// Two planes of 64x48 samples that differ by a little noise, and typical coefficients of a residual.
    pub fn new(seed: u32) -> Self {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let first: Vec<u8> = (0..STRIDE * 48).map(|i| (100 + i % STRIDE / 2 + random() as usize % 12) as u8).collect();
        let second = first.iter().map(|&sample| sample + (random() % 9) as u8).collect();
        let coefficients =
            std::array::from_fn(|_| std::array::from_fn(|i| ((random() % 512) as i16 - 256) >> (i / 3).min(7)));
        Self {
            first,
            second,
            coefficients,
            levels: [[0; 16]; 16],
            restored: [[0; 16]; 16],
            ends: [0; 16],
            quantizer: ForwardQuantizer::new(24, 28, Rounding { dc: 48, ac: 40 }),
            limits: Limits::new(30, 0, false),
        }
    }
}

/// One call of a kernel. The result prevents the compiler from removing the call.
pub type Run = fn(&mut Blocks) -> u32;

/// A kernel in two forms.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Computation and block size, such as `sad_16x16`.
    pub name: &'static str,
    /// Form for any processor.
    pub portable: Run,
    /// Name of the vector instructions and form for this processor, if it has them.
    pub vector: Option<(&'static str, Run)>,
}

/// Vector instructions for a kernel on this processor: `on_x86_64` on x86-64, if the processor has them.
fn instructions(on_x86_64: &'static str) -> Option<&'static str> {
    if cfg!(target_arch = "aarch64") {
        return Some("neon");
    }
    #[cfg(target_arch = "x86_64")]
    if on_x86_64 == "sse2" || is_x86_feature_detected!("avx2") {
        return Some(on_x86_64);
    }
    let _ = on_x86_64;
    None
}

/// All kernels that have a vector form.
pub fn kernels() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    // In the last expression, `$call` is first the portable and then the chosen form.
    macro_rules! kernel {
        ($name:literal, $x86:literal, $portable:expr, $chosen:expr, |$call:ident, $blocks:ident| $run:expr) => {
            kernels.push(Kernel {
                name: $name,
                portable: |$blocks| {
                    let $call = $portable;
                    $run
                },
                vector: instructions($x86).map(|instructions| {
                    let run: Run = |$blocks| {
                        let $call = $chosen;
                        $run
                    };
                    (instructions, run)
                }),
            });
        };
    }
    macro_rules! distance {
        ($name:literal, $x86:literal, $function:ident $(::<$($size:literal),*>)?) => {
            kernel!(
                $name, $x86,
                distortion::portable::$function $(::<$($size),*>)?,
                distortion::$function $(::<$($size),*>)?,
                |call, blocks| call(&blocks.first, STRIDE, &blocks.second, STRIDE)
            );
        };
    }
    distance!("sad_16x16", "sse2", sad::<16, 16>);
    distance!("sad_8x8", "sse2", sad::<8, 8>);
    distance!("sse_16x16", "sse2", sse::<16, 16>);
    distance!("sse_8x8", "sse2", sse::<8, 8>);
    distance!("satd_16x16", "avx2", satd::<16, 16>);
    distance!("satd_8x8", "avx2", satd::<8, 8>);
    distance!("satd_4x4", "sse2", satd_4x4);
    kernel!(
        "sad_between_16x16",
        "sse2",
        distortion::portable::sad_between::<16, 16>,
        distortion::sad_between::<16, 16>,
        |call, blocks| call(&blocks.first, STRIDE, &blocks.second, STRIDE, (1, 2))
    );
    kernel!(
        "sad_each_of_4_16x16",
        "avx2",
        distortion::portable::sad_each::<16, 16, 4>,
        distortion::sad_each::<16, 16, 4>,
        |call, blocks| {
            let places = [INSIDE, INSIDE + 1, INSIDE + STRIDE, INSIDE + STRIDE + 1];
            call(&blocks.first[INSIDE..], STRIDE, &blocks.second, STRIDE, places)[3]
        }
    );
    kernel!(
        "compare_subblocks_16x16",
        "avx2",
        distortion::portable::compare_subblocks::<16, 16, 16>,
        distortion::compare_subblocks::<16, 16, 16>,
        |call, blocks| call(&blocks.first, STRIDE, &blocks.second, STRIDE, 1000).varied
    );
    kernel!(
        "row_squared_error_1280",
        "sse2",
        distortion::portable::row_squared_error,
        distortion::row_squared_error,
        |call, blocks| call(&blocks.first[..1280], &blocks.second[..1280])
    );
    macro_rules! six_tap {
        ($name:literal, $width:literal, $height:literal, $fractions:expr) => {
            kernel!(
                $name,
                "avx2",
                |source: &[u8], out: &mut [u8]| inter::six_tap::<$width, $height>(
                    source, INSIDE, STRIDE, $fractions, out, STRIDE
                ),
                |source: &[u8], out: &mut [u8]| inter::filter::<$width, $height>(
                    source,
                    INSIDE,
                    STRIDE,
                    $fractions,
                    Interpolation::SixTap,
                    out,
                    STRIDE
                ),
                |call, blocks| {
                    call(&blocks.first, &mut blocks.second);
                    u32::from(blocks.second[0])
                }
            );
        };
    }
    six_tap!("six_tap_16x16", 16, 16, (2, 6));
    six_tap!("six_tap_along_rows_16x16", 16, 16, (2, 0));
    six_tap!("six_tap_along_columns_16x16", 16, 16, (0, 2));
    six_tap!("six_tap_8x8", 8, 8, (3, 5));
    six_tap!("six_tap_4x4", 4, 4, (2, 6));
    kernel!(
        "inverse_dct_add",
        "sse2",
        transform::portable::inverse_dct_add,
        transform::inverse_dct_add,
        |call, blocks| {
            call(&blocks.coefficients[0], &mut blocks.first, STRIDE);
            u32::from(blocks.first[0])
        }
    );
    kernel!(
        "inverse_dct_add_pair",
        "sse2",
        transform::portable::inverse_dct_add_pair,
        transform::inverse_dct_add_pair,
        |call, blocks| {
            call(&[blocks.coefficients[0], blocks.coefficients[1]], &mut blocks.first, STRIDE);
            u32::from(blocks.first[0])
        }
    );
    kernel!(
        "inverse_dct_add_dc_pair",
        "sse2",
        transform::portable::inverse_dct_add_dc_pair,
        transform::inverse_dct_add_dc_pair,
        |call, blocks| {
            call([blocks.coefficients[0][0], blocks.coefficients[1][0]], &mut blocks.first, STRIDE);
            u32::from(blocks.first[0])
        }
    );
    kernel!(
        "forward_dct",
        "sse2",
        forward_transform::portable::forward_dct,
        forward_transform::forward_dct,
        |call, blocks| {
            call(&blocks.first, STRIDE, &blocks.second, STRIDE, &mut blocks.levels[0]);
            blocks.levels[0][0] as u32
        }
    );
    kernel!(
        "forward_dct_pair",
        "sse2",
        forward_transform::portable::forward_dct_pair,
        forward_transform::forward_dct_pair,
        |call, blocks| {
            let pair = blocks.levels.first_chunk_mut().expect("sixteen blocks");
            call(&blocks.first, STRIDE, &blocks.second, STRIDE, pair);
            blocks.levels[0][0] as u32
        }
    );
    kernel!(
        "forward_dct_plane_16x16",
        "avx2",
        |source: &[u8], prediction: &[u8], output: &mut [[i16; 16]; 16]| {
            for (index, block) in output.iter_mut().enumerate() {
                let (x, y) = (4 * (index % 4), 4 * (index / 4));
                let source = &source[STRIDE * y + x..];
                forward_transform::portable::forward_dct(source, STRIDE, &prediction[16 * y + x..], 16, block);
            }
        },
        |source: &[u8], prediction: &[u8], output: &mut [[i16; 16]; 16]| {
            forward_transform::forward_dct_plane::<16>(source, STRIDE, prediction, output);
        },
        |call, blocks| {
            call(&blocks.first, &blocks.second, &mut blocks.levels);
            blocks.levels[15][0] as u32
        }
    );
    #[cfg(target_arch = "x86_64")]
    kernel!(
        "forward_wht",
        "sse2",
        forward_transform::portable::forward_wht,
        forward_transform::forward_wht,
        |call, blocks| {
            call(&blocks.coefficients[0], &mut blocks.levels[0]);
            blocks.levels[0][0] as u32
        }
    );
    #[cfg(target_arch = "x86_64")]
    kernel!(
        "copy_16x16",
        "sse2",
        crate::block_copy::portable::copy_block::<16, 16>,
        crate::block_copy::copy_block::<16, 16>,
        |call, blocks| {
            call(&blocks.first, STRIDE, &mut blocks.second, STRIDE);
            u32::from(blocks.second[0])
        }
    );
    kernel!("quantize", "avx2", ForwardQuantizer::quantize_portably, ForwardQuantizer::quantize, |call, blocks| {
        u32::from(call(&blocks.quantizer, &blocks.coefficients[0], &mut blocks.levels[0], &mut blocks.restored[0]))
    });
    kernel!(
        "quantize_16_blocks",
        "avx2",
        ForwardQuantizer::quantize_all_portably,
        ForwardQuantizer::quantize_all,
        |call, blocks| call(
            &blocks.quantizer,
            &blocks.coefficients,
            &mut blocks.levels,
            &mut blocks.restored,
            &mut blocks.ends
        )
    );
    kernel!(
        "luma_mode_errors",
        "avx2",
        whole_modes::portable::luma_errors,
        whole_modes::luma_errors,
        |call, blocks| {
            let edges = Edges::gather(&blocks.first, STRIDE, INSIDE, true, true);
            call(&blocks.first[INSIDE..], STRIDE, &edges)[0]
        }
    );
    kernel!("subblock_mode_errors", "avx2", subblock_modes::portable::judge, subblock_modes::judge, |call, blocks| {
        let edges = Edges::<8>::gather(&blocks.first, STRIDE, INSIDE, true, true);
        let left = *edges.left.first_chunk().expect("eight samples contain four");
        call(&blocks.first[INSIDE..], STRIDE, &(edges.above, left, edges.corner)).errors[0]
    });
    macro_rules! loop_filter {
        ($name:literal, $function:ident, $at:expr, $($edges:expr),*) => {
            kernel!(
                $name,
                "sse2",
                loop_filter::portable::$function,
                loop_filter::$function,
                |call, blocks| {
                    call(&mut blocks.first, $at, STRIDE, $($edges,)* &blocks.limits);
                    u32::from(blocks.first[0])
                }
            );
        };
    }
    loop_filter!("loop_filter_luma_rows_macroblock", luma_rows, INSIDE, Edge::Macroblock);
    loop_filter!("loop_filter_luma_rows_subblock", luma_rows, INSIDE, Edge::Subblock);
    loop_filter!("loop_filter_luma_rows_simple", luma_rows, INSIDE, Edge::Simple(60));
    loop_filter!("loop_filter_chroma_rows", chroma_rows, RUNS, Edge::Macroblock);
    loop_filter!("loop_filter_luma_columns", luma_columns, INSIDE, Some(Edge::Macroblock), Some(Edge::Subblock));
    loop_filter!("loop_filter_chroma_columns", chroma_columns, RUNS, Some(Edge::Macroblock), Some(Edge::Subblock));
    kernel!(
        "loop_filter_macroblock",
        "avx2",
        |samples: &mut [u8], [luma, u, v]: [usize; 3], limits: &Limits| {
            let (outer, inner) = (Edge::Macroblock, Edge::Subblock);
            loop_filter::portable::luma_columns(samples, luma, STRIDE, Some(outer), Some(inner), limits);
            loop_filter::portable::chroma_columns(samples, [u, v], STRIDE, Some(outer), Some(inner), limits);
            for (y, edge) in [(0, outer), (4, inner), (8, inner), (12, inner)] {
                loop_filter::portable::luma_rows(samples, luma + y * STRIDE, STRIDE, edge, limits);
            }
            for (y, edge) in [(0, outer), (4, inner)] {
                let runs = [u, v].map(|at| at + y * STRIDE);
                loop_filter::portable::chroma_rows(samples, runs, STRIDE, edge, limits);
            }
        },
        |samples: &mut [u8], first: [usize; 3], limits: &Limits| {
            loop_filter::filter_planes(samples, first, [STRIDE; 2], (true, true), limits, true);
        },
        |call, blocks| {
            call(&mut blocks.first, [INSIDE, INSIDE + 20 * STRIDE, INSIDE + 20 * STRIDE + 16], &blocks.limits);
            u32::from(blocks.first[0])
        }
    );
    kernels
}
