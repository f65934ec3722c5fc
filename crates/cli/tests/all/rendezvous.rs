//! Calls between two networks behind address-translating routers, through a rendezvous.
//!
//! The networks are network namespaces of Linux.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::command::wait_for;

/// Address of the rendezvous.
const SERVER: &str = "198.51.100.1";

/// The network: hosts `h1` and `h2` behind the routers `r1` and `r2`, and `pub`, where the routers meet.
struct Network(String);

fn has_worked(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Network {
    fn name(&self, place: &str) -> String {
        format!("{}-{place}", self.0)
    }

    fn is_done(&self, words: &str) -> bool {
        let words = words.replace('@', &format!("{}-", self.0));
        has_worked(Command::new("ip").args(words.split_whitespace()))
    }

    /// One host behind each of two routers; `strict` routers use another port for each destination. `None` without the
    /// rights or `nft`.
    fn new(strict: bool) -> Option<Self> {
        let network = Self(format!("lockstep-meet-{}-{}", std::process::id(), u8::from(strict)));
        let places = ["pub", "r1", "r2", "h1", "h2"];
        let made = places.iter().all(|place| {
            network.is_done(&format!("netns add @{place}")) && network.is_done(&format!("-n @{place} link set lo up"))
        });
        let bridge = ["link add br0 type bridge", "link set br0 up", "addr add 198.51.100.1/24 dev br0"];
        let bridged = made && bridge.iter().all(|words| network.is_done(&format!("-n @pub {words}")));
        let joined = bridged && [1, 2].into_iter().all(|side| network.join(side, strict));
        joined.then_some(network)
    }

    fn join(&self, side: u8, strict: bool) -> bool {
        let words = [
            format!("link add outer netns @r{side} type veth peer name p{side} netns @pub"),
            format!("-n @pub link set p{side} master br0 up"),
            format!("-n @r{side} addr add 198.51.100.1{side}/24 dev outer"),
            format!("-n @r{side} link set outer up"),
            format!("link add eth0 netns @h{side} type veth peer name inner netns @r{side}"),
            format!("-n @r{side} addr add 10.0.{side}.1/24 dev inner"),
            format!("-n @r{side} link set inner up"),
            format!("-n @h{side} addr add 10.0.{side}.2/24 dev eth0"),
            format!("-n @h{side} link set eth0 up"),
            format!("-n @h{side} route add default via 10.0.{side}.1"),
            format!("netns exec @r{side} sysctl -qw net.ipv4.ip_forward=1"),
        ];
        words.iter().all(|words| self.is_done(words)) && self.translate(side, strict)
    }

    /// Unsolicited packets reach neither the host nor the router.
    fn translate(&self, side: u8, strict: bool) -> bool {
        let ports = if strict { "fully-random" } else { "" };
        let filter = "policy drop;\n ct state established,related accept\n iifname \"inner\" accept\n";
        let rules = format!(
            "table ip nat {{\n chain post {{\n type nat hook postrouting priority 100\n oifname \"outer\" masquerade {ports}\n \
             }}\n}}\ntable ip filter {{\n chain through {{\n type filter hook forward priority 0; {filter} }}\n \
             chain here {{\n type filter hook input priority 0; {filter} }}\n}}\n"
        );
        let nft = Command::new("ip")
            .args(["netns", "exec", &self.name(&format!("r{side}")), "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut nft) = nft else { return false };
        let written = nft.stdin.take().is_some_and(|mut stdin| stdin.write_all(rules.as_bytes()).is_ok());
        nft.wait().is_ok_and(|status| status.success()) && written
    }

    /// Runs the command at `place`.
    fn start(&self, place: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(place), env!("CARGO_BIN_EXE_lockstep")]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the command starts")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for place in ["pub", "r1", "r2", "h1", "h2"] {
            self.is_done(&format!("netns del @{place}"));
        }
    }
}

/// A call between hosts behind two routers. It returns whether the relay was used at the end, or `None` without a call.
fn call(network: &Network, rendezvous: bool) -> Option<bool> {
    let at = format!("{SERVER}:4610");
    let mut server = network.start("pub", &["rendezvous", "--listen", &at, "--quiet"]);
    wait_for(&mut server, "rendezvous at");
    let way: &[&str] = if rendezvous { &["--rendezvous", &at] } else { &[] };
    let mut receiver = network.start("h1", &[&["receive", "--status", "json", "--wait-seconds", "20"], way].concat());
    let line: Value = serde_json::from_str(&wait_for(&mut receiver, "ticket")).expect("it is JSON");
    let ticket = line["ticket"].as_str().expect("a ticket");
    let arguments = ["send", ticket, "--source", "generated:64x48@15", "--seconds", "6", "--status", "json"];
    let sent = network.start("h2", &arguments).wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&sent.stdout).into_owned();
    for mut child in [receiver, server] {
        let _ = child.kill();
        let _ = child.wait();
    }
    let last = told.lines().rev().find(|line| line.contains("\"relayed\":"))?;
    sent.status.success().then(|| last.contains("\"relayed\":true"))
}

