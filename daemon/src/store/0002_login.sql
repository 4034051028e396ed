-- A login to Vault. What its run asked for hangs from it, known here or not, and ends with it.
CREATE TABLE login (
    accessor  TEXT    NOT NULL PRIMARY KEY,
    opened_ms INTEGER NOT NULL
) STRICT;
