//! A purely functional VP8 codec (RFC 6386): state in, frame and state out.

mod picture;

pub use picture::{MAXIMUM_DIMENSION, Picture, PictureError, Plane};
