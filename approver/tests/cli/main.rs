//! The real binary against a scripted daemon: what it shows, what it believes, and when it alarms.
#![cfg(test)]

mod scripted;
mod audit;
mod checkpoints;
mod connecting;
mod dependencies;
