//! A look at the bytes of an ONNX file before anything is made of them: how much of it is not weights.
//!
//! A message of two bytes in the file becomes hundreds in memory, so a small file could ask for gigabytes. Weights
//! become what they are; everything else is bounded here, by walking over the file without keeping any of it.
//!
//! Field numbers are those of `onnx.proto` (ONNX IR version 10); the encoding is that of Protocol Buffers.

/// Number of the graph in a model, of a tensor among the graph's initializers, and of those fields of a tensor that hold
/// weights in one piece.
const GRAPH: u64 = 7;
const INITIALIZER: u64 = 5;
const FLOAT_DATA: u64 = 4;
const RAW_DATA: u64 = 9;

/// What a field of a message holds.
enum Field<'a> {
    Bytes(u64, &'a [u8]),
    Number,
}

/// Reads a number of variable length; none if there is no whole one.
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

/// Reads a field; none if there is no whole one, or it is of a kind that no ONNX file has.
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

/// How many bytes below `message` are in fields that hold weights in one piece, at the place that `path` leads to.
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

/// How many bytes of `model` are not weights; none if it is no whole message.
pub(crate) fn bytes_besides_weights(model: &[u8]) -> Option<usize> {
    Some(model.len() - weights(model, &[GRAPH, INITIALIZER])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
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
    fn weights_are_told_from_everything_else() {
        let tensor = held(RAW_DATA as u8, &[0; 1_000]);
        let model = held(GRAPH as u8, &held(INITIALIZER as u8, &tensor));
        assert_eq!(bytes_besides_weights(&model), Some(model.len() - 1_000));
        // The same elsewhere is none.
        let elsewhere = held(GRAPH as u8, &held(1, &tensor));
        assert_eq!(bytes_besides_weights(&elsewhere), Some(elsewhere.len()));
    }

    #[test]
    fn what_is_cut_off_is_no_message() {
        let model = held(GRAPH as u8, &held(INITIALIZER as u8, &held(RAW_DATA as u8, &[0; 300])));
        for length in 1..model.len() {
            assert_eq!(bytes_besides_weights(&model[..length]), None, "{length}");
        }
        assert_eq!(bytes_besides_weights(&[0xff; 40]), None);
    }
}
