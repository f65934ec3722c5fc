//! Identity of a listener: a key pair and the secret of its tickets; and the TLS configuration of both ends.
//!
//! Keys are raw public keys (RFC 7250): a ticket names the key itself, so no certificate is needed. Browsers require a
//! certificate. A listener for them shows one to every joiner, and its ticket names the certificate's hash.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE32_NOPAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;

use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

use crate::LiveError;
use lockstep_session::ticket::{CertificateHash, ListenerKey, PublicKey, Secret};

/// Protocol name in TLS ALPN (RFC 7301).
const PROTOCOL: &[u8] = b"lockstep/1";
/// That of HTTP/3, which carries WebTransport.
pub(crate) const HTTP3: &[u8] = b"h3";
/// Life of a certificate. Browsers refuse more than 14 days for a certificate that they know by its hash.
const CERTIFICATE_LIFE: Duration = Duration::from_secs(14 * 24 * 3_600);
/// A certificate is valid from this long before its creation, because a browser's clock may be behind.
#[cfg(feature = "web")]
const CERTIFICATE_BACKDATED: Duration = Duration::from_secs(10 * 60);
/// A standing identity replaces its certificate when less than this remains.
const CERTIFICATE_RENEWED: Duration = Duration::from_secs(24 * 3_600);
/// Longest file of a standing identity, several times what is written.
const MAX_FILE_BYTES: u64 = 16 << 10;
/// DER prefix of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410, section 4).
const KEY_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key pair and the secret of its tickets.
#[derive(Clone)]
pub struct Identity {
    private: Vec<u8>,
    public: PublicKey,
    secret: Secret,
    reusable: bool,
    certificate: Option<Certificate>,
}

/// Self-signed certificate (ECDSA P-256), which browsers require.
#[derive(Clone)]
struct Certificate {
    /// PKCS #8.
    private: Vec<u8>,
    der: Vec<u8>,
    ends: SystemTime,
}

impl Certificate {
    #[cfg(feature = "web")]
    fn new(now: SystemTime) -> Result<Self, LiveError> {
        use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
        use time::OffsetDateTime;

        let wrong = |error: rcgen::Error| LiveError::Identity(error.to_string());
        let begins = now - CERTIFICATE_BACKDATED;
        let ends = begins + CERTIFICATE_LIFE;
        let key = KeyPair::generate().map_err(wrong)?;
        // Joiners compare the hash, not the name.
        let mut params = CertificateParams::new(vec!["lockstep".to_owned()]).map_err(wrong)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "lockstep");
        (params.not_before, params.not_after) = (OffsetDateTime::from(begins), OffsetDateTime::from(ends));
        let der = params.self_signed(&key).map_err(wrong)?.der().to_vec();
        Ok(Self { private: key.serialize_der(), der, ends })
    }

    /// Refuses, since this build lacks the feature.
    #[cfg(not(feature = "web"))]
    fn new(_: SystemTime) -> Result<Self, LiveError> {
        Err(LiveError::NotBuilt("web"))
    }

    fn hash(&self) -> CertificateHash {
        hash_of(&self.der)
    }

    fn certified(&self) -> Result<CertifiedKey, Error> {
        let private = PrivatePkcs8KeyDer::from(self.private.clone());
        let signing = provider::sign::any_ecdsa_type(&private.into())?;
        Ok(CertifiedKey::new(vec![self.der.clone().into()], signing))
    }

    /// Lines of the file of a standing identity: key, certificate, end as seconds of the Unix epoch.
    fn parts(&self) -> [Vec<u8>; 3] {
        let ends = self.ends.duration_since(UNIX_EPOCH).unwrap_or_default();
        [self.private.clone(), self.der.clone(), ends.as_secs().to_be_bytes().to_vec()]
    }

    /// The certificate of these lines.
    fn from_parts(parts: &[Vec<u8>]) -> Option<Self> {
        let [private, der, ends] = parts else { return None };
        let ends = UNIX_EPOCH.checked_add(Duration::from_secs(u64::from_be_bytes(ends.as_slice().try_into().ok()?)))?;
        let certificate = Self { private: private.clone(), der: der.clone(), ends };
        certificate.certified().ok()?.keys_match().ok()?;
        Some(certificate)
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        self.ends.duration_since(now).is_ok_and(|left| left >= CERTIFICATE_RENEWED && left <= CERTIFICATE_LIFE)
    }
}

