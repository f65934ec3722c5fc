//! Plain functions for JavaScript. One client per instance of the module.
//!
//! JavaScript writes bytes at [`input`], calls a function, and reads bytes at [`output`]. Times are milliseconds of the
//! page's clock. A function that takes `length` consumes that number of bytes of the input. WebAssembly needs no
//! pointer of JavaScript, so that nothing here dereferences one.
// Exported names are unsafe attributes.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::time::Duration;

use lockstep_media::picture_from_rgb;
use lockstep_session::control::CallKind;
use lockstep_session::messages::Message;
use lockstep_session::presence::Presence;
use lockstep_session::ticket::{ListenerKey, Ticket};
use lockstep_transport::VideoFormat;
use lockstep_units::Timestamp;
use lockstep_vp8::{Parameters, Picture, State, decode, encode};

use crate::client::{Client, ClientConfig, Output};
use crate::json::{Json, object};
use crate::report;

/// State of the module.
#[derive(Default)]
struct Module {
    client: Option<Client>,
    /// Whether the page decodes AV1.
    decodes_av1: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Numbers that come with the output.
    numbers: [f64; 4],
    /// State of [`decode_frame`] and [`encode_frame`].
    state: State,
}

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Module) -> T) -> T {
    MODULE.with(|module| act(&mut module.borrow_mut()))
}

fn at(milliseconds: f64) -> Timestamp {
    Timestamp::from_nanos((milliseconds * 1e6) as u64)
}

fn milliseconds(time: Timestamp) -> f64 {
    time.as_nanos() as f64 * 1e-6
}

impl Module {
    /// The first `length` bytes of the input.
    fn bytes(&self, length: usize) -> &[u8] {
        &self.input[..length.min(self.input.len())]
    }

    /// Passes bytes of the input to the client.
    fn pass(&mut self, length: usize, act: impl FnOnce(&mut Client, &[u8])) {
        let Self { client, input, .. } = self;
        if let Some(client) = client {
            act(client, &input[..length.min(input.len())]);
        }
    }

    fn put(&mut self, value: &Json) {
        self.output = value.to_string().into_bytes();
    }

    fn create(
        &mut self,
        length: usize,
        kind: u32,
        (width, height, rate): (u32, u32, u32),
        connection: u32,
        now: Timestamp,
    ) -> Result<Json, String> {
        let text = String::from_utf8_lossy(self.bytes(length));
        let ticket: Ticket = text.parse().map_err(|error| format!("{error}"))?;
        let ListenerKey::CertificateHash(hash) = ticket.key else {
            return Err("browsers cannot join with this ticket; start the other end with --web".to_owned());
        };
        let kind = match kind {
            0 => CallKind::FromListener,
            1 => CallKind::TwoWay,
            _ => CallKind::OneWay,
        };
        let or = |number: u32, default: u32| if number == 0 { default } else { number };
        let format = VideoFormat {
            width: or(width, 640).clamp(16, 4_096) as u16,
            height: or(height, 360).clamp(16, 4_096) as u16,
            frame_rate_numerator: or(rate, 30).clamp(1, 120),
            frame_rate_denominator: 1,
        };
        let addresses: Json = ticket.addresses.iter().map(ToString::to_string).collect();
        let decodes_av1 = self.decodes_av1;
        let config = ClientConfig { ticket, kind, connection, format, lip_sync: true, decodes_av1 };
        self.client = Some(Client::new(config, now).map_err(|error| error.to_string())?);
        let hash: Json = hash.into_iter().collect();
        Ok(object([("addresses", addresses), ("hash", hash)]))
    }

