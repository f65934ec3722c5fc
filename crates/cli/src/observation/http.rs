//! HTTP server for a few pages, read by a browser or a collector.
//!
//! `httparse` parses requests; each connection closes after one complete answer, or becomes a WebSocket. A client costs
//! bounded memory, on a separate thread, and until its answer bounded time.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use data_encoding::BASE64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::{ServerConfig, ServerConnection, Stream};

/// Interval between accepted clients, so that a flood of them does not occupy a core.
const LET_IN: Duration = Duration::from_millis(2);
/// Maximum bytes of a request's head, and number of its headers.
const MAX_REQUEST_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// Answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: Cow<'static, [u8]>,
}

impl Answer {
    /// A page.
    pub fn of(content_type: &'static str, body: String) -> Self {
        Self { status: "200 OK", content_type, body: body.into_bytes().into() }
    }

    /// A file of the program.
    pub fn file(content_type: &'static str, body: &'static [u8]) -> Self {
        Self { status: "200 OK", content_type, body: body.into() }
    }

    /// An error page.
    pub fn refused(status: &'static str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{status}\n").into_bytes().into() }
    }
}

/// Function from the path and query of a request to its answer.
pub type Pages = Arc<dyn Fn(&str, &str) -> Answer + Send + Sync>;

/// Bytes of a connection, encrypted or not.
pub trait Bytes: Read + Write {}

impl<T: Read + Write> Bytes for T {}

/// Function that serves a WebSocket until its end, on the thread of its client: the bytes after the handshake, and the
/// connection below them.
pub type Talk = Arc<dyn Fn(&mut dyn Bytes, &TcpStream) -> io::Result<()> + Send + Sync>;

/// Pages of one server, and its limits.
#[derive(Clone)]
pub struct Site {
    pub pages: Pages,
    /// Path of the WebSocket, and the function that serves it.
    pub socket: Option<(&'static str, Talk)>,
    /// Content security policy, next to the directives of every site.
    pub policy: &'static str,
    /// Maximum number of concurrent clients; others are rejected.
    pub most_clients: usize,
    /// Time limit for a client's request and for reading the answer.
    pub patience: Duration,
    /// Certificate of HTTPS; plain HTTP without it.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Site {
    /// Pages with numbers: one file each, with its scripts inside.
    pub fn of_numbers(pages: Pages) -> Self {
        let policy = "script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:";
        Self { pages, socket: None, policy, most_clients: 8, patience: Duration::from_secs(5), tls: None }
    }
}

/// Serves `site` at `address` until the process ends, and returns the bound address. Port 0 chooses a free port.
///
/// # Errors
/// If the address cannot be bound.
pub fn serve(address: SocketAddr, site: Site) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let bound = listener.local_addr().with_context(|| format!("cannot listen on {address}"))?;
    let clients = Arc::<AtomicUsize>::default();
    let accept = move || {
        loop {
            let Ok((client, _)) = listener.accept() else {
                // For example, too many files are open.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            thread::sleep(LET_IN);
            if clients.load(Ordering::Relaxed) >= site.most_clients {
                continue;
            }
            clients.fetch_add(1, Ordering::Relaxed);
            let (site, served) = (site.clone(), clients.clone());
            let begun = thread::Builder::new().name("http client".to_owned()).spawn(move || {
                // A client that disconnects is not an error.
                let _ = answer(&client, bound.ip(), &site);
                served.fetch_sub(1, Ordering::Relaxed);
            });
            if begun.is_err() {
                clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    thread::Builder::new().name("http".to_owned()).spawn(accept).context("cannot start a thread")?;
    Ok(bound)
}

/// Connection whose reads and writes all end at a deadline.
struct Patient<'a> {
    client: &'a TcpStream,
    deadline: Instant,
}

impl Patient<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(self.left()?)?;
        self.client.read(buffer)
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(self.left()?)?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }
}

/// Encrypted connection that reads while it cannot write, unlike [`Stream`].
struct Encrypted<'a> {
    tls: &'a mut ServerConnection,
    client: &'a TcpStream,
}

impl Read for Encrypted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.tls.read_tls(&mut self.client)?;
            self.tls.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl Write for Encrypted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.tls.writer().write(bytes)?;
        if written == 0 && !bytes.is_empty() {
            self.flush()?;
            return self.tls.writer().write(bytes);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.client)?;
        }
        Ok(())
    }
}

