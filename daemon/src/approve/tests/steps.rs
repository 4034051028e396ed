//! What each step does, says and leaves.

use super::*;

#[tokio::test]
async fn a_wish_is_opened_seen_granted_and_used_and_the_trail_has_the_whole_story() {
    let world = World::new().await;
    let id = world.open(1).await;
    let opened = world.yes(id, ANN).await.unwrap();
    assert_eq!(opened.approval.state().as_str(), "granted");
    let grant = world.consume(id, 2, 1).await.unwrap();
    assert_eq!((grant.approval(), grant.request()), (id, request(2)));

    assert_eq!(world.told(), ["opened", "verdict", "granted", "consumed"]);
    let trail = world.trail();
    let (opening, using) = (request(1).to_string(), request(2).to_string());
    for event in &trail[..3] {
        assert_eq!(event["request_id"], opening.as_str());
    }
    for event in &trail {
        assert_eq!(event["fields"]["approval"], id.as_str());
    }
    let opened = &trail[0]["fields"];
    assert_eq!(
        opened["bound"]["plan file"],
        format!("sha256:{}", "05".repeat(32))
    );
    assert_eq!(opened["must_type"][0], OBJECT);
    assert_eq!(opened["summary"], "1 to replace");
    let verdict = &trail[1];
    assert_eq!(verdict["principal"], "ann");
    assert_eq!(
        (&verdict["fields"]["said"], &verdict["fields"]["uid"]),
        (&"yes".into(), &5_001.into())
    );
    assert_eq!(trail[2]["fields"]["approvers"][0], "ann");
    assert_eq!(trail[3]["request_id"], using.as_str());
    assert_eq!(trail[3]["fields"]["opened_by"], opening.as_str());
}

#[tokio::test]
async fn the_same_wish_finds_its_approval_and_another_one_waits() {
    let world = World::new().await;
    let id = world.open(1).await;
    for state in ["pending", "granted"] {
        let again = world.try_open(2, 2, 1).await.unwrap();
        assert!(
            matches!(&again, Opened::Same(same) if same.id() == id && same.approval.state().as_str() == state),
            "{again:?}"
        );
        let other = world.try_open(3, 9, 1).await;
        assert_refused(other, Code::ApprovalOpen, "Root demo has an open approval");
        let found = world.approvals().find_open(&"demo".parse().unwrap()).await;
        assert_eq!(found.unwrap().unwrap().id(), id);
        world.yes(id, ANN).await.unwrap();
    }
    drop(world.consume(id, 4, 1).await.unwrap());
    let found = world.approvals().find_open(&"demo".parse().unwrap()).await;
    assert!(found.unwrap().is_none());
    assert!(matches!(world.try_open(5, 9, 1).await, Ok(Opened::New(_))));
}

#[tokio::test]
async fn after_a_denial_and_a_cancellation_a_root_cools_down() {
    let world = World::new().await;
    let id = world.open(1).await;
    let denied = world.say(id, ANN, Said::No).await.unwrap();
    assert_eq!(denied.approval.state().as_str(), "denied");
    assert_eq!(world.told(), ["opened", "verdict", "denied"]);
    assert_refused(
        world.try_open(2, 2, 1).await,
        Code::ApprovalCooling,
        "in 60 s",
    );
    world.set_clock(59);
    let early = world.try_open(2, 2, 1).await;
    assert_refused(early, Code::ApprovalCooling, "in 1 s");
    world.set_clock(60);
    let Opened::New(second) = world.try_open(2, 2, 1).await.unwrap() else {
        panic!("not new");
    };
    let agent = AGENT.parse().unwrap();
    let cancelled = world.approvals().cancel(&agent, second.id()).await.unwrap();
    assert_eq!(cancelled.approval.state().as_str(), "cancelled");
    let soon = world.try_open(3, 9, 1).await;
    assert_refused(soon, Code::ApprovalCooling, "in 60 s");
    // A clock that was set back does not close the root for as long.
    world.set_clock(-3_600);
    assert!(matches!(world.try_open(3, 9, 1).await, Ok(Opened::New(_))));
}