    /// The kind of the next output, with its bytes and numbers.
    fn poll(&mut self, now: Timestamp, may_send: bool) -> u32 {
        let Some(client) = &mut self.client else { return 0 };
        match client.poll_output(now, may_send) {
            Output::Timeout(time) => {
                self.numbers[0] = milliseconds(time);
                0
            }
            Output::Datagram(bytes) => {
                self.output = bytes;
                1
            }
            Output::Control(bytes) => {
                self.output = bytes;
                2
            }
            Output::Messages(bytes) => {
                self.output = bytes;
                3
            }
            Output::Picture { stream, picture, captured_at: _, age } => {
                self.output.clear();
                for row in picture.planes().iter().flat_map(|plane| plane.rows()) {
                    self.output.extend_from_slice(row);
                }
                let age = age.map_or(-1.0, |age| age.as_secs_f64() * 1e3);
                self.numbers = [stream as f64, picture.width() as f64, picture.height() as f64, age];
                4
            }
            Output::Unit { stream, is_key_frame, bytes } => {
                self.output = bytes;
                self.numbers = [stream as f64, f64::from(u8::from(is_key_frame)), 0.0, 0.0];
                9
            }
            Output::Sound(packet) => {
                self.output = packet.payload;
                self.numbers = [f64::from(packet.frame), milliseconds(packet.captured), 0.0, 0.0];
                5
            }
            Output::Event(event) => {
                let (value, payload) = report::event(event);
                let text = value.to_string();
                self.numbers[0] = text.len() as f64;
                self.output = text.into_bytes();
                self.output.extend(payload);
                6
            }
            Output::Close(code) => {
                self.numbers[0] = f64::from(code);
                7
            }
            Output::Again => 8,
        }
    }
}

/// Makes room for `length` bytes of input, and returns their address.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    with(|module| {
        module.input.resize(length, 0);
        module.input.as_mut_ptr()
    })
}

/// Address of the output.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    with(|module| module.output.as_ptr())
}

/// Bytes of the output.
#[unsafe(no_mangle)]
pub extern "C" fn output_length() -> usize {
    with(|module| module.output.len())
}

/// One of the numbers that come with the output.
#[unsafe(no_mangle)]
pub extern "C" fn output_number(place: usize) -> f64 {
    with(|module| module.numbers.get(place).copied().unwrap_or_default())
}

/// Makes the client from the text of a ticket. `kind` is 0 to watch, 1 to talk, 2 to send; `connection` is a random
/// number. A width, height or rate of 0 means the default. The output is JSON: `addresses` and `hash`, or `error`.
#[unsafe(no_mangle)]
pub extern "C" fn create(length: usize, kind: u32, width: u32, height: u32, rate: u32, connection: u32, now: f64) {
    with(|module| {
        let made = module.create(length, kind, (width, height, rate), connection, at(now));
        module.put(&made.unwrap_or_else(|error| object([("error", error.into())])));
    });
}

/// Says whether the page decodes AV1, for clients that [`create`] makes later.
#[unsafe(no_mangle)]
pub extern "C" fn set_av1(decodes: bool) {
    with(|module| module.decodes_av1 = decodes);
}

/// The page has opened the session, which carries datagrams of up to `largest` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn opened(largest: usize, now: f64) {
    with(|module| module.pass(0, |client, _| client.opened(at(now), largest)));
}

/// Handles a datagram.
#[unsafe(no_mangle)]
pub extern "C" fn handle_datagram(length: usize, now: f64) {
    with(|module| module.pass(length, |client, bytes| client.handle_datagram(at(now), bytes)));
}

/// Handles bytes of the control stream.
#[unsafe(no_mangle)]
pub extern "C" fn handle_control(length: usize, now: f64) {
    with(|module| module.pass(length, |client, bytes| client.handle_control(at(now), bytes)));
}

/// Handles bytes of the stream of messages.
#[unsafe(no_mangle)]
pub extern "C" fn handle_messages(length: usize, now: f64) {
    with(|module| module.pass(length, |client, bytes| client.handle_messages(at(now), bytes)));
}

/// The page has written `bytes` of the stream of messages.
#[unsafe(no_mangle)]
pub extern "C" fn wrote_messages(bytes: usize) {
    with(|module| module.pass(0, |client, _| client.wrote_messages(bytes)));
}

/// The session has ended with `code`, or with a negative one for the reason in the input.
#[unsafe(no_mangle)]
pub extern "C" fn closed(length: usize, code: f64) {
    with(|module| {
        module.pass(length, |client, bytes| {
            client.closed((code >= 0.0).then_some(code as u32), &String::from_utf8_lossy(bytes));
        });
    });
}

