//! Sans-IO: two peers, each over a socket and a loop of the application.
use std::error::Error;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use lockstep::{
    Event, Identity, Input, Output, Peer, PeerConfig, Picture, ReceiveOptions, SendOptions, Timestamp, VideoFormat,
};

type Failure = Box<dyn Error + Send + Sync>;

/// Drives `peer` until the call ends, and returns the number of frames shown. With a `length`, it sends a frame every
/// 33 ms.
fn drive(socket: &UdpSocket, mut peer: Peer, length: Option<Duration>) -> Result<u32, Failure> {
    let start = Instant::now();
    let now = || Timestamp::ZERO + start.elapsed();
    let (mut frame_at, mut frames, mut buffer) = (Timestamp::ZERO, 0, [0; 65_535]);
    while !peer.is_over() {
        if length.is_some_and(|length| start.elapsed() >= length) {
            peer.close(now());
        } else if length.is_some() && now() >= frame_at {
            frame_at = now() + Duration::from_millis(33);
            peer.send_frame(now(), 0, now(), Picture::from_i420(64, 48, vec![90; 64 * 48 * 3 / 2])?);
        }
        match peer.poll_output(now()) {
            Output::Transmit { to, bytes } => drop(socket.send_to(&bytes, to)?),
            Output::Frame(_) => frames += 1,
            Output::Event(Event::Failed(error)) => return Err(error.into()),
            Output::Event(_) | Output::Sound(_) => {}
            Output::Timeout(at) => {
                let at = if length.is_some() { at.min(frame_at) } else { at };
                socket.set_read_timeout(Some(at.saturating_since(now()).max(Duration::from_millis(1))))?;
                match socket.recv_from(&mut buffer) {
                    Ok((size, from)) => peer.handle_input(now(), Input::Datagram { from, bytes: &buffer[..size] }),
                    Err(_) => peer.handle_input(now(), Input::Timeout),
                }
            }
        }
    }
    Ok(frames)
}

pub(crate) fn main() -> Result<(), Failure> {
    let [listening, joining] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let identity = Identity::new()?;
    let ticket = Peer::ticket(&identity, &[listening.local_addr()?], &[]);
    let config = PeerConfig::receiving(ReceiveOptions::default().end());
    let receiver = Peer::listen(&identity, &[], config, Timestamp::ZERO)?;
    let showing = thread::spawn(move || drive(&listening, receiver, None));
    let end = SendOptions::new(VideoFormat::new(64, 48)).end()?;
    drive(&joining, Peer::join(ticket, PeerConfig::sending(end), Timestamp::ZERO)?, Some(Duration::from_secs(2)))?;
    let frames = showing.join().map_err(|_| "the receiver panicked")??;
    println!("{frames} frames arrived");
    if frames < 30 { Err("too few frames".into()) } else { Ok(()) }
}
