//! Prediction of blocks from their neighbours and from reference frames.

pub(crate) mod inter;
pub(crate) mod intra;
