//! The page with which a browser joins a call: `--web` of listeners, and `lockstep web`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use lockstep_live::Listener;
use lockstep_web::page::FILES;

use super::web_socket;
use crate::observation::http::{self, Answer, Site};

/// What the page may load, next to the directives of every site: its own files, and WebTransport to any listener.
const POLICY: &str = "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self' https:; media-src 'self' blob:";
/// Path of the WebSocket for browsers without WebTransport, next to the page (see `socket.js`).
const SOCKET: &str = "/socket";
/// Browsers that load the page or have a WebSocket at once, with up to six connections each.
const MAX_CLIENTS: usize = 64;
/// Time in which a client must have read a file of about a megabyte.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the page is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// This command serves it to this machine, at this port.
    Here(SocketAddr),
    /// This command serves it to others, under this name and port.
    Host(String, u16),
    /// Another host serves it under this link.
    Elsewhere(String),
}

/// Whether, and where, browsers may join.
#[derive(Debug, Clone, Args)]
pub struct WebArguments {
    /// Let a browser join: serve the page of the call, and print a link to it with the ticket. The page is for browsers
    /// on this machine, or with --web-certificate for others: `--web=calls.example.org:4443`. With a link such as
    /// `--web=https://example.org/call/`, a copy of the page there is used (see `lockstep web export`).
    #[arg(long, value_name = "[HOST:]PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0",
        value_parser = place)]
    web: Option<Place>,
    /// Certificate and private key (PEM) for the host of --web, as browsers accept it for HTTPS.
    #[arg(long, value_name = "CERT.pem,KEY.pem", requires = "web", value_parser = certificate_files)]
    web_certificate: Option<CertificateFiles>,
}

/// Files of a certificate and of its key.
#[derive(Debug, Clone)]
struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

fn certificate_files(text: &str) -> Result<CertificateFiles, String> {
    match text.split_once(',') {
        Some((certificate, key)) if !certificate.is_empty() && !key.is_empty() => {
            Ok(CertificateFiles { certificate: certificate.into(), key: key.into() })
        }
        _ => Err(format!("expected two files such as cert.pem,key.pem, found `{text}`")),
    }
}

fn place(text: &str) -> Result<Place, String> {
    let wrong =
        || format!("expected a port, a host with a port such as calls.example.org:4443, or https://…, found `{text}`");
    if let Some(rest) = text.strip_prefix("https://") {
        let is_link = !rest.is_empty() && !text.contains(|letter: char| letter == '#' || letter.is_whitespace());
        return if is_link { Ok(Place::Elsewhere(text.to_owned())) } else { Err(wrong()) };
    }
    if let Ok(port) = text.parse() {
        return Ok(Place::Here((Ipv4Addr::LOCALHOST, port).into()));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) if address.is_loopback() => Ok(Place::Here((address, port).into())),
        _ if host == "localhost" => Ok(Place::Here((Ipv4Addr::LOCALHOST, port).into())),
        Ok(address) if address.is_unspecified() => Err(wrong()),
        Err(_) if host.is_empty() || host.contains([':', '/', '@']) => Err(wrong()),
        _ => Ok(Place::Host(host.to_owned(), port)),
    }
}

impl WebArguments {
    /// Whether browsers may join.
    pub fn is_given(&self) -> bool {
        self.web.is_some()
    }

    /// Serves the page until the process ends, with a WebSocket to `listener`. Returns its link without a ticket; `None`
    /// without --web.
    ///
    /// # Errors
    /// If the port cannot be opened, or the certificate cannot be read.
    pub fn serve(&self, listener: &Listener) -> Result<Option<String>> {
        let pages = Arc::new(|path: &str, _: &str| page(path));
        let socket = match &self.web {
            Some(Place::Here(_) | Place::Host(..)) => Some((SOCKET, web_socket::talk(listener.page_sessions()?))),
            Some(Place::Elsewhere(_)) | None => None,
        };
        let site = Site { pages, socket, policy: POLICY, most_clients: MAX_CLIENTS, patience: PATIENCE, tls: None };
        Ok(match (&self.web, &self.web_certificate) {
            (None, _) => None,
            (Some(Place::Here(address)), None) => {
                let bound = http::serve(*address, site).context("--web")?;
                Some(format!("http://{bound}/"))
            }
            (Some(Place::Host(host, port)), None) => bail!(
                "--web={host}:{port}: browsers of other machines require HTTPS; name a certificate for {host} with \
                 --web-certificate CERT.pem,KEY.pem, or a port alone for this machine"
            ),
            (Some(Place::Elsewhere(link)), None) => Some(link.clone()),
            (Some(Place::Elsewhere(_)), Some(_)) => {
                bail!("--web-certificate serves the page here, and --web=https://… names another host; omit one")
            }
            (Some(Place::Here(address)), Some(_)) => bail!(
                "--web-certificate requires the name in the certificate: --web=HOST:{}",
                if address.port() == 0 { 443 } else { address.port() }
            ),
            (Some(Place::Host(host, port)), Some(files)) => {
                let site = Site { tls: Some(files.tls().context("--web-certificate")?), ..site };
                // The unspecified address of IPv6 also accepts IPv4; a machine without IPv6 lacks it.
                let at = |ip: IpAddr| http::serve(SocketAddr::new(ip, *port), site.clone());
                let bound = at(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| at(Ipv4Addr::UNSPECIFIED.into()));
                let port = bound.context("--web")?.port();
                Some(if port == 443 { format!("https://{host}/") } else { format!("https://{host}:{port}/") })
            }
        })
    }
}