#[tokio::test]
async fn only_its_owner_can_see_use_or_cancel_it() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    let (agent, other) = (AGENT.parse().unwrap(), "other-agent".parse().unwrap());
    let approvals = world.approvals();
    let wanted = Use {
        approval: id,
        principal: "other-agent".parse().unwrap(),
        request: request(2),
        binding: binding("demo", 2, 1),
    };
    assert_refused(
        approvals.consume(wanted).await,
        Code::NoSuchApproval,
        "no such",
    );
    assert_refused(
        approvals.cancel(&other, id).await,
        Code::NoSuchApproval,
        "no such",
    );
    assert_refused(
        approvals.find_own(&other, id).await,
        Code::NoSuchApproval,
        "no such",
    );
    let unknown = fixture::id(9);
    assert_refused(
        approvals.find_own(&agent, unknown).await,
        Code::NoSuchApproval,
        "no such",
    );
    assert_eq!(approvals.find_own(&agent, id).await.unwrap().id(), id);
    assert_eq!(world.state(id).await, "granted");
}

#[tokio::test]
async fn every_difference_from_what_was_approved_is_named() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    let kept: serde_json::Map<String, Value> =
        serde_json::from_str(&binding("demo", 2, 1).to_json()).unwrap();
    for part in Part::ALL {
        let mut changed = kept.clone();
        changed.insert(part.to_string(), "another".into());
        let wanted = Use {
            approval: id,
            principal: AGENT.parse().unwrap(),
            request: request(2),
            binding: Binding::from_json(&Value::Object(changed).to_string()).unwrap(),
        };
        let refused = world.approvals().consume(wanted).await;
        let says = format!("Changed since: {part}.");
        assert_refused(refused, Code::ApprovalChanged, &says);
    }
    assert_eq!(world.told(), ["opened", "verdict", "granted"]);
    // Put back, it still holds.
    assert!(world.consume(id, 2, 1).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_uses_at_once_one_gets_the_grant() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    let mut uses = tokio::task::JoinSet::new();
    for n in 2..52 {
        let approvals = world.approvals().clone();
        uses.spawn(async move {
            let wanted = Use {
                approval: id,
                principal: AGENT.parse().unwrap(),
                request: request(n),
                binding: binding("demo", 2, 1),
            };
            approvals.consume(wanted).await
        });
    }
    let (won, lost): (Vec<_>, Vec<_>) = uses.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 49));
    let winner = won.into_iter().next().unwrap().unwrap().request();
    for failure in lost {
        let failure = failure.unwrap_err();
        assert_eq!(
            (failure.code, failure.request),
            (Code::ApprovalUsed, Some(winner))
        );
    }
    assert_eq!(world.told().iter().filter(|e| *e == "consumed").count(), 1);
}

#[tokio::test]
async fn what_the_trail_does_not_take_does_not_happen() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    world.running().audit.close().await.unwrap();
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::AuditUnavailable, "does not happen");
    let refused = world.say(id, BEN, Said::No).await;
    assert_refused(refused, Code::AuditUnavailable, "does not happen");
    let refused = world.approvals().cancel(&AGENT.parse().unwrap(), id).await;
    assert_refused(refused, Code::AuditUnavailable, "does not happen");
    world.set_clock(61);
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::AuditUnavailable, "does not happen");
    assert_eq!(world.state(id).await, "granted");
}

