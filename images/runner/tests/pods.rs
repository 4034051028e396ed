//! Pods as people meet them: what the summary says of each. The fixtures in `tests/pods` are pods as
//! the API writes them; the cluster test shows that their columns are also what `kubectl` prints.
#![cfg(test)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use sandbox_proto::runner::v1::{self as proto, LastTermination};
use sandbox_runner::pods::summarise;

const NOW: &str = "2026-03-01T12:00:00Z";

/// Summarises `tests/pods/NAME.json`, at [`NOW`].
fn summary(name: &str) -> proto::Pod {
    let path = format!("{}/tests/pods/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let pod = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    summarise(&pod, NOW.parse().unwrap())
}

/// NAME READY STATUS RESTARTS as one line, then healthy or not.
fn row(pod: &proto::Pod) -> String {
    let proto::Pod {
        ready,
        containers,
        status,
        restarts,
        ..
    } = pod;
    let healthy = if pod.healthy { "healthy" } else { "unhealthy" };
    format!("{ready}/{containers} {status} {restarts} {healthy}")
}

/// Checks reason, container and how the message starts; an empty start means no message at all.
#[track_caller]
fn tells(pod: &proto::Pod, reason: &str, container: &str, start: &str) {
    assert_eq!(
        (pod.reason.as_str(), pod.container.as_str()),
        (reason, container),
        "{pod:?}"
    );
    assert!(pod.message.starts_with(start), "{:?}", pod.message);
    assert_eq!(
        pod.message.is_empty(),
        start.is_empty(),
        "{:?}",
        pod.message
    );
}

fn termination(container: &str, reason: &str, exit_code: i32, at: &str) -> LastTermination {
    LastTermination {
        container: container.to_owned(),
        reason: reason.to_owned(),
        exit_code,
        signal: 0,
        finished_at: at.to_owned(),
    }
}

#[test]
fn a_pod_that_is_up_has_nothing_to_look_at() {
    let pod = summary("running");
    assert_eq!(row(&pod), "1/1 Running 0 healthy");
    tells(&pod, "", "", "");
    assert_eq!(pod.name, "shop-running");
    assert_eq!(pod.phase, "Running");
    assert_eq!(pod.node, "worker-1");
    assert_eq!(pod.age_seconds, 3600);
    assert_eq!(pod.terminating_seconds, None);
    assert_eq!(pod.last_termination, None);
}

#[test]
fn a_crash_loop_names_its_container_and_how_it_last_ended() {
    let pod = summary("crash_loop");
    assert_eq!(row(&pod), "0/1 CrashLoopBackOff 7 unhealthy");
    tells(&pod, "CrashLoopBackOff", "app", "back-off 5m0s restarting");
    let last = termination("app", "Error", 1, "2026-03-01T11:59:00Z");
    assert_eq!(pod.last_termination, Some(last));
}

#[test]
fn a_crash_loop_from_memory_shows_both() {
    let pod = summary("crash_loop_oom");
    assert_eq!(row(&pod), "0/1 CrashLoopBackOff 4 unhealthy");
    assert_eq!(pod.reason, "CrashLoopBackOff");
    let last = termination("app", "OOMKilled", 137, "2026-03-01T11:59:00Z");
    assert_eq!(pod.last_termination, Some(last));
}

#[test]
fn a_container_out_of_memory_is_oom_killed() {
    let pod = summary("oom_killed");
    assert_eq!(row(&pod), "0/1 OOMKilled 1 unhealthy");
    tells(&pod, "OOMKilled", "app", "");
    let last = termination("app", "OOMKilled", 137, "2026-03-01T11:59:00Z");
    assert_eq!(pod.last_termination, Some(last), "of two, the later");
}

#[test]
fn a_container_that_cannot_start_says_why_in_kubernetes_words() {
    for (name, reason, start) in [
        (
            "image_pull_back_off",
            "ImagePullBackOff",
            "Back-off pulling image \"r",
        ),
        ("err_image_pull", "ErrImagePull", "rpc error: code = NotFou"),
        (
            "err_image_never_pull",
            "ErrImageNeverPull",
            "Container image \"registr",
        ),
        (
            "invalid_image_name",
            "InvalidImageName",
            "Failed to apply default ",
        ),
        (
            "create_container_config_error",
            "CreateContainerConfigError",
            "configmap \"shop-settings",
        ),
    ] {
        let pod = summary(name);
        assert_eq!(row(&pod), format!("0/1 {reason} 0 unhealthy"));
        tells(&pod, reason, "app", start);
        assert_eq!(pod.phase, "Pending");
    }
}

#[test]
fn a_missing_program_is_a_run_container_error() {
    let pod = summary("run_container_error");
    assert_eq!(row(&pod), "0/1 RunContainerError 3 unhealthy");
    tells(&pod, "RunContainerError", "app", "failed to create contain");
    let last = termination("app", "StartError", 128, "2026-03-01T11:59:00Z");
    assert_eq!(pod.last_termination, Some(last));
}

#[test]
fn an_unschedulable_pod_has_the_schedulers_words() {
    let pod = summary("unschedulable");
    assert_eq!(row(&pod), "0/1 Pending 0 unhealthy");
    tells(&pod, "Unschedulable", "", "0/3 nodes are available:");
    assert!(
        pod.message.contains("2 Insufficient memory"),
        "{}",
        pod.message
    );
    assert_eq!(pod.node, "");
}

#[test]
fn a_gated_pod_says_so() {
    let pod = summary("scheduling_gated");
    assert_eq!(row(&pod), "0/1 SchedulingGated 0 unhealthy");
    tells(&pod, "SchedulingGated", "", "Scheduling is blocked du");
}

#[test]
fn a_pod_that_is_merely_starting_has_no_reason_yet() {
    for (name, expected) in [
        ("just_created", "0/1 Pending 0 unhealthy"),
        ("container_creating", "0/1 ContainerCreating 0 unhealthy"),
        ("init_progress", "0/1 Init:1/3 0 unhealthy"),
    ] {
        let pod = summary(name);
        assert_eq!(row(&pod), expected);
        tells(&pod, "", "", "");
        assert_eq!(pod.last_termination, None, "{name}");
    }
}

#[test]
fn a_failing_init_container_is_the_reason_while_the_app_waits() {
    let pod = summary("init_crash_loop");
    assert_eq!(row(&pod), "0/1 Init:CrashLoopBackOff 3 unhealthy");
    tells(
        &pod,
        "CrashLoopBackOff",
        "migrate",
        "back-off 40s restarting ",
    );
    let last = termination("migrate", "Error", 2, "2026-03-01T11:59:00Z");
    assert_eq!(pod.last_termination, Some(last));

    let pod = summary("init_failed");
    assert_eq!(row(&pod), "0/1 Init:Error 0 unhealthy");
    tells(&pod, "Error", "migrate", "no such table: orders\n");

    let pod = summary("init_oom_killed");
    assert_eq!(row(&pod), "0/1 Init:OOMKilled 1 unhealthy");
    tells(&pod, "OOMKilled", "migrate", "");

    let pod = summary("init_image_pull");
    assert_eq!(row(&pod), "0/1 Init:ImagePullBackOff 0 unhealthy");
    tells(
        &pod,
        "ImagePullBackOff",
        "migrate",
        "Back-off pulling image \"r",
    );
}

#[test]
fn a_job_that_succeeded_is_healthy_whatever_its_sidecar_was_killed_with() {
    let pod = summary("job_done_sidecar_killed");
    assert_eq!(row(&pod), "0/2 Completed 0 healthy");
    tells(&pod, "", "", "");
    let last = termination("mesh", "Error", 137, "2026-03-01T11:59:05Z");
    assert_eq!(pod.last_termination, Some(last));

    let pod = summary("completed");
    assert_eq!(row(&pod), "0/1 Completed 0 healthy");
}

#[test]
fn a_sidecar_counts_as_a_container_and_a_finished_init_container_does_not() {
    let pod = summary("sidecar_running");
    assert_eq!(row(&pod), "2/2 Running 0 healthy");
    assert_eq!(pod.last_termination, None);
}

#[test]
fn a_crash_looping_sidecar_is_the_reason_beside_a_running_app() {
    let pod = summary("sidecar_crash_loop");
    assert_eq!(row(&pod), "1/2 Init:CrashLoopBackOff 5 unhealthy");
    tells(&pod, "CrashLoopBackOff", "mesh", "back-off 20s restarting ");
}

#[test]
fn a_pod_between_two_crashes_is_not_called_healthy() {
    let pod = summary("between_two_crashes");
    assert_eq!(row(&pod), "1/1 Running 6 unhealthy");
    tells(&pod, "Error", "app", "panic: no connection to ");
    let last = termination("app", "Error", 1, "2026-03-01T11:58:20Z");
    assert_eq!(pod.last_termination, Some(last));
}

#[test]
fn ten_minutes_after_a_restart_a_pod_is_healthy_again_and_still_tells() {
    let pod = summary("restarted_long_ago");
    assert_eq!(row(&pod), "1/1 Running 3 healthy");
    tells(&pod, "", "", "");
    let last = termination("app", "OOMKilled", 137, "2026-03-01T11:29:50Z");
    assert_eq!(pod.last_termination, Some(last));
}

#[test]
fn an_evicted_pod_needs_no_container_status() {
    let pod = summary("evicted");
    assert_eq!(row(&pod), "0/1 Evicted 0 unhealthy");
    tells(&pod, "Evicted", "", "The node was low on reso");
    assert_eq!(pod.phase, "Failed");
}

#[test]
fn a_failed_pod_is_failed_though_a_container_still_says_running() {
    let pod = summary("failed_still_running");
    assert_eq!(row(&pod), "1/1 Failed 0 unhealthy");
    tells(&pod, "Failed", "", "Pod was terminated in re");
}

#[test]
fn ephemeral_containers_are_never_counted() {
    let pod = summary("ephemeral");
    assert_eq!(row(&pod), "1/1 Running 0 healthy");
    tells(&pod, "", "", "");
    assert_eq!(pod.last_termination, None);
}

#[test]
fn terminating_counts_from_when_deletion_was_asked_for() {
    let pod = summary("terminating");
    assert_eq!(row(&pod), "1/1 Terminating 0 unhealthy");
    tells(&pod, "Terminating", "", "");
    // The grace period of 30 s is over at 12:00:10.
    assert_eq!(pod.terminating_seconds, Some(20));

    let pod = summary("terminating_preempted");
    assert_eq!(row(&pod), "1/1 Terminating 0 unhealthy");
    tells(
        &pod,
        "PreemptionByScheduler",
        "",
        "default-scheduler: preem",
    );
    assert_eq!(pod.terminating_seconds, Some(60));
}

#[test]
fn a_lost_node_makes_its_pods_unknown() {
    let pod = summary("node_lost");
    assert_eq!(row(&pod), "1/1 Unknown 0 unhealthy");
    tells(&pod, "NodeLost", "", "Node worker-1 which was ");
    assert_eq!(pod.terminating_seconds, Some(630));

    let pod = summary("unknown");
    assert_eq!(row(&pod), "1/1 Unknown 0 unhealthy");
    tells(&pod, "Unknown", "", "");
}

#[test]
fn running_without_being_ready_is_not_healthy() {
    let pod = summary("not_ready");
    assert_eq!(row(&pod), "0/1 Running 0 unhealthy");
    tells(
        &pod,
        "ContainersNotReady",
        "app",
        "containers with unready ",
    );

    let pod = summary("readiness_gate");
    assert_eq!(row(&pod), "1/1 Running 0 unhealthy");
    tells(
        &pod,
        "ReadinessGatesNotReady",
        "",
        "corresponding condition ",
    );
}

#[test]
fn a_container_that_was_lost_has_no_time_of_death() {
    let pod = summary("container_status_unknown");
    assert_eq!(row(&pod), "0/1 ContainerStatusUnknown 0 unhealthy");
    tells(
        &pod,
        "ContainerStatusUnknown",
        "app",
        "The container could not ",
    );
    let last = termination("app", "ContainerStatusUnknown", 137, "");
    assert_eq!(pod.last_termination, Some(last));
}

#[test]
fn what_ended_the_whole_pod_comes_before_its_containers() {
    let pod = summary("preempting");
    assert_eq!(row(&pod), "0/1 Preempting 0 unhealthy");
    tells(&pod, "Preempting", "", "Preempted in order to ad");

    let pod = summary("deadline_exceeded");
    assert_eq!(row(&pod), "0/1 Error 0 unhealthy");
    tells(&pod, "DeadlineExceeded", "", "Pod was active on the no");

    let pod = summary("orphaned");
    assert_eq!(row(&pod), "1/1 Failed 0 unhealthy");
    tells(&pod, "DeletionByPodGC", "", "PodGC: node no longer ex");
}

#[test]
fn a_finished_container_does_not_hide_its_neighbours_trouble() {
    let pod = summary("finished_neighbour");
    assert_eq!(row(&pod), "0/2 Completed 4 unhealthy");
    tells(
        &pod,
        "CrashLoopBackOff",
        "log-shipper",
        "back-off 5m0s restarting",
    );

    let pod = summary("job_waits_for_helper");
    assert_eq!(row(&pod), "1/2 NotReady 0 unhealthy");
    tells(
        &pod,
        "ContainersNotReady",
        "app",
        "containers with unready ",
    );
}

#[test]
fn of_two_troubles_the_one_that_lasts_is_told() {
    let pod = summary("two_troubles");
    assert_eq!(row(&pod), "0/2 Error 2 unhealthy");
    tells(
        &pod,
        "ImagePullBackOff",
        "log-shipper",
        "Back-off pulling image \"r",
    );
}

#[test]
fn a_termination_without_a_reason_shows_its_code_or_signal() {
    let pod = summary("exit_code_alone");
    assert_eq!(row(&pod), "0/1 ExitCode:3 0 unhealthy");
    tells(&pod, "ExitCode:3", "app", "");

    let pod = summary("signal_alone");
    assert_eq!(row(&pod), "0/1 Signal:9 0 unhealthy");
    tells(&pod, "Signal:9", "app", "");
    assert_eq!(pod.last_termination.unwrap().signal, 9);
}

#[test]
fn a_container_that_ends_well_where_it_should_stay_up_is_told() {
    let pod = summary("restarts_after_success");
    assert_eq!(row(&pod), "0/1 Completed 1 unhealthy");
    tells(&pod, "Completed", "app", "");
}

#[test]
fn a_long_message_is_clipped_between_characters_and_not_escaped() {
    let pod = summary("noisy_message");
    assert_eq!(row(&pod), "0/1 Error\nInjected 0 unhealthy");
    assert!(
        pod.message
            .starts_with("line one\r\nline two\u{1b}[31m red\u{7} tab\there\u{202e} rtl")
    );
    let (kept, note) = pod.message.rsplit_once('…').unwrap();
    assert!(
        (509..=512).contains(&kept.len()),
        "kept {} bytes",
        kept.len()
    );
    assert_eq!(note, " (4095 bytes in all)");
}

#[test]
fn a_pod_with_nothing_in_it_reads_as_empty() {
    let pod = summarise(&Pod::default(), NOW.parse().unwrap());
    assert_eq!(pod, proto::Pod::default());
}

#[test]
fn a_clock_that_is_behind_gives_no_negative_age() {
    let path = format!("{}/tests/pods/terminating.json", env!("CARGO_MANIFEST_DIR"));
    let pod = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let pod = summarise(&pod, Timestamp::UNIX_EPOCH);
    assert_eq!((pod.age_seconds, pod.terminating_seconds), (0, Some(0)));
}

#[test]
fn every_fixture_has_its_test() {
    let tests = include_str!("pods.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pods");
    let mut fixtures = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(tests.contains(&format!("\"{name}\"")), "no test for {name}");
        fixtures += 1;
    }
    assert!(fixtures > 40, "only {fixtures}");
}