impl CertificateFiles {
    fn tls(&self) -> Result<Arc<ServerConfig>> {
        let Self { certificate, key } = self;
        let cannot = |path: &Path| format!("cannot read {} as PEM", path.display());
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.with_context(|| cannot(certificate))?;
        let key = PrivateKeyDer::from_pem_file(key).with_context(|| cannot(key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .with_context(|| format!("cannot use {}", certificate.display()))?;
        Ok(Arc::new(config))
    }
}

/// Answer to a request for a file of the page.
fn page(path: &str) -> Answer {
    let name = match path {
        "/" => FILES[0].name,
        path => path.trim_start_matches('/'),
    };
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => Answer::file(file.content_type, file.bytes),
        None => Answer::refused("404 Not Found"),
    }
}

/// Arguments of `lockstep web`.
#[derive(Debug, Clone, Subcommand)]
pub enum WebCommand {
    /// Write the files of the page to a folder, for any host with HTTPS.
    Export(ExportArguments),
}

/// Arguments of `lockstep web export`.
#[derive(Debug, Clone, Args)]
pub struct ExportArguments {
    /// The folder; it is created. Files of the page in it are replaced.
    folder: PathBuf,
}

/// `lockstep web`.
pub fn run(command: &WebCommand) -> Result<()> {
    let WebCommand::Export(ExportArguments { folder }) = command;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for file in FILES {
        let path = folder.join(file.name);
        fs::write(&path, file.bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print_line!("{} files in {}", FILES.len(), folder.display());
    print_line!("copy them to a host with HTTPS; then: lockstep talk --web=https://HOST/FOLDER/");
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockstep_live::Identity;

    use super::*;

    fn listener() -> Listener {
        let identity = Identity::for_browsers().expect("there are random numbers");
        Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), identity).expect("a port is free")
    }

    #[test]
    fn page_without_a_certificate_is_for_this_machine_only() {
        for (text, address) in [("0", "127.0.0.1:0"), ("localhost:80", "127.0.0.1:80"), ("[::1]:80", "[::1]:80")] {
            assert_eq!(place(text), Ok(Place::Here(address.parse().expect("an address"))));
        }
        for text in ["calls.example.org:443", "192.0.2.7:4443", "[2001:db8::7]:4443"] {
            let arguments = WebArguments { web: Some(place(text).expect(text)), web_certificate: None };
            let error = arguments.serve(&listener()).expect_err(text).to_string();
            assert!(error.contains("--web-certificate"), "{error}");
        }
        for wrong in
            ["", "there", "0.0.0.0:80", "[::]:80", ":80", "http://there/", "https://", "https://there/#x", "a:b"]
        {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn page_at_another_host_is_named_by_its_link() {
        let web = Some(place("https://example.org/call/").expect("a link"));
        let arguments = WebArguments { web, web_certificate: None };
        assert_eq!(
            arguments.serve(&listener()).expect("nothing is opened").as_deref(),
            Some("https://example.org/call/")
        );
    }

    #[test]
    fn files_of_the_page_are_served_and_others_are_not() {
        for path in ["/", "/index.html"] {
            let answer = page(path);
            assert_eq!((answer.status, answer.content_type), ("200 OK", "text/html; charset=utf-8"));
            assert!(answer.body.starts_with(b"<!doctype html>"));
        }
        for path in ["/../Cargo.toml", "/none", ""] {
            assert_eq!(page(path).status, "404 Not Found", "{path}");
        }
    }

    #[test]
    fn exported_folder_has_every_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path().join("deeper").join("call");
        for _ in 0..2 {
            run(&WebCommand::Export(ExportArguments { folder: folder.clone() })).expect("it is writable");
        }
        for file in FILES {
            assert_eq!(fs::read(folder.join(file.name)).expect(file.name), file.bytes);
        }
    }

    #[test]
    fn page_is_served_over_https_with_the_given_certificate() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        let files = [("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())];
        for (name, text) in &files {
            fs::write(folder.path().join(name), text).expect("it is writable");
        }
        let [certificate_file, key_file] = files.map(|(name, _)| folder.path().join(name));
        let files = CertificateFiles { certificate: certificate_file, key: key_file };
        let arguments =
            WebArguments { web: Some(Place::Host("localhost".to_owned(), 0)), web_certificate: Some(files.clone()) };
        let link = arguments.serve(&listener()).expect("a port is free").expect("a link");
        let address = link.strip_prefix("https://").and_then(|link| link.strip_suffix('/')).expect("https");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let connect = || {
            let name = "localhost".try_into().expect("a name");
            let tls = rustls::ClientConnection::new(config.clone(), name).expect("a client");
            let socket = std::net::TcpStream::connect(address).expect("it listens");
            socket.set_read_timeout(Some(PATIENCE)).expect("it is no zero");
            rustls::StreamOwned::new(tls, socket)
        };
        let mut stream = connect();
        std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("it closes properly");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("<!doctype html>"), "{answer}");
        for header in ["script-src 'self' 'wasm-unsafe-eval'", "default-src 'none'", "Opener-Policy: same-origin"] {
            assert!(answer.contains(header), "{header}");
        }
        let mut stream = connect();
        let asked = format!(
            "GET /socket HTTP/1.1\r\nHost: {address}\r\nOrigin: https://{address}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        std::io::Write::write_all(&mut stream, asked.as_bytes()).expect("it reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut stream, &mut byte).expect("it answers");
            head.extend(byte);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        let mut socket = tungstenite::WebSocket::from_raw_socket(stream, tungstenite::protocol::Role::Client, None);
        socket.send(tungstenite::Message::text("no data of a session")).expect("it reads");
        assert!(matches!(socket.read(), Ok(tungstenite::Message::Close(Some(_)))));
        fs::write(&files.key, "no key").expect("it is writable");
        let error = format!("{:#}", arguments.serve(&listener()).expect_err("it is no key"));
        assert!(error.contains("--web-certificate") && error.contains("key.pem"), "{error}");
    }
}