fn hash_of(der: &[u8]) -> CertificateHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, der).as_ref());
    hash
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

    /// A new identity with a certificate, for one call with a browser or a native joiner.
    ///
    /// # Errors
    /// The system provides no random numbers, or this build lacks the feature `web`.
    pub fn for_browsers() -> Result<Self, LiveError> {
        Ok(Self { certificate: Some(Certificate::new(SystemTime::now())?), ..Self::new()? })
    }

    /// The standing identity in the file at `path`, which is created if it does not exist. Only its owner can read the
    /// file. Its ticket is valid for any number of calls.
    ///
    /// # Errors
    /// The file can be neither read nor created, or has other contents.
    pub fn standing(path: &Path) -> Result<Self, LiveError> {
        let made = match Self::read(path)? {
            Some((identity, _)) => return Ok(identity),
            None => Self { reusable: true, ..Self::new()? },
        };
        made.write(path, None)?;
        Ok(made)
    }

    /// The same with a certificate, for browsers too. Browsers limit the life of a certificate. So the certificate
    /// changes after at most 13 days, and with it the ticket. The file keeps the certificate until a day before it expires.
    ///
    /// # Errors
    /// Those of [`Self::standing`], and that this build lacks the feature `web`.
    pub fn standing_for_browsers(path: &Path) -> Result<Self, LiveError> {
        Self::standing_with_certificate(path, SystemTime::now())
    }

    fn standing_with_certificate(path: &Path, now: SystemTime) -> Result<Self, LiveError> {
        let (identity, kept) = match Self::read(path)? {
            Some(read) => read,
            None => (Self { reusable: true, ..Self::new()? }, None),
        };
        if let Some(certificate) = kept.filter(|kept| cfg!(feature = "web") && kept.is_fresh(now)) {
            return Ok(Self { certificate: Some(certificate), ..identity });
        }
        let certificate = Certificate::new(now)?;
        identity.write(path, Some(&certificate))?;
        Ok(Self { certificate: Some(certificate), ..identity })
    }

    /// The identity in the file at `path`, and its certificate; `None` if the file does not exist.
    fn read(path: &Path) -> Result<Option<(Self, Option<Certificate>)>, LiveError> {
        let text = match read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong_file(path, &error)),
        };
        let parts = text.split_whitespace().map(|part| BASE32_NOPAD.decode(part.as_bytes()).ok());
        let parts: Option<Vec<_>> = parts.collect();
        let identity = parts.as_deref().and_then(|parts| Some((parts.first()?, parts.get(1)?)));
        let identity = identity.and_then(|(key, secret)| Some((key.clone(), secret.as_slice().try_into().ok()?)));
        let (private, secret) = identity.ok_or_else(|| {
            wrong_file(path, &"the file holds no key of Lockstep; remove it, and a new one is created")
        })?;
        let certificate = parts.as_deref().and_then(|parts| Certificate::from_parts(parts.get(2..)?));
        Ok(Some((Self::of(private, secret, true)?, certificate)))
    }

    /// Replaces the file at `path`, whole or not at all.
    fn write(&self, path: &Path, certificate: Option<&Certificate>) -> Result<(), LiveError> {
        let wrong = |error: std::io::Error| wrong_file(path, &error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(wrong)?;
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", data_encoding::HEXLOWER.encode(&random::<8>()?)));
        let made = Path::new(&name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut parts = vec![self.private.clone(), self.secret.to_vec()];
        parts.extend(certificate.into_iter().flat_map(Certificate::parts));
        let text: String = parts.iter().map(|part| BASE32_NOPAD.encode(part) + "\n").collect();
        let written = options.open(made).and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(made, path)).map_err(|error| {
            let _ = fs::remove_file(made);
            wrong(error)
        })
    }

    fn of(private: Vec<u8>, secret: Secret, reusable: bool) -> Result<Self, LiveError> {
        let pair = Ed25519KeyPair::from_pkcs8(&private).map_err(|_| failed("the key is not an Ed25519 key"))?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| failed("the key is not an Ed25519 key"))?;
        Ok(Self { private, public, secret, reusable, certificate: None })
    }

    /// The key in its tickets.
    #[must_use]
    pub fn key(&self) -> ListenerKey {
        match &self.certificate {
            Some(certificate) => ListenerKey::CertificateHash(certificate.hash()),
            None => ListenerKey::PublicKey(self.public),
        }
    }

    /// Whether browsers can join.
    pub(crate) fn admits_browsers(&self) -> bool {
        self.certificate.is_some()
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

    /// The same identity for many calls.
    pub(crate) fn many_times(self) -> Self {
        Self { reusable: true, ..self }
    }

    /// A secret seed that stays the same for this identity.
    pub(crate) fn seed(&self) -> Vec<u8> {
        self.private.clone()
    }

    /// TLS configuration of the listener, which proves to hold this key. The ticket's secret later authenticates the
    /// joiner.
    pub(crate) fn server(&self) -> Result<ServerConfig, LiveError> {
        let wrong = |error: Error| LiveError::Identity(error.to_string());
        let resolver: Arc<dyn ResolvesServerCert> = match &self.certificate {
            Some(certificate) => Arc::new(SingleCertAndKey::from(certificate.certified().map_err(wrong)?)),
            None => {
                let private = PrivatePkcs8KeyDer::from(self.private.clone());
                let signing = provider::sign::any_eddsa_type(&private).map_err(wrong)?;
                let certified = CertifiedKey::new(vec![spki(&self.public).as_ref().to_vec().into()], signing);
                Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified)))
            }
        };
        let mut config = ServerConfig::builder_with_provider(tls())
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        if self.admits_browsers() {
            config.alpn_protocols.push(HTTP3.to_vec());
        }
        config.max_early_data_size = 0;
        Ok(config)
    }
}

