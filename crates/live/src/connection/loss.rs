//! Reasons for the end of a connection, and their QUIC error codes.

use quinn_proto::{ConnectionError, TransportErrorCode, VarInt};

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

/// The loss of a link to a page: the browser chooses the code, also if the user closes the page.
pub(super) fn loss_of_page(reason: ConnectionError) -> Loss {
    match reason {
        ConnectionError::ApplicationClosed(_) => Loss::Closed(CloseReason::Done),
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::NO_ERROR => {
            Loss::Closed(CloseReason::Done)
        }
        other => loss_of(other, false),
    }
}

/// The loss for the code with which a page closed its session.
pub(super) fn loss_of_session(code: u32) -> Loss {
    Loss::Closed(CloseReason::from_number(u16::try_from(code).unwrap_or(u16::MAX)))
}

/// The loss that QUIC reports. Only a listener refuses tickets.
pub(super) fn loss_of(reason: ConnectionError, by_listener: bool) -> Loss {
    use ConnectionError::{ApplicationClosed, Reset};
    match reason {
        ApplicationClosed(close) => match close.error_code.into_inner() {
            code if by_listener && code >= REFUSALS.into() => {
                Loss::Refused(TicketRefusal::from_number(code - u64::from(REFUSALS)))
            }
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
