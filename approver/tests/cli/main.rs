//! The real binary against a scripted daemon: what it shows, what it believes, and when it alarms.
#![cfg(test)]

mod scripted;
mod desk;
mod plans;
mod seat;
mod list;
mod show;
mod grant;
mod deny;
mod wait;
mod watch;
mod audit;
mod checkpoints;
mod connecting;
mod dependencies;
