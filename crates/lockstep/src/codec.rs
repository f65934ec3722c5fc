//! Interface for the application's own codec: see [`PictureEncoder`] and [`PictureDecoder`].
//!
//! [`SendOptions::external_end`](crate::SendOptions::external_end) and
//! [`ReceiveOptions::external_end`](crate::ReceiveOptions::external_end) create the ends for a
//! [`Peer`](crate::Peer)`<External>`.

pub use lockstep_call::{EncodeRequest, EncodedPicture, External, PictureDecoder, PictureEncoder};
pub use lockstep_transport::{CodecId, Recovery, StateId};
