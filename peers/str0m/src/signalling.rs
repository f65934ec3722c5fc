//! What an end is told, and how the two find each other: a line of JSON each way.

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

/// Which end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Sender,
    Receiver,
}

/// What it is told.
#[derive(Debug)]
pub struct Words {
    pub role: Role,
    /// The folder that everything goes to.
    pub work: PathBuf,
    pub clip: PathBuf,
    pub address: IpAddr,
    /// No more is sent than this, bit/s.
    pub most_bps: u64,
}

impl Words {
    pub fn read(role: &str, work: PathBuf, clip: PathBuf, address: &str, options: &str) -> Result<Self, Failure> {
        let role = match role {
            "sender" => Role::Sender,
            "receiver" => Role::Receiver,
            _ => return Err(format!("{role} is neither sender nor receiver").into()),
        };
        let options: Value = serde_json::from_str(options)?;
        let most_bps = options["cap"].as_u64().filter(|&rate| rate > 0).ok_or("the options have no `cap`")?;
        Ok(Self { role, work, clip, address: address.parse()?, most_bps })
    }
}

fn say(kind: &str, sdp: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{}", json!({"type": kind, "sdp": sdp}))?;
    Ok(out.flush()?)
}

fn hear() -> Result<String, Failure> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    let heard: Value = serde_json::from_str(&line).map_err(|_| "nobody told it the other end")?;
    Ok(heard["sdp"].as_str().ok_or("what it was told is no session description")?.to_owned())
}

/// Says and hears the session descriptions; gives the medium that the sender offered.
pub fn join(rtc: &mut Rtc, role: Role) -> Result<Option<Mid>, Failure> {
    if role == Role::Receiver {
        let answer = rtc.sdp_api().accept_offer(SdpOffer::from_sdp_string(&hear()?)?)?;
        say("answer", &answer.to_sdp_string())?;
        return Ok(None);
    }
    let mut changes = rtc.sdp_api();
    let mid = changes.add_media(MediaKind::Video, Direction::SendOnly, None, None, None);
    let (offer, pending) = changes.apply().ok_or("there is nothing to offer")?;
    say("offer", &offer.to_sdp_string())?;
    rtc.sdp_api().accept_answer(pending, SdpAnswer::from_sdp_string(&hear()?)?)?;
    Ok(Some(mid))
}

/// Says when standard input has ended.
pub fn over() -> Receiver<()> {
    let (say, hear) = channel();
    thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = stdin().lock().read_to_end(&mut rest);
        let _ = say.send(());
    });
    hear
}
