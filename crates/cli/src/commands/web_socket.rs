//! WebSocket of a page whose browser lacks WebTransport, or whose network blocks UDP.
//!
//! Each message is one byte that names its content, and the content. The close frame of either side has the code
//! [`SESSION_CLOSED`] and the session's code as decimal text.
//!
//! | first byte | content |
//! |---|---|
//! | 0 | a datagram |
//! | 1 | bytes of the stream of control messages |
//! | 2 | bytes of the stream of the application's messages |
//!
//! One thread passes data between the WebSocket and a [`PageSession`]. While the WebSocket is full, datagrams wait in
//! the session, which drops the oldest. While the session's streams are full, the WebSocket is not read.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};
use tungstenite::{Error, Message};

use lockstep_live::{PageData, PageSession, PageSessions};

use crate::observation::http::{Bytes, Talk};

/// First bytes of messages.
const DATAGRAM: u8 = 0;
const CONTROL: u8 = 1;
const MESSAGES: u8 = 2;
/// Longest message in bytes; pages send less.
const MAX_MESSAGE: usize = 32 << 10;
/// Code of the close frame when the session ended with a code.
const SESSION_CLOSED: u16 = 4_000;
/// How long a page may take to close a WebSocket whose session has ended.
const CLOSE_WAIT: Duration = Duration::from_secs(3);
/// Codes of a session that the page left, and of one that failed (see `CloseReason`).
const LEFT: u32 = 0;
const FAILED: u32 = 1;

/// Serves WebSockets, each with a separate session.
pub fn talk(sessions: PageSessions) -> Talk {
    Arc::new(move |bytes, tcp| serve(bytes, tcp, &sessions))
}

fn serve(bytes: &mut dyn Bytes, tcp: &TcpStream, sessions: &PageSessions) -> io::Result<()> {
    let to = sessions.address();
    let from: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let udp = UdpSocket::bind(from)?;
    udp.connect(to)?;
    udp.set_nonblocking(true)?;
    tcp.set_nonblocking(true)?;
    tcp.set_nodelay(true)?;
    // A long queue in the system would delay all pictures behind it.
    set_socket_send_buffer_size(tcp, PageSessions::MAX_WAITING_BYTES)?;
    let limits = WebSocketConfig::default()
        .write_buffer_size(0)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let session = sessions.open(Instant::now()).map_err(io::Error::other)?;
    let socket = WebSocket::from_raw_socket(bytes, Role::Server, Some(limits));
    Relay { socket, session, udp, is_left: false }.run(tcp)
}

/// The close frame for the end of a session with `code`.
fn closing(code: u32) -> CloseFrame {
    CloseFrame { code: CloseCode::from(SESSION_CLOSED), reason: code.to_string().into() }
}

/// The session's code in a page's close frame.
fn code_of(frame: Option<&CloseFrame>) -> u32 {
    let frame = frame.filter(|frame| frame.code == CloseCode::from(SESSION_CLOSED));
    frame.and_then(|frame| frame.reason.parse().ok()).unwrap_or(LEFT)
}

/// The session's code after an error of the WebSocket.
fn code_of_error(error: &Error) -> u32 {
    match error {
        // A browser resets the connection of a tab that closes while data arrives. The reset can overtake its close frame.
        Error::Io(_)
        | Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => LEFT,
        _ => FAILED,
    }
}

/// A WebSocket and its session.
struct Relay<'a> {
    socket: WebSocket<&'a mut dyn Bytes>,
    session: PageSession,
    udp: UdpSocket,
    /// Whether the page has closed the WebSocket.
    is_left: bool,
}

