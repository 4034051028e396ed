//! A disk that runs full under the trail: no new calls, and what is under way still comes to its end.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster_lock::ClusterLock;
use crate::frozen::Frozen;
use crate::ground::assert_nothing_left;
use crate::own_daemon::{OwnDaemon, own, set};
use crate::places::DAEMON;
use crate::trail::only;

const MIB: u64 = 1024 * 1024;
const SIZE: u64 = 64 * MIB;
const LOW_WATER: u64 = 16 * MIB;

/// A small file system over a daemon's state folder.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn over(folder: &Path) -> Self {
        let options = format!("size={SIZE},mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "small-disk"]);
        assert!(mount.arg(folder).status().unwrap().success());
        own(folder, 0o700, (DAEMON, DAEMON));
        Self(folder.to_owned())
    }

    /// Leaves less than the low-water mark, and more than nothing.
    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).unwrap();
        while self.free() > LOW_WATER - MIB {
            filler.write_all(&vec![0; 256 * 1024]).unwrap();
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.0).unwrap();
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(std::thread::panicking() || status.is_ok_and(|status| status.success()));
    }
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn on_a_full_disk_new_calls_are_refused_and_the_one_under_way_is_told_to_its_end() {
    let _lock = ClusterLock::take();
    // Spares, as the installed daemon has them: a call is caught in the middle in one of those.
    let mut daemon = OwnDaemon::new(|config| {
        set(
            config,
            "limits",
            "audit_low_water_bytes",
            i64::try_from(LOW_WATER).unwrap(),
        );
    });
    let state = daemon.path("state");
    let disk = SmallDisk::over(Path::new(&state));
    daemon.start();
    let trail = daemon.trail();
    let mut bridge = daemon.bridge();
    let frozen = Frozen::call(&mut bridge, &trail);
    let (call, request) = (frozen.call, frozen.request.clone());
    disk.fill();
    let mark = trail.mark();
    let refused = bridge.pods("demo-app");
    refused.assert_refused("AUDIT_UNAVAILABLE", "so it does not happen");
    assert!(refused.field("next").contains("disk"), "{}", refused.text());
    assert!(
        trail
            .since(mark)
            .iter()
            .all(|event| event.name != "credential.issued")
    );
    let audit = trail.status()["parts"][2].clone();
    assert_eq!(
        (&audit["name"], &audit["ok"]),
        (&"audit".into(), &false.into())
    );

    frozen.resume();
    let answer = bridge.answer(call);
    assert!(answer.pod_names().iter().any(|pod| pod.starts_with("web-")));
    let events = trail.of_once(&request, "credential.proven_dead");
    only(&events, "api.call");
    assert_eq!(
        only(&events, "credential.revoked").fields["refused_with"],
        403
    );
    assert_eq!(only(&events, "tool.result").text("outcome"), "succeeded");

    disk.empty();
    let answer = bridge.pods("demo-app");
    assert!(!answer.is_error(), "{}", answer.text());
    assert_nothing_left(&trail);
    disk.fill();
    let mark = trail.mark();
    assert!(daemon.terminate().success());
    only(&trail.since(mark), "daemon.stopped");
}
