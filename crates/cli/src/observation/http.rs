//! HTTP server for a few pages, read by a browser or a collector.
//!
//! `httparse` parses requests; each connection closes after one complete answer. A client costs bounded memory and
//! time, on a separate thread.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
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

/// Pages of one server, and its limits.
#[derive(Clone)]
pub struct Site {
    pub pages: Pages,
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
        Self { pages, policy, most_clients: 8, patience: Duration::from_secs(5), tls: None }
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

/// Reads one request and answers it.
fn answer(client: &TcpStream, bound: IpAddr, site: &Site) -> io::Result<()> {
    let mut client = Patient { client, deadline: Instant::now() + site.patience };
    let Some(tls) = &site.tls else { return answer_in(&mut client, bound, site) };
    let mut tls = ServerConnection::new(tls.clone()).map_err(io::Error::other)?;
    answer_in(&mut Stream::new(&mut tls, &mut client), bound, site)?;
    tls.send_close_notify();
    tls.complete_io(&mut client).map(|_| ())
}

fn answer_in(client: &mut (impl Read + Write), bound: IpAddr, site: &Site) -> io::Result<()> {
    let mut request = Vec::new();
    let (answer, with_body) = loop {
        if let Some(answered) = answer_to(&request, bound, &site.pages) {
            break answered;
        }
        let mut part = [0; 1024];
        match client.read(&mut part)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&part[..read]),
        }
    };
    let Answer { status, content_type, body } = answer;
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
    client.flush()
}

/// Answer to the request in `bytes`, and whether its body is sent; `None` while the request is incomplete.
fn answer_to(bytes: &[u8], bound: IpAddr, pages: &Pages) -> Option<(Answer, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some((Answer::refused("431 Request Header Fields Too Large"), true));
        }
        Err(_) => return Some((Answer::refused("400 Bad Request"), true)),
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().and_then(|header| std::str::from_utf8(header.value).ok());
    // Without this check, a foreign page whose name resolves to this machine could read the answer (DNS rebinding).
    if bound.is_loopback() && (hosts.next().is_some() || !host.is_some_and(is_here)) {
        return Some((Answer::refused("421 Misdirected Request"), true));
    }
    if !matches!(method, "GET" | "HEAD") {
        return Some((Answer::refused("405 Method Not Allowed"), true));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some((pages(path, query), method == "GET"))
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
        let loopback = Ipv4Addr::LOCALHOST.into();
        answer_to(request.as_bytes(), loopback, &pages()).map(|(answer, _)| &answer.status[..3])
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
        let open =
            answer_to(b"GET /page?a=1 HTTP/1.1\r\nHost: here.example\r\n\r\n", Ipv4Addr::UNSPECIFIED.into(), &pages());
        assert_eq!(open.map(|(answer, _)| answer.body).as_deref(), Some(&b"asked with a=1"[..]));
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
