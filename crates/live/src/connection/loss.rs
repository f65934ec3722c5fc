//! Reasons for the end of a connection, and their QUIC error codes.

use quinn_proto::{ConnectionError, VarInt};

use lockstep_session::Loss;

use crate::TicketRefusal;
use lockstep_session::control::CloseReason;

/// Longest part of a reason that is shown, in characters.
const MAX_REASON_CHARACTERS: usize = 200;

/// First QUIC error code for a refused ticket; lower codes are those of [`CloseReason`].
const REFUSALS: u32 = 1 << 16;

/// QUIC error code for a refused ticket.
pub(super) fn code(refusal: TicketRefusal) -> VarInt {
    VarInt::from_u32(REFUSALS + refusal.number())
}

/// The loss that QUIC reports.
pub(super) fn loss_of(reason: ConnectionError) -> Loss {
    use ConnectionError::{ApplicationClosed, Reset};
    match reason {
        ApplicationClosed(close) => match close.error_code.into_inner() {
            code if code >= REFUSALS.into() => Loss::Refused(TicketRefusal::from_number(code - u64::from(REFUSALS))),
            code => Loss::Closed(CloseReason::from_number(u16::try_from(code).unwrap_or(u16::MAX))),
        },
        Reset => Loss::Restarted,
        // The other end may have chosen the text; a terminal must not receive its control characters.
        other => {
            let said = other.to_string();
            Loss::Broken(said.chars().filter(|letter| !letter.is_control()).take(MAX_REASON_CHARACTERS).collect())
        }
    }
}
