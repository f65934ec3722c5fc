//! Two network namespaces with a TUN device each. The command `ip` of iproute2 creates them; their users require it,
//! too.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio, id};

use tun_rs::{DeviceBuilder, SyncDevice};

/// Folder in which `ip netns` keeps the names.
const NAMES: &str = "/run/netns";
const DEVICE_FILE: &str = "/dev/net/tun";
/// Name of the device in its namespace, like that of a network card.
const DEVICE: &str = "eth0";
/// Maximum size of a packet, bytes, as on Ethernet.
const MTU: u32 = 1500;
/// Packets that the kernel queues while the emulator does not read: 0.1 s at 100 Mb/s.
const DEVICE_QUEUE: u32 = 1000;
/// Default prefix of namespace names, before the process id.
const DEFAULT_PREFIX: &str = "lockstep-";
/// Set while this program runs in its own user namespace.
const OWN_USER_NAMESPACE: &str = "LOCKSTEP_OWN_USER_NAMESPACE";

/// Error of creating namespaces and devices.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The kernel has no TUN devices, or the container hides them.
    #[error(
        "there is no {DEVICE_FILE}: load the module (modprobe tun), or give the container the device (docker run --device \
         {DEVICE_FILE})"
    )]
    NoDevice,
    /// A command is not installed.
    #[error("the command {command} is not installed (Debian, Ubuntu: apt install {package})")]
    NoCommand {
        /// Name of the command.
        command: &'static str,
        /// Package with the command.
        package: &'static str,
    },
    /// This process lacks the rights to create namespaces.
    #[error(
        "no right to make network namespaces and TUN devices: {reason}. Run it as root (a container needs --cap-add NET_ADMIN \
         --cap-add SYS_ADMIN), or allow user namespaces (sysctl kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces); without either, `lockstep emulate \
         HOST:PORT` carries UDP"
    )]
    NoRights {
        /// The refused operation.
        reason: String,
    },
    /// Namespaces with these names exist.
    #[error("network namespace {0} already exists; choose another --name, or remove it: ip netns del {0}")]
    Taken(String),
    /// The name is invalid.
    #[error("invalid name of a namespace: \"{0}\": expected 1 to 64 letters, digits, - and _")]
    Name(String),
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command line.
        command: String,
        /// Its error output.
        message: String,
    },
    /// The device cannot be created or read.
    #[error("the TUN device failed: {0}")]
    Device(io::Error),
}

impl TunnelError {
    /// Whether the machine or this process lacks a requirement. Other errors are failures.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::NoDevice | Self::NoCommand { .. } | Self::NoRights { .. })
    }
}

/// One side of a link.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// Name for `ip netns exec`.
    pub name: String,
    /// IPv4 address of the side.
    pub address: Ipv4Addr,
    /// IPv6 address of the side, if it has one.
    pub address_v6: Option<Ipv6Addr>,
}

impl Namespace {
    /// A command that runs `program` in the namespace. It inherits the standard streams and the environment of this
    /// process.
    #[must_use]
    pub fn command(&self, program: &[OsString]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file())).arg("--").args(program);
        command
    }

    /// Path of the file that represents the namespace.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{NAMES}/{}", self.name)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        [Some(IpAddr::V4(self.address)), self.address_v6.map(IpAddr::V6)].into_iter().flatten()
    }
}

/// A namespace that is removed on drop.
#[derive(Debug)]
struct Owned(Namespace);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0.name], "");
    }
}

/// Both sides and their devices. Dropping it removes the names of the namespaces. Programs that still run in them lose
/// their network.
pub struct Tunnel {
    sides: [Owned; 2],
    pub(super) devices: [SyncDevice; 2],
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tunnel").field("sides", &self.sides).finish_non_exhaustive()
    }
}

/// Runs `ip` with these arguments and this standard input.
fn ip(words: &[&str], input: &str) -> Result<(), TunnelError> {
    let missing = TunnelError::NoCommand { command: "ip", package: "iproute2" };
    let failed = |message: String| TunnelError::Command { command: format!("ip {}", words.join(" ")), message };
    let mut command = Command::new("ip");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Signals of the terminal are for this process, which still has work to do.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing,
        _ => failed(error.to_string()),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let message = if message.is_empty() { output.status.to_string() } else { message };
    let refused = ["not permitted", "ermission denied"].iter().any(|word| message.contains(word));
    Err(if refused {
        TunnelError::NoRights { reason: format!("ip {}: {message}", words.join(" ")) }
    } else {
        failed(message)
    })
}

/// Removes the namespaces of killed processes of this program.
fn remove_left_over() {
    for entry in fs::read_dir(NAMES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(DEFAULT_PREFIX).and_then(|rest| {
            let process = rest.strip_suffix("-near").or_else(|| rest.strip_suffix("-far"))?;
            process.parse::<u32>().ok()
        });
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = ip(&["netns", "del", &name], "");
        }
    }
}

