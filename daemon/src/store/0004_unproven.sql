-- Since when the end of a credential is overdue: it was to be proven, and was not.
ALTER TABLE lease ADD COLUMN unproven_ms INTEGER;
