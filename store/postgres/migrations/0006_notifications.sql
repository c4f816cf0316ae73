-- A version with receivers has its runs watched.
ALTER TABLE voidbox.versions ADD COLUMN is_notifying boolean NOT NULL DEFAULT false;

-- A run whose events make notifications; its row is deleted after the end of the run. `state` and `failure` are JSON as
-- text, because `jsonb` refuses NUL and lone surrogates.
CREATE TABLE voidbox.watched_runs (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(run_id) BETWEEN 1 AND 8192),
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  version integer NOT NULL CHECK (version >= 1),
  trigger text COLLATE "C" NOT NULL CHECK (octet_length(trigger) BETWEEN 1 AND 1024),
  delivery text COLLATE "C" NOT NULL CHECK (octet_length(delivery) BETWEEN 1 AND 255),
  started_at_ms bigint NOT NULL,
  -- The reason why the run could not start.
  failure text CHECK (octet_length(failure) <= 65536),
  state text NOT NULL CHECK (octet_length(state) <= 4194304),
  revision integer NOT NULL CHECK (revision >= 0)
);

-- Deployments whose last run with an end has failed.
CREATE TABLE voidbox.failing_deployments (
  deployment text COLLATE "C" PRIMARY KEY CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  failed_at_ms bigint NOT NULL
);

CREATE TABLE voidbox.notifications (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(id) BETWEEN 1 AND 255),
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  version integer NOT NULL CHECK (version >= 1),
  receiver text COLLATE "C" NOT NULL CHECK (octet_length(receiver) BETWEEN 1 AND 1024),
  kind text NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 32),
  run_id text COLLATE "C" CHECK (octet_length(run_id) <= 8192),
  message text NOT NULL CHECK (octet_length(message) <= 262144),
  created_at_ms bigint NOT NULL,
  state text NOT NULL CHECK (state IN ('waiting', 'sent', 'dead')),
  due_at_ms bigint,
  tries integer NOT NULL CHECK (tries >= 0),
  code text CHECK (octet_length(code) <= 255),
  problem text CHECK (octet_length(problem) <= 8192),
  sent_at_ms bigint,
  -- The process that sends it.
  claim text COLLATE "C" CHECK (octet_length(claim) <= 255),
  lease_until_ms bigint,
  CHECK ((due_at_ms IS NOT NULL) = (state = 'waiting')),
  CHECK ((sent_at_ms IS NOT NULL) = (state = 'sent')),
  CHECK ((claim IS NULL) = (lease_until_ms IS NULL))
);

CREATE INDEX notifications_due ON voidbox.notifications (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX notifications_of_deployment ON voidbox.notifications (deployment, seq);
CREATE INDEX notifications_by_time ON voidbox.notifications (created_at_ms);