impl Tunnel {
    /// Creates the namespaces `NAME-near` and `NAME-far`, with a default route to each other and a loopback device.
    /// Their addresses are 10.77.0.1 and 10.77.0.2, with `ipv6` also fd77::1 and fd77::2. The default name contains the
    /// process id.
    ///
    /// # Errors
    /// If the namespaces cannot be created. [`TunnelError::is_missing`] tells whether a requirement is missing.
    pub fn open(name: Option<&str>, ipv6: bool) -> Result<Self, TunnelError> {
        let name = name.map_or_else(|| format!("{DEFAULT_PREFIX}{}", id()), str::to_owned);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || name.starts_with('-') || !name.chars().all(is_plain) {
            return Err(TunnelError::Name(name));
        }
        if !Path::new(DEVICE_FILE).exists() {
            return Err(TunnelError::NoDevice);
        }
        remove_left_over();
        let side = |end: &str, host: u8| -> Result<(Owned, SyncDevice), TunnelError> {
            let namespace = Namespace {
                name: format!("{name}-{end}"),
                address: Ipv4Addr::new(10, 77, 0, host),
                address_v6: ipv6.then(|| Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into())),
            };
            // A device moves to another namespace without its creator, so this thread need not change its own.
            let made_as = format!("ls{host}-{}", id());
            let device =
                DeviceBuilder::new().name(&made_as).enable(false).build_sync().map_err(|error| match error.kind() {
                    ErrorKind::PermissionDenied => {
                        TunnelError::NoRights { reason: format!("a TUN device was refused: {error}") }
                    }
                    _ => TunnelError::Device(error),
                })?;
            device.set_nonblocking(true).map_err(TunnelError::Device)?;
            if Path::new(&namespace.file()).exists() {
                return Err(TunnelError::Taken(namespace.name));
            }
            ip(&["netns", "add", &namespace.name], "")?;
            let owned = Owned(namespace);
            let namespace = &owned.0;
            ip(&["link", "set", "dev", &made_as, "netns", &namespace.name, "name", DEVICE], "")?;
            let mut batch = format!(
                "link set lo up\naddr add {}/24 dev {DEVICE}\nlink set {DEVICE} addrgenmode none\n\
                 link set {DEVICE} mtu {MTU} txqueuelen {DEVICE_QUEUE} up\nroute add default dev {DEVICE}\n",
                namespace.address
            );
            if let Some(address) = namespace.address_v6 {
                batch += &format!("addr add {address}/64 dev {DEVICE} nodad\nroute add ::/0 dev {DEVICE}\n");
            }
            ip(&["-n", &namespace.name, "-batch", "-"], &batch)?;
            Ok((owned, device))
        };
        let (near, far) = (side("near", 1)?, side("far", 2)?);
        Ok(Self { sides: [near.0, far.0], devices: [near.1, far.1] })
    }

    /// The side that sends through the forward link.
    #[must_use]
    pub fn near(&self) -> &Namespace {
        &self.sides[0].0
    }

    /// The side that sends through the reverse link.
    #[must_use]
    pub fn far(&self) -> &Namespace {
        &self.sides[1].0
    }
}

/// Whether this program runs in a user namespace of [`run_again_in_user_namespace`].
#[must_use]
pub fn is_in_own_user_namespace() -> bool {
    std::env::var_os(OWN_USER_NAMESPACE).is_some()
}

/// Replaces this process by the same command as root of a new user namespace. The namespace has a separate network and
/// a separate folder for namespace names. [`Tunnel::open`] requires them without root. Returns only on failure.
#[must_use]
pub fn run_again_in_user_namespace(because: &TunnelError) -> TunnelError {
    let because = match because {
        TunnelError::NoRights { reason } => reason.clone(),
        other => other.to_string(),
    };
    let refused =
        |message: &str| TunnelError::NoRights { reason: format!("{because}; and with a user namespace: {message}") };
    if is_in_own_user_namespace() {
        return refused("the same");
    }
    let Ok(program) = std::env::current_exe() else { return refused("this program has no name") };
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--net", "--", "sh", "-c", script]);
        command
    };
    let own_names = format!("mount -t tmpfs lockstep /run && mkdir -p {NAMES}");
    match unshare(&own_names).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return refused(String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return TunnelError::NoCommand { command: "unshare", package: "util-linux" };
        }
        Err(error) => return refused(&error.to_string()),
    }
    let mut command = unshare(&format!("{own_names} && exec \"$0\" \"$@\""));
    command.arg(program).args(std::env::args_os().skip(1)).env(OWN_USER_NAMESPACE, "1");
    refused(&command.exec().to_string())
}
