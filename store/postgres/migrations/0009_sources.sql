-- An event of a source that the service reads. Each starts one delivery, also after its delivery is deleted.
CREATE TABLE voidbox.source_events (
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  trigger text COLLATE "C" NOT NULL CHECK (octet_length(trigger) BETWEEN 1 AND 1024),
  place text COLLATE "C" NOT NULL CHECK (octet_length(place) = 64),
  content text COLLATE "C" NOT NULL CHECK (octet_length(content) BETWEEN 1 AND 64),
  state text COLLATE "C" NOT NULL CHECK (octet_length(state) <= 255),
  -- NULL: it started nothing.
  delivery text COLLATE "C" CHECK (octet_length(delivery) <= 255),
  seen_at_ms bigint NOT NULL,
  PRIMARY KEY (deployment, trigger, place, content)
);

CREATE INDEX source_events_by_time ON voidbox.source_events (seen_at_ms);

-- The triggers of enabled versions whose source the service reads. The place is NULL until it has begun.
CREATE TABLE voidbox.sources (
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  trigger text COLLATE "C" NOT NULL CHECK (octet_length(trigger) BETWEEN 1 AND 1024),
  place text COLLATE "C" CHECK (octet_length(place) <= 8192),
  since_ms bigint,
  problem_code text CHECK (octet_length(problem_code) <= 255),
  problem_message text CHECK (octet_length(problem_message) <= 8192),
  problem_since_ms bigint,
  PRIMARY KEY (deployment, trigger),
  CHECK ((place IS NULL) = (since_ms IS NULL)),
  CHECK (num_nulls(problem_code, problem_message, problem_since_ms) IN (0, 3))
);
