-- A packed source tree, by the SHA-256 over it.
CREATE TABLE bundle (
    digest BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    tar    BLOB NOT NULL
) STRICT;

-- A saved plan and what it was made from. `bytes` holds secrets in plain text, and goes when it cannot be
-- applied any more; what it said stays. So may its bundle, which is why that is no foreign key.
CREATE TABLE plan (
    id          INTEGER NOT NULL PRIMARY KEY,
    root        TEXT    NOT NULL,
    request     TEXT    NOT NULL REFERENCES request (id),
    bundle      BLOB    NOT NULL CHECK (length(bundle) = 32),
    inputs      BLOB    NOT NULL CHECK (length(inputs) = 32),
    lineage     TEXT    NOT NULL,
    serial      INTEGER NOT NULL CHECK (serial >= 0),
    digest      BLOB    NOT NULL CHECK (length(digest) = 32),
    bytes       BLOB,
    facts       TEXT    NOT NULL,
    diagnostics TEXT    NOT NULL,
    made_ms     INTEGER NOT NULL
) STRICT;
CREATE INDEX plan_of_root ON plan (root, id);

-- Every state of a root, each as soon as Terraform wrote it. Holds secrets in plain text.
CREATE TABLE state_version (
    id      INTEGER NOT NULL PRIMARY KEY,
    root    TEXT    NOT NULL,
    lineage TEXT    NOT NULL,
    serial  INTEGER NOT NULL CHECK (serial >= 0),
    bytes   BLOB    NOT NULL,
    request TEXT    REFERENCES request (id),
    made_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX state_of_root ON state_version (root, id);

-- What was applied to a root, in order.
CREATE TABLE applied_bundle (
    id         INTEGER NOT NULL PRIMARY KEY,
    root       TEXT    NOT NULL,
    bundle     BLOB    NOT NULL REFERENCES bundle (digest),
    request    TEXT    NOT NULL REFERENCES request (id),
    applied_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX applied_to_root ON applied_bundle (root, id);

-- A wish that waits, or waited, for humans. But for its state it never changes.
CREATE TABLE approval (
    id            TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 12),
    root          TEXT    NOT NULL,
    plan          INTEGER NOT NULL REFERENCES plan (id),
    request       TEXT    NOT NULL REFERENCES request (id),
    principal     TEXT    NOT NULL,
    principal_uid INTEGER,
    action        TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    client        TEXT    NOT NULL,
    binding       TEXT    NOT NULL,
    digest        BLOB    NOT NULL CHECK (length(digest) = 32),
    quorum        INTEGER NOT NULL CHECK (quorum >= 1),
    summary       TEXT    NOT NULL,
    dangers       INTEGER NOT NULL,
    confirm       TEXT    NOT NULL,
    shown         TEXT    NOT NULL,
    state         TEXT    NOT NULL
        CHECK (state IN ('pending', 'granted', 'consumed', 'denied', 'expired', 'cancelled')),
    cause         TEXT    CHECK (cause IN ('time-up', 'clock-set-back')),
    used_by       TEXT    UNIQUE REFERENCES request (id),
    opened_ms     INTEGER NOT NULL,
    expires_ms    INTEGER NOT NULL,
    seen_ms       INTEGER NOT NULL,
    ended_ms      INTEGER,
    CHECK (expires_ms > opened_ms),
    CHECK ((state IN ('pending', 'granted')) = (ended_ms IS NULL)),
    CHECK ((state = 'consumed') = (used_by IS NOT NULL)),
    CHECK ((state = 'expired') = (cause IS NOT NULL))
) STRICT;
-- One open approval a root: nothing may take the place of what a human is reading.
CREATE UNIQUE INDEX approval_open ON approval (root) WHERE state IN ('pending', 'granted');
CREATE INDEX approval_ended ON approval (ended_ms) WHERE ended_ms IS NOT NULL;

-- An end stays, and what was approved stays what it was, whoever writes here.
CREATE TRIGGER approval_end_stays BEFORE UPDATE ON approval
    WHEN OLD.state NOT IN ('pending', 'granted')
    BEGIN SELECT RAISE(ABORT, 'the approval has ended'); END;
CREATE TRIGGER approval_terms_stay
    BEFORE UPDATE OF id, root, plan, request, principal, principal_uid, action, binding, digest, quorum,
        confirm, opened_ms, expires_ms ON approval
    BEGIN SELECT RAISE(ABORT, 'what an approval is for never changes'); END;

-- What people said of an approval, late ones too. Only ever added to.
CREATE TABLE verdict (
    id       INTEGER NOT NULL PRIMARY KEY,
    approval TEXT    NOT NULL REFERENCES approval (id),
    approver TEXT    NOT NULL,
    uid      INTEGER NOT NULL,
    said     TEXT    NOT NULL CHECK (said IN ('yes', 'no')),
    reason   TEXT    NOT NULL,
    void     TEXT    CHECK (void IN
        ('after-expiry', 'after-denial', 'after-cancel', 'after-use', 'counts-already')),
    time_ms  INTEGER NOT NULL
) STRICT;
CREATE INDEX verdict_of_approval ON verdict (approval, id);
