//! The constants of RFC 6386: probabilities, trees, scan orders, quantizer steps and filter taps.

mod probabilities;

pub(crate) use probabilities::{
    COEFFICIENT_UPDATE_PROBABILITIES, CoefficientProbabilities, DEFAULT_COEFFICIENT_PROBABILITIES,
    KEY_FRAME_SUBBLOCK_MODE_PROBABILITIES,
};

/// Luma modes in key frames (section 11.2).
pub(crate) const KEY_FRAME_LUMA_MODE_PROBABILITIES: [u8; 4] = [145, 156, 163, 128];
/// Luma modes in interframes, until a frame changes them (section 16.2).
pub(crate) const DEFAULT_LUMA_MODE_PROBABILITIES: [u8; 4] = [112, 86, 140, 37];
/// Chroma modes in key frames (section 11.2).
pub(crate) const KEY_FRAME_CHROMA_MODE_PROBABILITIES: [u8; 3] = [142, 114, 183];
/// Chroma modes in interframes, until a frame changes them (section 16.2).
pub(crate) const DEFAULT_CHROMA_MODE_PROBABILITIES: [u8; 3] = [162, 101, 204];
/// Subblock modes in interframes (section 16.2).
pub(crate) const DEFAULT_SUBBLOCK_MODE_PROBABILITIES: [u8; 9] = [120, 90, 79, 133, 87, 85, 80, 111, 151];

/// Luma modes in key frames; leaves are `LumaMode` numbers (section 11.2).
pub(crate) const KEY_FRAME_LUMA_MODE_TREE: [i8; 8] = [-4, 2, 4, 6, 0, -1, -2, -3];
/// Luma modes in interframes (section 16.2).
pub(crate) const LUMA_MODE_TREE: [i8; 8] = [0, 2, 4, 6, -1, -2, -3, -4];
/// Chroma modes (section 11.2).
pub(crate) const CHROMA_MODE_TREE: [i8; 6] = [0, 2, -1, 4, -2, -3];
/// Subblock modes; leaves are `SubblockMode` numbers (section 11.2).
pub(crate) const SUBBLOCK_MODE_TREE: [i8; 18] = [0, 2, -1, 4, -2, 6, 8, 12, -3, 10, -5, -6, -4, 14, -7, 16, -8, -9];
/// Segment numbers (section 10).
pub(crate) const SEGMENT_TREE: [i8; 6] = [2, 4, 0, -1, -2, -3];
/// Partitionings in split mode: 0 top and bottom halves, 1 left and right halves, 2 quarters, 3 sixteenths (section
/// 16.3).
pub(crate) const PARTITIONING_TREE: [i8; 6] = [-3, 2, -2, 4, 0, -1];
/// Probabilities of `PARTITIONING_TREE`.
pub(crate) const PARTITIONING_PROBABILITIES: [u8; 3] = [110, 111, 150];
/// Number of partitions of each partitioning.
pub(crate) const PARTITION_COUNTS: [usize; 4] = [2, 2, 4, 16];
/// Partition of each subblock, by partitioning.
pub(crate) const PARTITION_LAYOUTS: [[u8; 16]; 4] = [
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1],
    [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
];
/// Motion vectors of partitions: 0 left, 1 above, 2 zero, 3 new (section 16.3).
pub(crate) const PARTITION_VECTOR_TREE: [i8; 6] = [0, 2, -1, 4, -2, -3];
/// Probabilities of `PARTITION_VECTOR_TREE` by context.
pub(crate) const PARTITION_VECTOR_PROBABILITIES: [[u8; 3]; 5] =
    [[147, 136, 18], [106, 145, 1], [179, 121, 1], [223, 1, 34], [208, 1, 1]];