/// Reads a regular file of at most [`MAX_FILE_BYTES`].
fn read_text(path: &Path) -> std::io::Result<String> {
    let wrong = |reason| std::io::Error::new(ErrorKind::InvalidData, reason);
    // A pipe that nobody writes would block.
    if !fs::metadata(path)?.is_file() {
        return Err(wrong("it is not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES { Err(wrong("it is too long for a key of Lockstep")) } else { Ok(text) }
}

/// An error about the file at `path`.
fn wrong_file(path: &Path, error: &dyn std::fmt::Display) -> LiveError {
    LiveError::Identity(format!("{}: {error}", path.display()))
}

/// TLS configuration of the joiner: the listener must prove to hold `key`.
pub(crate) fn client(key: &ListenerKey) -> Result<ClientConfig, LiveError> {
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
    key: ListenerKey,
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
        let is_right = match &self.key {
            ListenerKey::PublicKey(key) => end_entity.as_ref() == spki(key).as_ref(),
            ListenerKey::CertificateHash(hash) => hash_of(end_entity) == *hash,
        };
        if is_right {
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
        match self.key {
            ListenerKey::PublicKey(_) => {
                let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
                verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
            }
            ListenerKey::CertificateHash(_) => {
                verify_tls13_signature(message, certificate, signature, &self.algorithms)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![match self.key {
            ListenerKey::PublicKey(_) => SignatureScheme::ED25519,
            ListenerKey::CertificateHash(_) => SignatureScheme::ECDSA_NISTP256_SHA256,
        }]
    }

    fn requires_raw_public_keys(&self) -> bool {
        matches!(self.key, ListenerKey::PublicKey(_))
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
    fn standing_certificate_is_kept_until_a_day_before_its_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("standing");
        let plain = Identity::standing(&path).expect("it can be made");
        let begun = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let day = |days: u64| begun + Duration::from_secs(days * 24 * 3_600);
        let at = |now| Identity::standing_with_certificate(&path, now).expect("it can be made");
        let [first, kept, renewed, early] = [day(0), day(12), day(13), day(3)].map(at);
        assert!([&first, &kept, &renewed].iter().all(|one| one.secret() == plain.secret() && one.is_reusable()));
        assert_eq!(first.key(), kept.key());
        assert_ne!(first.key(), renewed.key());
        assert_ne!(early.key(), renewed.key(), "a certificate of the future is not valid yet");
        assert_eq!(Identity::standing(&path).expect("it is there").key(), plain.key(), "the raw key stays");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "a temporary file remains");
    }

    #[test]
    fn damaged_certificate_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("standing");
        let first = Identity::standing_for_browsers(&path).expect("it can be made");
        let text = fs::read_to_string(&path).expect("it is there");
        let lines: Vec<&str> = text.lines().collect();
        for damaged in [lines[..3].join("\n"), [lines[0], lines[1], lines[0], lines[3], lines[4]].join("\n")] {
            fs::write(&path, damaged).expect("it can be written");
            let second = Identity::standing_for_browsers(&path).expect("it can be made");
            assert!(second.secret() == first.secret() && second.key() != first.key());
        }
    }

    #[test]
    #[cfg(unix)]
    fn endless_file_or_pipe_is_no_identity() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (long, pipe) = (folder.path().join("long"), folder.path().join("pipe"));
        File::create(&long).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        for (path, reason) in [(&long, "too long"), (&pipe, "not a regular file")] {
            let error = Identity::standing(path).expect_err("no key").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn two_identities_differ() {
        let [one, other] = [(); 2].map(|()| Identity::new().expect("it can be made"));
        assert!(one.public() != other.public() && one.secret() != other.secret() && !one.is_reusable());
    }
}