impl Relay<'_> {
    /// Passes data on until both sides have ended.
    fn run(mut self, tcp: &TcpStream) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.read_socket(now);
            self.read_session(now);
            self.session.handle_timeout(now);
            let is_writable = self.write_socket(now);
            self.write_session(now);
            if self.session.is_over() {
                return self.finish(tcp);
            }
            let mut reads = PollFlags::empty();
            if !self.is_left {
                reads.set(PollFlags::IN, self.session.has_room());
                reads.set(PollFlags::OUT, !is_writable);
            }
            let mut waits = vec![PollFd::new(&self.udp, PollFlags::IN)];
            if !reads.is_empty() {
                waits.push(PollFd::new(tcp, reads));
            }
            let wait = self.session.poll_timeout().map(|at| at.saturating_duration_since(Instant::now()));
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            match poll(&mut waits, wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the page knows of the end: a browser loses a close frame if data that it sent is never read.
    fn finish(mut self, tcp: &TcpStream) -> io::Result<()> {
        let until = Instant::now() + CLOSE_WAIT;
        tcp.set_nonblocking(false)?;
        tcp.set_read_timeout(Some(CLOSE_WAIT))?;
        tcp.set_write_timeout(Some(CLOSE_WAIT))?;
        let _ = self.socket.close(None);
        while Instant::now() < until && self.socket.read().is_ok() {}
        Ok(())
    }

    /// Passes on what the page sent.
    fn read_socket(&mut self, now: Instant) {
        while !self.is_left && self.session.has_room() {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) if !bytes.is_empty() => {
                    let content = bytes.slice(1..);
                    match bytes[0] {
                        DATAGRAM => self.session.send(now, PageData::Datagram(content)),
                        CONTROL => self.session.send(now, PageData::Control(content)),
                        MESSAGES => self.session.send(now, PageData::Messages(content)),
                        _ => self.refuse(now, CloseCode::Unsupported),
                    }
                }
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Close(frame)) => self.leave(now, code_of(frame.as_ref())),
                Ok(_) => self.refuse(now, CloseCode::Unsupported),
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return,
                Err(Error::Capacity(_)) => self.refuse(now, CloseCode::Size),
                Err(error) => self.leave(now, code_of_error(&error)),
            }
        }
    }

    /// Ends the session, since the page broke a rule.
    fn refuse(&mut self, now: Instant, code: CloseCode) {
        let _ = self.socket.close(Some(CloseFrame { code, reason: "".into() }));
        self.leave(now, FAILED);
    }

    fn leave(&mut self, now: Instant, code: u32) {
        let _ = self.socket.flush();
        self.session.send(now, PageData::Closed(code));
        self.is_left = true;
    }

    /// Sends to the page while its WebSocket has room; returns whether it has.
    fn write_socket(&mut self, now: Instant) -> bool {
        while !self.is_left {
            match self.socket.flush() {
                Ok(()) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.leave(now, code_of_error(&error));
                    break;
                }
            }
            let (kind, bytes) = match self.session.poll() {
                None => break,
                Some(PageData::Datagram(bytes)) => (DATAGRAM, bytes),
                Some(PageData::Control(bytes)) => (CONTROL, bytes),
                Some(PageData::Messages(bytes)) => (MESSAGES, bytes),
                Some(PageData::Closed(code)) => {
                    let _ = self.socket.close(Some(closing(code)));
                    let _ = self.socket.flush();
                    self.is_left = true;
                    self.session.end(now);
                    break;
                }
            };
            // A full WebSocket keeps the message, and the next round reports other errors.
            let _ = self.socket.write(Message::binary([&[kind], &bytes[..]].concat()));
        }
        true
    }

    /// Handles the listener's datagrams.
    fn read_session(&mut self, now: Instant) {
        let mut buffer = [0; 2_048];
        // Other errors, such as an unreachable port, end with the session's time limit.
        while let Ok(length) = self.udp.recv(&mut buffer) {
            self.session.handle_datagram(now, &buffer[..length]);
        }
    }

    fn write_session(&mut self, now: Instant) {
        let mut buffer = Vec::new();
        while self.session.poll_transmit(now, &mut buffer) {
            // QUIC recovers what is lost.
            let _ = self.udp.send(&buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use lockstep_live::{Identity, Listener};

    use super::*;

    /// A page's side of a WebSocket to a listener.
    fn page() -> WebSocket<TcpStream> {
        let identity = Identity::for_browsers().expect("there are random numbers");
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), identity).expect("a port is free");
        let sessions = listener.page_sessions().expect("it has an address");
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let page = TcpStream::connect(server.local_addr().expect("an address")).expect("it listens");
        let (client, _) = server.accept().expect("it connected");
        thread::spawn(move || serve(&mut &client, &client, &sessions));
        page.set_read_timeout(Some(Duration::from_secs(60))).expect("it is no zero");
        WebSocket::from_raw_socket(page, Role::Client, None)
    }

    #[test]
    fn message_that_breaks_a_rule_closes_the_websocket() {
        for (message, code) in [
            (Message::binary(vec![0; MAX_MESSAGE + 1]), CloseCode::Size),
            (Message::binary(vec![9]), CloseCode::Unsupported),
            (Message::binary(Vec::new()), CloseCode::Unsupported),
            (Message::text("a"), CloseCode::Unsupported),
        ] {
            let mut page = page();
            page.send(message).expect("it reads");
            let Message::Close(Some(frame)) = page.read().expect("an answer") else { panic!("no close frame") };
            assert_eq!(frame.code, code);
        }
    }

    #[test]
    fn session_code_is_in_the_close_frame() {
        assert_eq!(code_of(Some(&closing(65_537))), 65_537);
        let other = CloseFrame { code: CloseCode::Away, reason: "7".into() };
        assert_eq!([code_of(Some(&other)), code_of(None)], [LEFT; 2]);
    }

    #[test]
    fn page_whose_connection_is_reset_has_left() {
        let reset = Error::Io(ErrorKind::ConnectionReset.into());
        assert_eq!(code_of_error(&reset), LEFT);
        assert_eq!(code_of_error(&Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)), LEFT);
        assert_eq!(code_of_error(&Error::Protocol(ProtocolError::UnmaskedFrameFromClient)), FAILED);
    }
}