/// The kind of the next output: 0 timeout (number 0: its time), 1 datagram, 2 bytes of control, 3 bytes of messages, 4
/// picture (numbers: stream, width, height, age or -1; I420), 5 sound (numbers: frame, capture time), 6 event (number 0:
/// length of its JSON, before the payload of a message), 7 close (number 0: its code), 8 poll again, 9 temporal unit of
/// AV1 for [`decoded_unit`] (numbers: stream, 1 for a key frame). Datagrams leave only if `may_send`.
#[unsafe(no_mangle)]
pub extern "C" fn poll(may_send: bool, now: f64) -> u32 {
    with(|module| module.poll(at(now), may_send))
}

/// Sends the I420 picture in the input, which may show a screen. Returns whether its size is valid.
#[unsafe(no_mangle)]
pub extern "C" fn send_frame(width: usize, height: usize, is_screen: bool, captured_at: f64, now: f64) -> bool {
    with(|module| {
        let samples = std::mem::take(&mut module.input);
        let Ok(picture) = Picture::from_i420(width, height, samples) else { return false };
        if let Some(client) = &mut module.client {
            client.send_frame(at(now), at(captured_at), picture, is_screen);
        }
        true
    })
}

/// Sends the RGBA picture in the input, which may show a screen. Returns whether its size is valid.
#[unsafe(no_mangle)]
pub extern "C" fn send_pixels(width: usize, height: usize, is_screen: bool, captured_at: f64, now: f64) -> bool {
    with(|module| {
        let rgb: Vec<u8> = module.input.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        let Ok(picture) = picture_from_rgb(width, height, &rgb) else { return false };
        if let Some(client) = &mut module.client {
            client.send_frame(at(now), at(captured_at), picture, is_screen);
        }
        true
    })
}

/// Sends 20 ms of Opus that were captured until `captured_until`; no bytes mean silence. Returns whether they are valid.
#[unsafe(no_mangle)]
pub extern "C" fn send_sound(length: usize, captured_until: f64, now: f64) -> bool {
    with(|module| {
        let packet = (length > 0).then(|| module.bytes(length).to_vec());
        module.client.as_mut().is_none_or(|client| client.send_sound(at(now), at(captured_until), packet))
    })
}

/// Adds the I420 picture in the input, decoded from the next unit of AV1 of a stream. Returns whether its size is valid.
#[unsafe(no_mangle)]
pub extern "C" fn decoded_unit(stream: usize, width: usize, height: usize, now: f64) -> bool {
    with(|module| {
        let Ok(picture) = Picture::from_i420(width, height, std::mem::take(&mut module.input)) else { return false };
        if let Some(client) = &mut module.client {
            client.decoded_unit(at(now), stream, picture);
        }
        true
    })
}

/// Adds 20 ms of decoded sound: 16-bit samples, or none in silence.
#[unsafe(no_mangle)]
pub extern "C" fn decoded_sound(length: usize, frame: u32, captured: f64, now: f64) {
    with(|module| {
        module.pass(length, |client, bytes| {
            let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
            client.decoded_sound(at(now), frame, at(captured), samples);
        });
    });
}

/// Writes the 20 ms to play, heard after `latency` milliseconds, to the output. Returns whether something is heard.
#[unsafe(no_mangle)]
pub extern "C" fn play(latency: f64, now: f64) -> bool {
    with(|module| {
        let Some(client) = &mut module.client else { return false };
        let playout = client.play(at(now), Duration::from_secs_f64(latency.clamp(0.0, 1e4) * 1e-3));
        module.output.clear();
        module.output.extend(playout.frame.iter().flat_map(|sample| sample.to_le_bytes()));
        playout.is_heard
    })
}

/// Sends a message, reliable if `channel` is negative. The output is an error, or empty.
#[unsafe(no_mangle)]
pub extern "C" fn send_message(length: usize, channel: i32, now: f64) {
    with(|module| {
        let payload = module.bytes(length).to_vec();
        let message = u8::try_from(channel)
            .map_or_else(|_| Message::reliable(payload.clone()), |channel| Message::latest(channel, payload.clone()));
        let sent = module.client.as_mut().map_or(Ok(()), |client| client.send_message(at(now), &message));
        module.output = sent.err().map(|error| error.to_string().into_bytes()).unwrap_or_default();
    });
}

/// Mutes this end or turns its camera off.
#[unsafe(no_mangle)]
pub extern "C" fn set_presence(muted: bool, camera_off: bool) {
    with(|module| {
        module.pass(0, |client, _| client.set_presence(Presence { muted, camera_off, ..Presence::default() }))
    });
}

