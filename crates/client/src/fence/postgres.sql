-- Fencing in PostgreSQL: the newest token of each resource, and a function that refuses older ones.
-- May be run again at any time.

CREATE TABLE IF NOT EXISTS fencing_gate (
    resource text PRIMARY KEY,
    token    bigint NOT NULL DEFAULT 0 CHECK (token >= 0)
);

-- Call it first in every transaction that writes. It fails, and the transaction with it, if a newer
-- token is in force (TN409) or the resource has no row (TN404). While the transaction lasts, nobody
-- with a newer token comes in; others with the same token do.
CREATE OR REPLACE FUNCTION fencing_enter(of_resource text, with_token bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    in_force bigint;
BEGIN
    PERFORM FROM fencing_gate WHERE resource = of_resource AND token = with_token FOR SHARE;
    IF FOUND THEN
        RETURN;
    END IF;
    -- A newer token has to wait for older transactions, and must see what they have written. With
    -- one snapshot for the whole transaction it would not.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'raise the gate of % in a transaction of its own, at READ COMMITTED', of_resource
            USING ERRCODE = 'TN412';
    END IF;
    UPDATE fencing_gate SET token = with_token WHERE resource = of_resource AND token <= with_token;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT token INTO in_force FROM fencing_gate WHERE resource = of_resource;
    IF in_force IS NULL THEN
        RAISE EXCEPTION 'no gate for %', of_resource USING ERRCODE = 'TN404';
    END IF;
    RAISE EXCEPTION 'fencing token % is stale: token % is in force', with_token, in_force
        USING ERRCODE = 'TN409';
END
$$;

-- As a trigger on a table, for those who might forget: a statement that changes the table fails unless
-- the transaction has said SET LOCAL fencing.token = '…' (TN428), and that token is admitted.
CREATE OR REPLACE FUNCTION fencing_required() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    shown text := current_setting('fencing.token', true);
BEGIN
    IF coalesce(shown, '') = '' THEN
        RAISE EXCEPTION 'a change of % needs a fencing token', TG_TABLE_NAME USING ERRCODE = 'TN428';
    END IF;
    PERFORM fencing_enter(TG_ARGV[0], shown::bigint);
    RETURN NULL;
END
$$;
