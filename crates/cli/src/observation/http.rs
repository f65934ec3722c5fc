//! HTTP server for a few pages, read by a browser or a collector on this machine.
//!
//! `httparse` parses requests; each connection closes after one complete answer. A client costs bounded memory and
//! time, on a separate thread.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Maximum number of concurrent clients; others are rejected.
const MAX_CLIENTS: usize = 8;
/// Interval between accepted clients, so that a flood of them does not occupy a core.
const LET_IN: Duration = Duration::from_millis(2);
/// Time limit for a client's request and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum bytes of a request's head, and number of its headers.
const MAX_REQUEST_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// Answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: String,
}

impl Answer {
    /// A page.
    pub fn of(content_type: &'static str, body: String) -> Self {
        Self { status: "200 OK", content_type, body }
    }

    /// An error page.
    pub fn refused(status: &'static str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{status}\n") }
    }
}

/// Function from the path and query of a request to its answer.
pub type Pages = Arc<dyn Fn(&str, &str) -> Answer + Send + Sync>;

/// Serves `pages` at `address` until the process ends, and returns the bound address. Port 0 chooses a free port.
///
/// # Errors
/// If the address cannot be bound.
pub fn serve(address: SocketAddr, pages: Pages) -> Result<SocketAddr> {
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
            if clients.load(Ordering::Relaxed) >= MAX_CLIENTS {
                continue;
            }
            clients.fetch_add(1, Ordering::Relaxed);
            let (pages, served) = (pages.clone(), clients.clone());
            let begun = thread::Builder::new().name("http client".to_owned()).spawn(move || {
                // A client that disconnects is not an error.
                let _ = answer(&client, bound.ip(), &pages);
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

/// Reads one request and answers it.
fn answer(mut client: &TcpStream, bound: IpAddr, pages: &Pages) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let mut request = Vec::new();
    let (answer, with_body) = loop {
        if let Some(answered) = answer_to(&request, bound, pages) {
            break answered;
        }
        client.set_read_timeout(Some(left()?))?;
        let mut part = [0; 1024];
        match client.read(&mut part)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&part[..read]),
        }
    };
    let Answer { status, content_type, body } = answer;
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                  img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: {policy}\r\n\r\n",
        body.len()
    );
    let answer = if with_body { [head, body].concat() } else { head };
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        client.set_write_timeout(Some(left()?))?;
        match client.write(rest)? {
            0 => return Ok(()),
            written => rest = &rest[written..],
        }
    }
    Ok(())
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
        assert_eq!(open.map(|(answer, _)| answer.body).as_deref(), Some("asked with a=1"));
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
        let address = serve((Ipv4Addr::LOCALHOST, 0).into(), pages()).expect("a port is free");
        let silent: Vec<TcpStream> = (0..3 * MAX_CLIENTS).filter_map(|_| TcpStream::connect(address).ok()).collect();
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
            assert!(began.elapsed() < 4 * PATIENCE, "no client is served");
            thread::sleep(Duration::from_millis(50));
        };
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\nasked with "), "{got}");
        drop(silent);
    }
}