/// Reads one request and answers it.
fn answer(client: &TcpStream, bound: IpAddr, site: &Site) -> io::Result<()> {
    let mut patient = Patient { client, deadline: Instant::now() + site.patience };
    let Some(tls) = &site.tls else {
        let talk = answer_in(&mut patient, bound, site)?;
        return talk.map_or(Ok(()), |talk| talk(&mut &*client, client));
    };
    let mut tls = ServerConnection::new(tls.clone()).map_err(io::Error::other)?;
    if let Some(talk) = answer_in(&mut Stream::new(&mut tls, &mut patient), bound, site)? {
        return talk(&mut Encrypted { tls: &mut tls, client }, client);
    }
    tls.send_close_notify();
    tls.complete_io(&mut patient).map(|_| ())
}

/// Answers one request; returns the function that serves the WebSocket which it began.
fn answer_in<'a>(client: &mut (impl Read + Write), bound: IpAddr, site: &'a Site) -> io::Result<Option<&'a Talk>> {
    let mut request = Vec::new();
    let answered = loop {
        if let Some(answered) = answer_to(&request, bound, site) {
            break answered;
        }
        let mut part = [0; 1024];
        match client.read(&mut part)? {
            0 => return Ok(None),
            read => request.extend_from_slice(&part[..read]),
        }
    };
    let (Answer { status, content_type, body }, with_body) = match answered {
        Answered::Page(answer, with_body) => (answer, with_body),
        Answered::Socket(talk, key) => {
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {}\r\n\r\n",
                accepted(&key)
            );
            client.write_all(head.as_bytes())?;
            return client.flush().map(|()| Some(talk));
        }
    };
    let policy = site.policy;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
         Cross-Origin-Embedder-Policy: require-corp\r\nContent-Security-Policy: default-src 'none'; {policy}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if with_body {
        client.write_all(&body)?;
    }
    client.flush().map(|()| None)
}

/// What a request gets.
enum Answered<'a> {
    /// An answer, and whether its body is sent.
    Page(Answer, bool),
    /// A WebSocket, and the key of its handshake.
    Socket(&'a Talk, Vec<u8>),
}

/// Proof that the server speaks WebSocket (RFC 6455, section 4.2.2).
fn accepted(key: &[u8]) -> String {
    const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    BASE64.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, SUFFIX].concat()).as_ref())
}

/// Answer to the request in `bytes`; `None` while the request is incomplete.
fn answer_to<'a>(bytes: &[u8], bound: IpAddr, site: &'a Site) -> Option<Answered<'a>> {
    let refused = |status| Some(Answered::Page(Answer::refused(status), true));
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let is_whole = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length == bytes.len(),
        Ok(httparse::Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return refused("431 Request Header Fields Too Large");
        }
        Err(_) => return refused("400 Bad Request"),
    };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    // The value of a header that occurs once.
    let header = |name: &str| {
        let mut found = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        found.next().map(|header| header.value).filter(|_| found.next().is_none())
    };
    let host = header("host").and_then(|host| std::str::from_utf8(host).ok());
    // Without this check, a foreign page whose name resolves to this machine could read the answer (DNS rebinding).
    if bound.is_loopback() && !host.is_some_and(is_here) {
        return refused("421 Misdirected Request");
    }
    if !matches!(method, "GET" | "HEAD") {
        return refused("405 Method Not Allowed");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if let Some((_, talk)) = site.socket.as_ref().filter(|(socket, _)| *socket == path) {
        // Browsers name the page's origin, so a foreign page opens no WebSocket here.
        let scheme = if site.tls.is_some() { "https" } else { "http" };
        let is_own = host.is_some_and(|host| header("origin") == Some(format!("{scheme}://{host}").as_bytes()));
        let asked = header("upgrade").is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"));
        let key = header("sec-websocket-key").filter(|_| header("sec-websocket-version") == Some(b"13"));
        return match key {
            _ if !is_own => refused("403 Forbidden"),
            Some(key) if asked && is_whole && method == "GET" => Some(Answered::Socket(talk, key.to_vec())),
            _ => refused("400 Bad Request"),
        };
    }
    Some(Answered::Page((site.pages)(path, query), method == "GET"))
}

