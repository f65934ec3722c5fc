//! Forward error correction: parity fragments that restore lost fragments of the same frame.
//!
//! [`protect`] computes parity, [`restore`] a frame. For a frame of `n` fragments and `m` parity fragments, any `n` of
//! the `n + m` restore the frame.
//!
//! The code is the Reed-Solomon erasure code of `reed-solomon-simd`, over fragments padded with zeros to equal length.
//! RFC 5510 and FlexFEC (RFC 8627) protect in the same way. Each parity fragment carries what cannot be computed: the
//! number of parity fragments and the length of the last fragment.

/// Largest number of parity fragments of a frame.
pub const MAX_PARITY_FRAGMENTS: u16 = 255;
/// Fragments of a frame with parity have an even number of bytes, since the code works on pairs of bytes.
const UNIT: usize = 2;

/// Header fields of a parity fragment, in addition to those of every fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parity {
    /// Number of parity fragments of the frame, 1 to [`MAX_PARITY_FRAGMENTS`].
    pub count: u16,
    /// Size of the last fragment that is not parity, bytes.
    pub last: u16,
}

/// Largest payload of a fragment in a frame with parity, bytes. Fragments of other frames may have `payload` bytes, and
/// the parity fields take `fields` bytes. Zero if there is no room.
pub(crate) fn protected_payload(payload: usize, fields: usize) -> usize {
    payload.saturating_sub(fields) / UNIT * UNIT
}

/// Payload of each fragment except the last, bytes: `length` bytes are cut into `fragments` of nearly equal size.
pub(crate) fn even_payload(length: usize, fragments: u16) -> usize {
    length.div_ceil(fragments.max(1).into()).next_multiple_of(UNIT).max(UNIT)
}

/// Size of each parity fragment, bytes, for a frame of `length` bytes that is cut into fragments of `payload` bytes.
pub(crate) fn symbol_length(length: usize, payload: usize) -> usize {
    length.min(payload).next_multiple_of(UNIT).max(UNIT)
}

/// Computes the parity fragments of a frame that is cut into fragments of `payload` bytes. Empty if the code does not
/// support these lengths.
pub(crate) fn protect(frame: &[u8], payload: usize, count: u16) -> Vec<Vec<u8>> {
    let length = symbol_length(frame.len(), payload);
    let mut symbols: Vec<Vec<u8>> = frame.chunks(payload.max(1)).map(<[u8]>::to_vec).collect();
    if symbols.is_empty() {
        symbols.push(Vec::new());
    }
    if let Some(last) = symbols.last_mut() {
        last.resize(length, 0);
    }
    reed_solomon_simd::encode(symbols.len(), usize::from(count), &symbols).unwrap_or_default()
}

/// Restores a frame of `fragments` fragments from parts and their indices. `None` if the parts are too few or
/// contradict each other.
pub(crate) fn restore(parts: &[(u16, Vec<u8>)], fragments: u16, parity: Parity) -> Option<Vec<u8>> {
    let length = parts.iter().find(|&&(place, _)| place >= fragments)?.1.len();
    let last = usize::from(parity.last);
    let padded = |place: u16, part: &[u8]| {
        let expected = if place + 1 == fragments { last } else { length };
        (part.len() == expected && last <= length).then(|| {
            let mut symbol = part.to_vec();
            symbol.resize(length, 0);
            symbol
        })
    };
    let (own, others): (Vec<_>, Vec<_>) = parts.iter().partition(|&&(place, _)| place < fragments);
    let own: Vec<(usize, Vec<u8>)> = own
        .into_iter()
        .map(|(place, part)| Some((usize::from(*place), padded(*place, part)?)))
        .collect::<Option<_>>()?;
    let others = others.into_iter().map(|(place, part)| (usize::from(place - fragments), part));
    let own_symbols = own.iter().map(|(place, symbol)| (*place, symbol));
    let (all, count) = (usize::from(fragments), usize::from(parity.count));
    let restored = reed_solomon_simd::decode(all, count, own_symbols, others).ok()?;
    let mut frame = Vec::with_capacity((all - 1) * length + last);
    let mut own = own.into_iter().peekable();
    for place in 0..all {
        match own.next_if(|&(present, _)| present == place) {
            Some((_, symbol)) => frame.extend_from_slice(&symbol),
            None => frame.extend_from_slice(restored.get(&place)?),
        }
    }
    frame.truncate((all - 1) * length + last);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::payload::{Length, Payload, assemble};

    proptest! {
        /// Any sufficient subset of fragments restores the frame. [`Length`] gives the same lengths.
        #[test]
        fn any_sufficient_fragments_restore_the_frame(
            length in 0..6_000usize,
            payload in (1..400usize).prop_map(|pairs| pairs * 2),
            count in 1..20u16,
            lots in prop::collection::vec(any::<u32>(), 3_200),
        ) {
            let frame: Vec<u8> = (0..length).map(|at| (at * at + at / 5) as u8).collect();
            let fragments = length.div_ceil(payload).max(1) as u16;
            let parity = Parity { count, last: (length - (usize::from(fragments) - 1) * payload) as u16 };
            let own = (0..fragments).map(|place| {
                let start = usize::from(place) * payload;
                (place, frame[start..(start + payload).min(length)].to_vec())
            });
            let symbols = frame.protect(payload, count);
            prop_assert_eq!(symbols.len(), usize::from(count));
            let mut parts: Vec<(u16, Vec<u8>)> = own.chain((fragments..).zip(symbols)).collect();
            let all = parts.len();
            let mut order: Vec<usize> = (0..all).collect();
            order.sort_by_key(|&at| lots[at]);
            order.truncate(fragments.into());
            order.sort_unstable();
            let lengths = |parts: &[(u16, Vec<u8>)]| -> Vec<(u16, Length)> {
                parts.iter().map(|(place, part)| (*place, Length(part.len() as u32))).collect()
            };
            let modelled = Length(length as u32).protect(payload, count);
            let lengths_of_all = lengths(&parts);
            prop_assert_eq!(&modelled[..], &lengths_of_all[fragments.into()..].iter().map(|part| part.1).collect::<Vec<_>>()[..]);
            let mut chosen: Vec<(u16, Vec<u8>)> = order.iter().map(|&at| parts[at].clone()).collect();
            let mut modelled = lengths(&chosen);
            prop_assert_eq!(assemble(&mut modelled, fragments, Some(parity)), Some(Length(length as u32)));
            prop_assert_eq!(assemble(&mut chosen, fragments, Some(parity)), Some(frame));
            parts.truncate(fragments.into());
            parts.pop();
            prop_assert_eq!(assemble(&mut parts, fragments, Some(parity)), None);
        }
    }
}
