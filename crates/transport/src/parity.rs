//! Forward error correction: parity fragments that leave after those of a frame, of all of which any as many as the frame
//! has of its own restore it.
//!
//! The code is a Reed-Solomon erasure code over the fragments, the last one filled up with zeros (`reed-solomon-simd`: of
//! `n` fragments and `m` of parity any `n` suffice, as in RFC 5510 and FlexFEC's RFC 8627 they do, but with any `m`). A
//! parity fragment knows what cannot be computed: how many of them there are and how long the last fragment is.

/// The most parity fragments that a frame may have.
pub const MOST_PARITY: u16 = 255;
/// Where a frame has parity, each of its fragments has an even number of bytes: the code works on pairs of them.
const UNIT: usize = 2;

/// What each parity fragment says of its frame beside what all fragments say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parity {
    /// How many parity fragments the frame has, 1 to [`MOST_PARITY`].
    pub count: u16,
    /// Bytes in the last of the fragments that are no parity.
    pub last: u16,
}

/// The most bytes of each fragment of a frame with parity where those of others may have `payload` and the fields of parity
/// take `fields`; zero where there is no room for it.
pub(crate) fn protected_payload(payload: usize, fields: usize) -> usize {
    payload.saturating_sub(fields) / UNIT * UNIT
}

/// Bytes of each fragment but the last of a frame of `length` bytes that is cut into so many as evenly as can be.
pub(crate) fn even_payload(length: usize, fragments: u16) -> usize {
    length.div_ceil(fragments.max(1).into()).next_multiple_of(UNIT).max(UNIT)
}

/// Bytes in each parity fragment of a frame of `length` bytes, cut into fragments of `payload`.
pub(crate) fn symbol_length(length: usize, payload: usize) -> usize {
    length.min(payload).next_multiple_of(UNIT).max(UNIT)
}

/// The parity fragments of a frame of bytes, cut into fragments of `payload`; none where the code has no such lengths.
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

/// The frame of `fragments` fragments, of which these have come by their places; none where they are too few or contradict
/// each other.
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
        /// Any fragments of all, as many as the frame has of its own, make it again; a length alone says the same of
        /// lengths.
        #[test]
        fn any_fragments_that_are_enough_make_the_frame(
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