#[tokio::test]
async fn a_caller_that_went_away_undoes_no_verdict_and_uses_nothing_up() {
    let world = World::new().await;
    let id = world.open(1).await;
    let mut changes = world.approvals().watch();
    let spoken = Spoken {
        approval: id.into(),
        seen: binding("demo", 2, 1).digest(),
        said: Said::Yes,
        reason: String::new(),
        typed: OBJECT.to_owned(),
    };
    let judge = Judge::this_process(ANN.0, ANN.1);
    let (reply, gone) = oneshot::channel();
    drop(gone);
    let ask = Ask::Verdict(id, Box::new((judge, spoken)), reply);
    assert!(world.approvals().desk.send(ask).await.is_ok());
    let seen = changes.recv().await.unwrap();
    assert_eq!(seen.approval.state().as_str(), "granted");

    let wanted = Use {
        approval: id,
        principal: AGENT.parse().unwrap(),
        request: request(2),
        binding: binding("demo", 2, 1),
    };
    let (reply, gone) = oneshot::channel();
    drop(gone);
    let ask = Ask::Consume(Box::new(wanted), reply);
    assert!(world.approvals().desk.send(ask).await.is_ok());
    // It comes after that, so that has been answered.
    world.approvals().find(&id.into()).await.unwrap();
    assert_eq!(world.state(id).await, "granted");
    assert!(world.consume(id, 3, 1).await.is_ok());
}

#[tokio::test]
async fn those_who_watch_see_every_change_and_how_the_apply_ended() {
    let world = World::new().await;
    let mut changes = world.approvals().watch();
    let id = world.open(2).await;
    world.yes(id, ANN).await.unwrap();
    world.yes(id, BEN).await.unwrap();
    drop(world.consume(id, 2, 2).await.unwrap());
    world
        .store()
        .end_request(request(2), "succeeded", 9)
        .await
        .unwrap();
    world.approvals().tell_outcome(id).await;
    for (state, verdicts, outcome) in [
        ("pending", 0, None),
        ("pending", 1, None),
        ("granted", 2, None),
        ("consumed", 2, None),
        ("consumed", 2, Some("succeeded")),
    ] {
        let seen = changes.recv().await.unwrap();
        assert_eq!(seen.approval.state().as_str(), state);
        assert_eq!(seen.approval.verdicts().len(), verdicts);
        assert_eq!(seen.outcome.as_deref(), outcome);
    }
}

#[tokio::test]
async fn an_ambiguous_beginning_is_refused_with_the_list() {
    let world = World::new().await;
    let id = world.open(1).await;
    let begins: ApprovalPrefix = id.as_str()[..6].parse().unwrap();
    assert_eq!(world.approvals().find(&begins).await.unwrap().id(), id);
    // Its like, with another end.
    let plan = keep_plan(world.store(), "other", 2, 2).await;
    let mut twin = fixture::new_approval("other", 1, 2, plan, 1);
    let other_end = if id.as_str().ends_with('7') { "8" } else { "7" };
    let twin_id: ApprovalId = format!("{}{other_end}", &id.as_str()[..11])
        .parse()
        .unwrap();
    let terms = sandbox_core::approval::Terms {
        id: twin_id,
        ..twin.approval.terms().clone()
    };
    twin.approval = sandbox_core::approval::Approval::open(terms);
    world.store().open_approval(twin).await.unwrap();
    let failure = world.approvals().find(&begins).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    assert!(failure.message.contains(id.as_str()) && failure.message.contains(twin_id.as_str()));
    let whole: ApprovalPrefix = id.into();
    assert_eq!(world.approvals().find(&whole).await.unwrap().id(), id);
    let none = if begins.as_str() == "zzzzzz" {
        "yyyyyy"
    } else {
        "zzzzzz"
    };
    let none = world.approvals().find(&none.parse().unwrap()).await;
    assert_refused(none, Code::NoSuchApproval, "no such");
}

#[tokio::test]
async fn the_operators_command_is_told_once_and_the_trail_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new().await;
    let out = folder.path().join("told");
    let shell = "printf '%s\\n' \"$0\" >> ";
    world.notify.command = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        format!("{shell}{}", out.display()),
    ];
    world.restart().await;
    let id = world.open(1).await;
    world.try_open(2, 2, 1).await.unwrap();
    // Stopping waits for it.
    world.stop().await;
    assert_eq!(std::fs::read_to_string(out).unwrap(), format!("{id}\n"));
    assert_eq!(world.told(), ["opened", "notified"]);
    assert_eq!(world.trail()[1]["fields"]["command"], "/bin/sh");
}
