//! `zookeeper.connect`: the servers of an ensemble and the chroot that all paths sit below.
//!
//! Upstream counterpart: ZooKeeper's `ConnectStringParser` and `PathUtils.validatePath`.

use std::fmt;

use super::endpoints::{HostPort, comma_separated, split_port};

const DEFAULT_PORT: u16 = 2181;

/// Checked servers and chroot. `Display` gives the connect string back, with every port written out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConnect {
    /// At least one.
    pub servers: Vec<HostPort>,
    /// Begins with `/`, does not end with it; none where paths start at the root.
    pub chroot: Option<String>,
}

impl ZooKeeperConnect {
    /// Reads `host:port,host:port/chroot`; the port may be missing (2181).
    ///
    /// # Errors
    /// The reason in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (hosts, chroot) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let servers = comma_separated(hosts)
            .map(server)
            .collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err(
                "no server is named, for example zk1:2181,zk2:2181,zk3:2181/kafka".to_owned(),
            );
        }
        Ok(Self {
            servers,
            chroot: checked_chroot(chroot)?,
        })
    }
}

impl fmt::Display for ZooKeeperConnect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for server in &self.servers {
            write!(out, "{between}{server}")?;
            between = ",";
        }
        out.write_str(self.chroot.as_deref().unwrap_or_default())
    }
}

fn server(text: &str) -> Result<HostPort, String> {
    let bare_ipv6 = text.starts_with('[') && text.ends_with(']');
    let with_port = if bare_ipv6 || !text.contains(':') {
        format!("{text}:{DEFAULT_PORT}")
    } else {
        text.to_owned()
    };
    match split_port(&with_port) {
        Some((host, port)) if !host.is_empty() && port != 0 => Ok(HostPort {
            host: host.to_owned(),
            port,
        }),
        _ => Err(format!(
            "{text} is not host:port (an IPv6 address goes in brackets)"
        )),
    }
}

fn checked_chroot(path: &str) -> Result<Option<String>, String> {
    let Some(below) = path.strip_prefix('/') else {
        return Ok(None);
    };
    if below.is_empty() {
        return Ok(None);
    }
    if path.contains(',') {
        return Err(format!(
            "the chroot {path} holds a comma; it stands once, after the last server"
        ));
    }
    for part in below.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return Err(format!(
                "the chroot {path} has an empty part, a dot part or a slash at its end"
            ));
        }
        if part.chars().any(|character| {
            character.is_control() || ('\u{fff0}'..='\u{ffff}').contains(&character)
        }) {
            return Err("the chroot holds a character that ZooKeeper takes in no path".to_owned());
        }
    }
    Ok(Some(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_ports_and_chroot_are_read() {
        for (text, shown) in [
            (
                "zk1:2181,zk2:2182,zk3:2183/kafka/a",
                "zk1:2181,zk2:2182,zk3:2183/kafka/a",
            ),
            ("zk1", "zk1:2181"),
            ("zk1, zk2/", "zk1:2181,zk2:2181"),
            ("[::1]:2181,[fe80::1]", "[::1]:2181,[fe80::1]:2181"),
        ] {
            assert_eq!(ZooKeeperConnect::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn wrong_connect_strings_are_refused() {
        for text in [
            "",
            "/kafka",
            "zk1:0",
            "zk1:x",
            ":2181",
            "::1:2181",
            "zk1/kafka/",
            "zk1/a//b",
            "zk1/..",
            "zk1/a,zk2/a",
            "zk 1",
        ] {
            assert!(ZooKeeperConnect::parse(text).is_err(), "{text}");
        }
    }
}
