//! How to reach the daemon, and what it is held to on every connection.

use std::path::Path;

use sandbox_proto::approver::v1::GetStatusResponse;

use crate::continuity::{self, Held, Newest};
use crate::daemon::Daemon;
use crate::failure::Failure;

/// The socket, and every checkpoint that is known here.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) anchors: Vec<Held>,
}

/// Where the daemon stands, by its own word and held against ours.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) status: GetStatusResponse,
    pub(crate) newest: Option<Newest>,
    /// Empty when the trail holds in every respect.
    pub(crate) alarms: Vec<Failure>,
}

impl Access<'_> {
    /// Connects, asks the daemon where it stands and holds that against every checkpoint known here.
    pub(crate) async fn connect(&self) -> Result<(Daemon, Standing), Failure> {
        let mut daemon = Daemon::connect(self.socket).await?;
        let mut alarms = Vec::new();
        let status = daemon
            .status(self.anchors.first().map_or(0, Held::seq))
            .await?;
        let newest = match continuity::newest(&status) {
            Ok(newest) => newest,
            Err(failure) => {
                alarms.push(failure);
                None
            }
        };
        for (number, held) in self.anchors.iter().enumerate() {
            let hash = match number {
                0 => status.at_seq_hash.clone(),
                _ => daemon.status(held.seq()).await?.at_seq_hash,
            };
            alarms.extend(continuity::check(held, newest.as_ref(), &hash).err());
        }
        let standing = Standing {
            status,
            newest,
            alarms,
        };
        Ok((daemon, standing))
    }
}