#[test]
fn peers_behind_routers_require_a_rendezvous() {
    for strict in [false, true] {
        let Some(network) = Network::new(strict) else {
            eprintln!("skipped: there is no making network namespaces with address translation here (root, ip, nft)");
            return;
        };
        assert_eq!(call(&network, false), None, "they meet by themselves");
        assert_eq!(call(&network, true), Some(strict), "routers that give each destination another port: {strict}");
    }
}

/// The command with an environment without rendezvous and ticket.
fn lockstep(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(arguments).env_remove("LOCKSTEP_RENDEZVOUS").env_remove("LOCKSTEP_TICKET");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A value of the next line of JSON that has it.
fn value(child: &mut Child, name: &str) -> String {
    let line: Value = serde_json::from_str(&wait_for(child, &format!("\"{name}\":"))).expect("it is JSON");
    line[name].as_str().expect("a text").to_owned()
}

#[test]
fn code_of_words_leads_to_the_call_once() {
    let mut server = lockstep(&["rendezvous", "--listen", "127.0.0.1:0", "--quiet"]).spawn().expect("it starts");
    let line = wait_for(&mut server, "rendezvous at");
    let at = line.trim_start_matches("rendezvous at ").split(';').next().expect("an address").to_owned();
    let words = ["talk", "--no-window", "--source", "generated:64x48@15", "--status", "json", "--audio", "none"];
    let listening = ["--listen", "127.0.0.1:0", "--rendezvous", &at];
    let mut listener = lockstep(&[&words[..], &listening].concat()).spawn().expect("it starts");
    let code = value(&mut listener, "code");
    // Typed as a person might, with the rendezvous in the environment.
    let typed = code.replace('-', " ").to_uppercase();
    let joining =
        ["talk", &typed, "--no-window", "--source", "generated:64x48@15", "--seconds", "1", "--status", "none"];
    let joiner = lockstep(&joining).env("LOCKSTEP_RENDEZVOUS", &at).output().expect("it ran");
    assert!(joiner.status.success(), "{}", String::from_utf8_lossy(&joiner.stderr));
    assert!(listener.wait().expect("it ended").success());
    // A wrong code ends the next one.
    let mut listener = lockstep(&[&words[..], &listening].concat()).spawn().expect("it starts");
    let code = value(&mut listener, "code");
    let number = code.split('-').next().expect("a number");
    let first = if code.contains("aardvark") { "absurd" } else { "aardvark" };
    let wrong = format!("{number}-{first}-adroitness");
    let guess = lockstep(&["talk", &wrong, "--no-window", "--rendezvous", &at]).output().expect("it ran");
    let said = String::from_utf8_lossy(&guess.stderr).into_owned();
    assert!(!guess.status.success() && said.contains("words of the code are wrong"), "{said}");
    assert!(value(&mut listener, "notice").contains("somebody entered a wrong code"));
    for mut child in [listener, server] {
        let _ = child.kill();
        let _ = child.wait();
    }
}