/// Whether `host`, with or without a port, can only mean this machine.
fn is_here(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(address, _)| address),
        None => Some(host.split_once(':').map_or(host, |(name, _)| name)),
    };
    without_port.is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn pages() -> Pages {
        Arc::new(|path, query| match path {
            "/page" => Answer::of("text/plain", format!("asked with {query}")),
            _ => Answer::refused("404 Not Found"),
        })
    }

    fn status(request: &str) -> Option<&'static str> {
        let site = Site { socket: Some(("/socket", Arc::new(|_, _| Ok(())))), ..Site::of_numbers(pages()) };
        match answer_to(request.as_bytes(), Ipv4Addr::LOCALHOST.into(), &site)? {
            Answered::Page(answer, _) => Some(&answer.status[..3]),
            Answered::Socket(..) => Some("101"),
        }
    }

    #[test]
    fn page_on_loopback_requires_a_local_host_name() {
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:4600", "[::1]:8080", "127.9.9.9"] {
            assert_eq!(status(&format!("GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n")), Some("200"), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:80", "192.0.2.7", "", "[::1", "127.0.0.1.nip.io"] {
            assert_eq!(status(&format!("GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n")), Some("421"), "{host}");
        }
        assert_eq!(status("GET /page HTTP/1.1\r\n\r\n"), Some("421"));
        let two = "GET /page HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert_eq!(status(two), Some("421"));
        // At an open address, a collector may use any name of this machine.
        let (site, open) = (Site::of_numbers(pages()), Ipv4Addr::UNSPECIFIED.into());
        let Some(Answered::Page(answer, _)) =
            answer_to(b"GET /page?a=1 HTTP/1.1\r\nHost: here.example\r\n\r\n", open, &site)
        else {
            panic!("no page");
        };
        assert_eq!(&answer.body[..], b"asked with a=1");
    }

    #[test]
    fn websocket_opens_for_pages_of_the_same_origin_only() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accepted(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let own = "Host: localhost:80\r\nOrigin: http://localhost:80\r\n";
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let asked = format!("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{key}");
        for (headers, expected) in [
            (format!("{own}{asked}"), "101"),
            (format!("Host: localhost:80\r\nOrigin: https://evil.example\r\n{asked}"), "403"),
            (format!("Host: localhost:80\r\nOrigin: http://localhost:81\r\n{asked}"), "403"),
            (format!("Host: localhost:80\r\n{asked}"), "403"),
            (format!("Host: evil.example\r\nOrigin: http://evil.example\r\n{asked}"), "421"),
            (own.to_owned(), "400"),
            (format!("{own}{asked}{key}"), "400"),
            (format!("{own}{}", asked.replace("13", "8")), "400"),
        ] {
            let status = status(&format!("GET /socket HTTP/1.1\r\n{headers}\r\n"));
            assert_eq!(status, Some(expected), "{headers}");
        }
    }

    #[test]
    fn invalid_request_is_refused_and_length_is_bounded() {
        assert_eq!(status("GET /page HTTP/1.1\r\nHost: local"), None);
        assert_eq!(status("POST /page HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some("405"));
        assert_eq!(status("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some("404"));
        assert_eq!(status("\u{1}\u{2}\r\n\r\n"), Some("400"));
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(MAX_REQUEST_BYTES))), Some("431"));
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1))), Some("431"));
    }

    #[test]
    fn silent_clients_do_not_block_other_clients() {
        let site = Site::of_numbers(pages());
        let (most, patience) = (site.most_clients, site.patience);
        let address = serve((Ipv4Addr::LOCALHOST, 0).into(), site).expect("a port is free");
        let silent: Vec<TcpStream> = (0..3 * most).filter_map(|_| TcpStream::connect(address).ok()).collect();
        let began = Instant::now();
        let got = loop {
            let mut got = String::new();
            let asked = TcpStream::connect(address).and_then(|mut client| {
                client.write_all(b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
                client.read_to_string(&mut got)
            });
            if asked.is_ok() && !got.is_empty() {
                break got;
            }
            assert!(began.elapsed() < 4 * patience, "no client is served");
            thread::sleep(Duration::from_millis(50));
        };
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\nasked with "), "{got}");
        drop(silent);
    }
}
