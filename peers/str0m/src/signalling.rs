//! Arguments of an end, and the exchange of session descriptions: one line of JSON in each direction.

use std::io::{BufRead, Read, Write, stdin, stdout};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use str0m::Rtc;
use str0m::change::{SdpAnswer, SdpOffer};
use str0m::media::{Direction, MediaKind, Mid};

use crate::Failure;

/// Role of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Sender,
    Receiver,
}

/// Arguments of an end.
#[derive(Debug)]
pub struct Arguments {
    pub role: Role,
    /// Folder for all output files.
    pub work: PathBuf,
    pub clip: PathBuf,
    pub address: IpAddr,
    /// Limit on the sending rate, bit/s.
    pub max_bps: u64,
}

impl Arguments {
    pub fn read(role: &str, work: PathBuf, clip: PathBuf, address: &str, options: &str) -> Result<Self, Failure> {
        let role = match role {
            "sender" => Role::Sender,
            "receiver" => Role::Receiver,
            _ => return Err(format!("expected `sender` or `receiver`, found `{role}`").into()),
        };
        let options: Value = serde_json::from_str(options)?;
        let max_bps = options["cap"]
            .as_u64()
            .filter(|&rate| rate > 0)
            .ok_or("cannot read the options: expected a positive `cap`")?;
        Ok(Self { role, work, clip, address: address.parse()?, max_bps })
    }
}

fn write_description(kind: &str, sdp: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{}", json!({"type": kind, "sdp": sdp}))?;
    Ok(out.flush()?)
}

fn read_description() -> Result<String, Failure> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    let message: Value = serde_json::from_str(&line)
        .map_err(|_| "cannot read the session description of the other end from standard input")?;
    Ok(message["sdp"]
        .as_str()
        .ok_or("cannot read the session description of the other end: expected a field `sdp`")?
        .to_owned())
}

/// Exchanges the session descriptions. Returns the medium that the sender offered.
pub fn join(rtc: &mut Rtc, role: Role) -> Result<Option<Mid>, Failure> {
    if role == Role::Receiver {
        let answer = rtc.sdp_api().accept_offer(SdpOffer::from_sdp_string(&read_description()?)?)?;
        write_description("answer", &answer.to_sdp_string())?;
        return Ok(None);
    }
    let mut changes = rtc.sdp_api();
    let mid = changes.add_media(MediaKind::Video, Direction::SendOnly, None, None, None);
    let (offer, pending) = changes.apply().ok_or("cannot create an offer")?;
    write_description("offer", &offer.to_sdp_string())?;
    rtc.sdp_api().accept_answer(pending, SdpAnswer::from_sdp_string(&read_description()?)?)?;
    Ok(Some(mid))
}

/// Receives a message when standard input ends.
pub fn standard_input_end() -> Receiver<()> {
    let (ended, end) = channel();
    thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = stdin().lock().read_to_end(&mut rest);
        let _ = ended.send(());
    });
    end
}
