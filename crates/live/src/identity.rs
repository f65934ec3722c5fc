//! Identity of a listener: a key pair and the secret of its tickets; and the TLS configuration of both ends.
//!
//! Keys are raw public keys (RFC 7250): a ticket names the key itself, so no certificate is needed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

use crate::LiveError;
use lockstep_session::ticket::{PublicKey, Secret};

/// Protocol name in TLS ALPN (RFC 7301).
const PROTOCOL: &[u8] = b"lockstep/1";
/// DER prefix of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410, section 4).
const KEY_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key pair and the secret of its tickets.
#[derive(Clone)]
pub struct Identity {
    private: Vec<u8>,
    public: PublicKey,
    secret: Secret,
    reusable: bool,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// An error about keys.
fn failed(what: &str) -> LiveError {
    LiveError::Identity(what.to_owned())
}

/// `N` random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], LiveError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| failed("the system provides no random numbers"))?;
    Ok(bytes)
}

impl Identity {
    /// A new identity, for one call.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn new() -> Result<Self, LiveError> {
        let private = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let private = private.map_err(|_| failed("the system provides no random numbers"))?;
        Self::of(private.as_ref().to_vec(), random()?, false)
    }

    /// The standing identity in the file at `path`, which is created if it does not exist. Only its owner can read the
    /// file. Its ticket is valid for any number of calls.
    ///
    /// # Errors
    /// The file can be neither read nor created, or has other contents.
    pub fn standing(path: &Path) -> Result<Self, LiveError> {
        let wrong = |error: &dyn std::fmt::Display| LiveError::Identity(format!("{}: {error}", path.display()));
        match fs::read_to_string(path) {
            Ok(text) => {
                let parts = text.split_whitespace().map(|part| BASE32_NOPAD.decode(part.as_bytes()).ok());
                let parts: Option<Vec<_>> = parts.collect();
                let secret = parts.as_deref().and_then(|parts| Some((parts.first()?, parts.get(1)?)));
                let secret = secret.and_then(|(key, secret)| Some((key.clone(), secret.as_slice().try_into().ok()?)));
                let (private, secret) = secret
                    .ok_or_else(|| wrong(&"the file holds no key of Lockstep; remove it, and a new one is created"))?;
                Self::of(private, secret, true)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let made = Self { reusable: true, ..Self::new()? };
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
                }
                let mut options = OpenOptions::new();
                options.write(true).create_new(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let text = [&made.private[..], &made.secret[..]].map(|part| BASE32_NOPAD.encode(part) + "\n").concat();
                let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
                written.map_err(|error| wrong(&error))?;
                Ok(made)
            }
            Err(error) => Err(wrong(&error)),
        }
    }

    fn of(private: Vec<u8>, secret: Secret, reusable: bool) -> Result<Self, LiveError> {
        let pair = Ed25519KeyPair::from_pkcs8(&private).map_err(|_| failed("the key is not an Ed25519 key"))?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| failed("the key is not an Ed25519 key"))?;
        Ok(Self { private, public, secret, reusable })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The secret of its tickets.
    #[must_use]
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// Whether its tickets are valid for more than one call.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// A secret seed that stays the same for this identity.
    pub(crate) fn seed(&self) -> Vec<u8> {
        self.private.clone()
    }

    /// TLS configuration of the listener, which proves to hold this key. The ticket's secret later authenticates the
    /// joiner.
    pub(crate) fn server(&self) -> Result<ServerConfig, LiveError> {
        let wrong = |error: Error| LiveError::Identity(error.to_string());
        let private = PrivatePkcs8KeyDer::from(self.private.clone());
        let signing = provider::sign::any_eddsa_type(&private).map_err(wrong)?;
        let certified = CertifiedKey::new(vec![spki(&self.public).as_ref().to_vec().into()], signing);
        let mut config = ServerConfig::builder_with_provider(tls())
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.max_early_data_size = 0;
        Ok(config)
    }
}

/// TLS configuration of the joiner: the listener must prove to hold `key`.
pub(crate) fn client(key: &PublicKey) -> Result<ClientConfig, LiveError> {
    let wrong = |error: Error| LiveError::Identity(error.to_string());
    let provider = tls();
    let algorithms = provider.signature_verification_algorithms;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { key: *key, algorithms }))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Every call uses a full handshake, so nothing can be replayed.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

fn tls() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

fn spki(key: &PublicKey) -> SubjectPublicKeyInfoDer<'static> {
    [&KEY_PREFIX[..], &key[..]].concat().into()
}

/// Accepts a single key.
#[derive(Debug)]
struct Pinned {
    key: PublicKey,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == spki(&self.key).as_ref() {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General("another key than the ticket's".to_owned()))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_identity_persists_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("deeper").join("standing");
        let identity = || Identity::standing(&path).expect("it can be made");
        let (first, second) = (identity(), identity());
        assert_eq!((first.public(), first.secret()), (second.public(), second.secret()));
        assert!(first.is_reusable() && second.is_reusable());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        }
        fs::write(&path, "something else").expect("it can be written");
        let said = Identity::standing(&path).expect_err("it is no identity").to_string();
        assert!(said.contains("standing") && said.contains("no key"), "{said}");
    }

    #[test]
    fn two_identities_differ() {
        let [one, other] = [(); 2].map(|()| Identity::new().expect("it can be made"));
        assert!(one.public() != other.public() && one.secret() != other.secret() && !one.is_reusable());
    }
}
