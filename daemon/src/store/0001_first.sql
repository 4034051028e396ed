-- One principal's wish to run one action. It never changes once stored, but for its end.
CREATE TABLE request (
    id              TEXT    NOT NULL PRIMARY KEY,
    principal       TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    parameters      TEXT    NOT NULL,
    idempotency_key TEXT,
    state           TEXT    NOT NULL CHECK (state IN ('running', 'ended')),
    outcome         TEXT    CHECK (outcome IN ('succeeded', 'failed', 'denied', 'cancelled', 'unknown')),
    opened_ms       INTEGER NOT NULL,
    ended_ms        INTEGER,
    CHECK ((state = 'ended') = (outcome IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX request_key ON request (principal, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX request_running ON request (id) WHERE state = 'running';

-- A credential that was asked for. `asked` comes before Vault hears of it, `child` before the
-- credential itself is asked for: from then on revoking the accessor ends whatever was issued.
CREATE TABLE lease (
    id              INTEGER NOT NULL PRIMARY KEY,
    request         TEXT    NOT NULL REFERENCES request (id),
    mount           TEXT    NOT NULL,
    role            TEXT    NOT NULL,
    namespace       TEXT    NOT NULL,
    state           TEXT    NOT NULL CHECK (state IN ('asked', 'child', 'issued', 'revoked', 'closed')),
    accessor        TEXT,
    lease_id        TEXT,
    service_account TEXT,
    asked_ms        INTEGER NOT NULL,
    closed_ms       INTEGER
) STRICT;
CREATE INDEX lease_open ON lease (id) WHERE state <> 'closed';

-- A Job that was created or is about to be. Spares have no request.
CREATE TABLE job (
    name            TEXT    NOT NULL PRIMARY KEY,
    request         TEXT    REFERENCES request (id),
    state           TEXT    NOT NULL CHECK (state IN ('open', 'deleted')),
    created_ms      INTEGER NOT NULL,
    deleted_ms      INTEGER
) STRICT;
CREATE INDEX job_open ON job (name) WHERE state = 'open';
