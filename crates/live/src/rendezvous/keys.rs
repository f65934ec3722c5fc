//! Keys for the rendezvous, which both ends derive from their ticket's secret.
//!
//! A key pair names the call and signs for it. Two more keys hide the addresses from the server and authenticate
//! probes. The server sees only the name, from which nobody can compute the secret.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::message::{
    Announce, Code, Kind, LIST, Message, Name, Sealed, Side, Signature, Token, list, listed, probe_bytes,
};
use crate::LiveError;
use crate::identity::random;
use lockstep_session::ticket::Secret;
use std::net::SocketAddr;

/// Keys of one ticket.
pub(crate) struct Keys {
    signing: Ed25519KeyPair,
    name: Name,
    sealing: LessSafeKey,
    probing: hmac::Key,
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> LiveError {
    LiveError::Identity(error.to_string())
}

/// 32 bytes of `key` for `purpose` (HKDF, RFC 5869).
pub(super) fn derived(key: &Prk, purpose: &[u8]) -> Result<[u8; 32], LiveError> {
    let mut bytes = [0; 32];
    let filled = key.expand(&[purpose], HKDF_SHA256).and_then(|expanded| expanded.fill(&mut bytes));
    filled.map_err(|error| failed(&error))?;
    Ok(bytes)
}

impl Keys {
    /// Derives the keys from the ticket's secret.
    pub(crate) fn of(secret: &Secret) -> Result<Self, LiveError> {
        let key = Salt::new(HKDF_SHA256, b"lockstep rendezvous").extract(secret);
        let signing = Ed25519KeyPair::from_seed_unchecked(&derived(&key, b"name")?).map_err(|error| failed(&error))?;
        let name = signing.public_key().as_ref().try_into().map_err(|error| failed(&error))?;
        let sealing = UnboundKey::new(&CHACHA20_POLY1305, &derived(&key, b"addresses")?);
        let sealing = LessSafeKey::new(sealing.map_err(|error| failed(&error))?);
        let probing = hmac::Key::new(HMAC_SHA256, &derived(&key, b"probes")?);
        Ok(Self { signing, name, sealing, probing })
    }

    /// Name of the call.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// A signed announcement.
    pub(crate) fn sign(&self, announce: Announce) -> Vec<u8> {
        let signed = announce.to_bytes();
        let mut signature: Signature = [0; 64];
        signature.copy_from_slice(self.signing.sign(&signed).as_ref());
        Message::Announce(Box::new(announce), signature, &signed).to_bytes()
    }

    /// Encrypts the addresses of `side` for the other end.
    pub(crate) fn seal(&self, side: Side, addresses: &[SocketAddr]) -> Result<Sealed, LiveError> {
        let mut sealed: Sealed = [0; size_of::<Sealed>()];
        // A key seals so few lists that random nonces do not repeat.
        let nonce: [u8; 12] = random()?;
        let mut bytes = list(addresses);
        let tag = self.sealing.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from([side.number()]),
            &mut bytes,
        );
        let tag = tag.map_err(|error| failed(&error))?;
        sealed[..12].copy_from_slice(&nonce);
        sealed[12..12 + LIST].copy_from_slice(&bytes);
        sealed[12 + LIST..].copy_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Decrypts the addresses of `side`; `None` if it did not seal them.
    pub(crate) fn unseal(&self, side: Side, sealed: &Sealed) -> Option<Vec<SocketAddr>> {
        let (nonce, rest) = sealed.split_first_chunk::<12>()?;
        let mut bytes = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        listed(self.sealing.open_in_place(nonce, Aad::from([side.number()]), &mut bytes).ok()?)
    }

    /// A probe or an answer of `side`.
    pub(crate) fn probe(&self, kind: Kind, side: Side, token: Token) -> Vec<u8> {
        let mut bytes = probe_bytes(kind, side, token);
        let code = hmac::sign(&self.probing, &bytes);
        bytes.extend_from_slice(&code.as_ref()[..size_of::<Code>()]);
        bytes
    }

    /// Whether `code` authenticates `coded`, in constant time.
    pub(crate) fn is_code_of(&self, code: &Code, coded: &[u8]) -> bool {
        let right = hmac::sign(&self.probing, coded);
        right.as_ref().iter().zip(code).fold(0, |wrong, (one, other)| wrong | (one ^ other)) == 0
    }
}

/// Whether the owner of the secret behind `name` signed these bytes.
pub(crate) fn is_signed(name: &Name, signed: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, name).verify(signed, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secret: u8) -> Keys {
        Keys::of(&[secret; 16]).expect("they can be made")
    }

    #[test]
    fn only_the_other_end_can_read_the_addresses() {
        let addresses: Vec<SocketAddr> = vec!["192.0.2.7:4600".parse().expect("an address")];
        let sealed = keys(1).seal(Side::Joiner, &addresses).expect("it can be sealed");
        assert_eq!(keys(1).unseal(Side::Joiner, &sealed), Some(addresses.clone()));
        assert_eq!(keys(1).unseal(Side::Listener, &sealed), None, "sealed by the other end");
        assert_eq!(keys(2).unseal(Side::Joiner, &sealed), None, "of another ticket");
        for place in [0, 12, 60, 180] {
            let mut changed = sealed;
            changed[place] ^= 1;
            assert_eq!(keys(1).unseal(Side::Joiner, &changed), None, "byte {place} changed");
        }
    }

    #[test]
    fn probes_and_answers_require_the_ticket() {
        let probe = keys(1).probe(Kind::Probe, Side::Joiner, [5; 8]);
        let Some(Message::Probe(_, _, code, coded)) = Message::decode(&probe) else { panic!("it is a probe") };
        assert!(keys(1).is_code_of(&code, coded) && !keys(2).is_code_of(&code, coded));
        let answer = keys(1).probe(Kind::Answer, Side::Joiner, [5; 8]);
        assert_ne!(probe[probe.len() - 16..], answer[answer.len() - 16..], "a probe sent back is no answer");
    }
}