/// Short motion vector magnitudes (section 17.2).
pub(crate) const SHORT_VECTOR_TREE: [i8; 14] = [2, 8, 4, 6, 0, -1, -2, -3, 10, 12, -4, -5, -6, -7];
/// Probabilities of the inter modes, indexed by the counts of neighbouring vectors (section 16.3).
pub(crate) const INTER_MODE_CONTEXTS: [[u8; 4]; 6] =
    [[7, 1, 1, 143], [14, 18, 14, 107], [135, 64, 57, 68], [60, 56, 128, 65], [159, 134, 128, 34], [234, 188, 128, 28]];
/// Motion vector components after a key frame, vertical first (section 17.2).
pub(crate) const DEFAULT_MOTION_VECTOR_PROBABILITIES: [[u8; 19]; 2] = [
    [162, 128, 225, 146, 172, 147, 214, 39, 156, 128, 129, 132, 75, 145, 178, 206, 239, 254, 254],
    [164, 128, 204, 170, 119, 235, 140, 230, 228, 128, 130, 130, 74, 148, 180, 203, 236, 254, 254],
];
/// Probability that a motion vector probability is not updated (section 17.2).
pub(crate) const MOTION_VECTOR_UPDATE_PROBABILITIES: [[u8; 19]; 2] = [
    [237, 246, 253, 253, 254, 254, 254, 254, 254, 254, 254, 254, 254, 254, 250, 250, 252, 254, 254],
    [231, 243, 245, 253, 254, 254, 254, 254, 254, 254, 254, 254, 254, 254, 251, 251, 254, 254, 254],
];

/// Raster position of each coefficient in coding order (section 13).
pub(crate) const ZIGZAG: [u8; 16] = [0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15];
/// Band of each coefficient in coding order (section 13.3).
pub(crate) const COEFFICIENT_BANDS: [u8; 16] = [0, 1, 2, 3, 6, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7];
/// Smallest magnitude of the six categories of large coefficients (section 13.2).
pub(crate) const CATEGORY_BASES: [u16; 6] = [5, 7, 11, 19, 35, 67];
/// Probabilities of the extra bits of each category, the most significant first.
pub(crate) const CATEGORY_PROBABILITIES: [&[u8]; 6] = [
    &[159],
    &[165, 145],
    &[173, 148, 140],
    &[176, 155, 140, 135],
    &[180, 157, 141, 134, 130],
    &[254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129],
];

/// Step of DC coefficients by quantizer index (section 14.1).
#[rustfmt::skip]
pub(crate) const DC_STEPS: [u8; 128] = [
    4, 5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 17, 18, 19, 20, 20, 21, 21, 22, 22, 23, 23, 24, 25, 25, 26,
    27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 46, 47, 48, 49, 50, 51, 52, 53,
    54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 76, 77, 78, 79, 80, 81,
    82, 83, 84, 85, 86, 87, 88, 89, 91, 93, 95, 96, 98, 100, 101, 102, 104, 106, 108, 110, 112, 114, 116, 118, 122,
    124, 126, 128, 130, 132, 134, 136, 138, 140, 143, 145, 148, 151, 154, 157,
];
/// Step of AC coefficients by quantizer index (section 14.1).
#[rustfmt::skip]
pub(crate) const AC_STEPS: [u16; 128] = [
    4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,
    34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 60, 62, 64, 66,
    68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 119,
    122, 125, 128, 131, 134, 137, 140, 143, 146, 149, 152, 155, 158, 161, 164, 167, 170, 173, 177, 181, 185, 189, 193,
    197, 201, 205, 209, 213, 217, 221, 225, 229, 234, 239, 245, 249, 254, 259, 264, 269, 274, 279, 284,
];

/// Six-tap filters by eighth of a sample (section 18.3).
pub(crate) const SIX_TAPS: [[i16; 6]; 8] = [
    [0, 0, 128, 0, 0, 0],
    [0, -6, 123, 12, -1, 0],
    [2, -11, 108, 36, -8, 1],
    [0, -9, 93, 50, -6, 0],
    [3, -16, 77, 77, -16, 3],
    [0, -6, 50, 93, -9, 0],
    [1, -8, 36, 108, -11, 2],
    [0, -1, 12, 123, -6, 0],
];
