//! Short datagrams that test the path, next to those of the transport, whose first byte is 0x40 or more.

/// Random content of a challenge and its answer.
pub type Token = [u8; 8];

/// First byte of a challenge, and of its answer; no datagram of the transport starts with these.
const CHALLENGE: u8 = 1;
const ANSWER: u8 = 2;
/// Datagram that reports that packets from the other end arrive again.
const RESUMED: u8 = 3;

/// The datagram of a challenge.
pub fn challenge(token: Token) -> Vec<u8> {
    [&[CHALLENGE][..], &token[..]].concat()
}

/// The datagram that reports that packets arrive again after a pause.
pub fn resumed() -> Vec<u8> {
    vec![RESUMED]
}

/// Whether `datagram` is that report.
pub fn is_resumed(datagram: &[u8]) -> bool {
    datagram == [RESUMED]
}

/// The answer to a challenge, if `datagram` is one.
pub fn answer_to(datagram: &[u8]) -> Option<Vec<u8>> {
    let [CHALLENGE, token @ ..] = datagram else { return None };
    (token.len() == size_of::<Token>()).then(|| [&[ANSWER][..], token].concat())
}

/// The token of an answer, if `datagram` is one.
pub fn answered(datagram: &[u8]) -> Option<Token> {
    let [ANSWER, token @ ..] = datagram else { return None };
    token.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_datagrams_are_not_challenges() {
        for first in [0x21, 0x22] {
            let datagram = [first; 9];
            assert!(answer_to(&datagram).is_none() && answered(&datagram).is_none());
        }
        assert!(answer_to(&[CHALLENGE; 8]).is_none() && answered(&[ANSWER; 10]).is_none() && answer_to(&[]).is_none());
    }
}