/// Writes statistics as JSON to the output.
#[unsafe(no_mangle)]
pub extern "C" fn statistics(now: f64) {
    with(|module| {
        let value = module.client.as_ref().map_or(Json::Null, |client| report::statistics(at(now), client));
        module.put(&value);
    });
}

/// Ends the call.
#[unsafe(no_mangle)]
pub extern "C" fn close(now: f64) {
    with(|module| module.pass(0, |client, _| client.close(at(now))));
}

/// Decodes one frame of VP8 from the last state, for tests. Returns whether it is valid; numbers: width, height; the
/// output is I420. An empty input returns to the empty state.
#[unsafe(no_mangle)]
pub extern "C" fn decode_frame(length: usize) -> bool {
    with(|module| {
        if length == 0 {
            module.state = State::default();
            return true;
        }
        let Ok((state, picture)) = decode(&module.state, module.bytes(length)) else { return false };
        module.state = state;
        module.output = picture.to_i420();
        module.numbers = [picture.width() as f64, picture.height() as f64, 0.0, 0.0];
        true
    })
}

/// Codes the I420 picture in the input from the last state, for tests. Returns whether its size is valid; the output is
/// the frame.
#[unsafe(no_mangle)]
pub extern "C" fn encode_frame(width: usize, height: usize, quantizer: u8) -> bool {
    with(|module| {
        let Ok(picture) = Picture::from_i420(width, height, std::mem::take(&mut module.input)) else { return false };
        let coded = encode(&module.state, &picture, &Parameters { quantizer, ..Parameters::default() });
        module.state = coded.state;
        module.output = coded.frame;
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn put(bytes: &[u8]) -> usize {
        with(|module| module.input = bytes.to_vec());
        bytes.len()
    }

    fn read() -> Value {
        with(|module| serde_json::from_slice(&module.output).expect("JSON"))
    }

    fn ticket(key: ListenerKey) -> String {
        let addresses = vec!["192.0.2.7:4600".parse().expect("an address")];
        Ticket { key, secret: [9; 16], addresses, rendezvous: Vec::new(), is_room: false }.to_string()
    }

    fn created(ticket: &str) -> Value {
        create(put(ticket.as_bytes()), 0, 320, 0, 0, 1, 5.0);
        read()
    }

    #[test]
    fn ticket_yields_addresses_and_the_hash() {
        let made = created(&ticket(ListenerKey::CertificateHash([8; 32])));
        assert_eq!(made, json!({"addresses": ["192.0.2.7:4600"], "hash": vec![8; 32]}));
        opened(1_200, 6.0);
        assert_eq!((poll(true, 6.0), output_length()), (2, 21), "the request to join");
        assert_eq!(poll(true, 6.0), 0);
        statistics(7.0);
        assert_eq!(read()["sending"], json!([]));
    }

    #[test]
    fn unusable_ticket_is_explained() {
        for (ticket, part) in [
            (ticket(ListenerKey::PublicKey([8; 32])), "--web"),
            ("LOCKSTEP-AAAA".to_owned(), "damaged"),
            (String::new(), "begins with"),
        ] {
            let made = created(&ticket);
            assert!(made["error"].as_str().is_some_and(|error| error.contains(part)), "{made}");
        }
    }

    #[test]
    fn calls_without_a_client_do_nothing() {
        handle_datagram(put(&[1]), 1.0);
        handle_control(100, 1.0);
        assert_eq!((poll(true, 1.0), play(0.0, 1.0)), (0, false));
        assert!(send_sound(0, 1.0, 1.0) && !send_frame(64, 64, false, 1.0, 1.0) && !send_pixels(2, 2, true, 1.0, 1.0));
        close(1.0);
    }

    #[test]
    fn own_frames_decode_to_their_picture() {
        put(&[90; 64 * 48 * 3 / 2]);
        assert!(encode_frame(64, 48, 10));
        let frame = with(|module| module.output.clone());
        assert!(decode_frame(0) && decode_frame(put(&frame)));
        assert_eq!((output_number(0), output_number(1), output_length()), (64.0, 48.0, 64 * 48 * 3 / 2));
        assert!(with(|module| module.output.iter().all(|sample| sample.abs_diff(90) < 4)));
        assert!(!decode_frame(put(&[1, 2, 3])));
    }
}
