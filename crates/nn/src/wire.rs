//! Counts the bytes of an ONNX file that are not weights, before the file is decoded.
//!
//! A message of two bytes takes hundreds in memory, so a small file could need gigabytes. Weights keep their size;
//! everything else is bounded here. The count walks over the file without storing anything.
//!
//! Field numbers are those of `onnx.proto` (ONNX IR version 10). The encoding is Protocol Buffers.

/// Field numbers: graph of a model, initializers of a graph, and the fields of a tensor that hold packed weights.
const GRAPH: u64 = 7;
const INITIALIZER: u64 = 5;
const FLOAT_DATA: u64 = 4;
const RAW_DATA: u64 = 9;

/// Content of a field.
enum Field<'a> {
    Bytes(u64, &'a [u8]),
    Number,
}

/// Reads a number of variable length; `None` if it is incomplete.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for place in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads a field; `None` if it is incomplete or of a kind that ONNX does not use.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = number(bytes)?;
    let skip = |bytes: &mut &'a [u8], length: usize| {
        let (taken, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(taken)
    };
    match tag & 7 {
        0 => number(bytes).map(|_| Field::Number),
        1 => skip(bytes, 8).map(|_| Field::Number),
        2 => {
            let length = usize::try_from(number(bytes)?).ok()?;
            Some(Field::Bytes(tag >> 3, skip(bytes, length)?))
        }
        5 => skip(bytes, 4).map(|_| Field::Number),
        _ => None,
    }
}

/// Number of bytes in fields with packed weights, in the messages at `path` below `message`. `None` if the message is
/// incomplete.
fn weights(mut message: &[u8], path: &[u64]) -> Option<usize> {
    let mut sum = 0;
    while !message.is_empty() {
        match (field(&mut message)?, path) {
            (Field::Bytes(FLOAT_DATA | RAW_DATA, held), []) => sum += held.len(),
            (Field::Bytes(name, held), [next, rest @ ..]) if name == *next => sum += weights(held, rest)?,
            _ => {}
        }
    }
    Some(sum)
}

/// Number of bytes of `model` that are not weights; `None` if the message is incomplete.
pub(crate) fn bytes_without_weights(model: &[u8]) -> Option<usize> {
    Some(model.len() - weights(model, &[GRAPH, INITIALIZER])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a field of bytes.
    fn held(name: u8, content: &[u8]) -> Vec<u8> {
        let mut length = content.len();
        let mut message = vec![name << 3 | 2];
        while length >= 0x80 {
            message.push(length as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend(content);
        message
    }

    #[test]
    fn only_initializers_count_as_weights() {
        let tensor = held(RAW_DATA as u8, &[0; 1_000]);
        let model = held(GRAPH as u8, &held(INITIALIZER as u8, &tensor));
        assert_eq!(bytes_without_weights(&model), Some(model.len() - 1_000));
        // The same bytes in another field are not weights.
        let elsewhere = held(GRAPH as u8, &held(1, &tensor));
        assert_eq!(bytes_without_weights(&elsewhere), Some(elsewhere.len()));
    }

    #[test]
    fn truncated_message_is_refused() {
        let model = held(GRAPH as u8, &held(INITIALIZER as u8, &held(RAW_DATA as u8, &[0; 300])));
        for length in 1..model.len() {
            assert_eq!(bytes_without_weights(&model[..length]), None, "{length}");
        }
        assert_eq!(bytes_without_weights(&[0xff; 40]), None);
    }
}
