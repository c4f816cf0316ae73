-- A delivery is open as long as it is due at some time. Its body is NULL after seven days.
CREATE TABLE voidbox.deliveries (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(id) BETWEEN 1 AND 255),
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  version integer NOT NULL CHECK (version >= 1),
  trigger text COLLATE "C" NOT NULL CHECK (octet_length(trigger) BETWEEN 1 AND 1024),
  accepted_at_ms bigint NOT NULL,
  sender_id text COLLATE "C" CHECK (octet_length(sender_id) <= 131072),
  content_type text NOT NULL CHECK (octet_length(content_type) <= 131072),
  -- JSON, which escapes NUL and lone surrogates.
  headers text NOT NULL CHECK (octet_length(headers) <= 262144),
  traceparent text CHECK (octet_length(traceparent) <= 131072),
  cloud_event text CHECK (octet_length(cloud_event) <= 262144),
  replay_of text COLLATE "C" CHECK (octet_length(replay_of) <= 255),
  not_before_ms bigint,
  expires_at_ms bigint,
  params text NOT NULL CHECK (octet_length(params) <= 8388608),
  body bytea CHECK (octet_length(body) <= 1048576),
  body_sha256 text NOT NULL CHECK (octet_length(body_sha256) = 64),
  body_bytes integer NOT NULL CHECK (body_bytes BETWEEN 0 AND 1048576),
  state text NOT NULL CHECK (state IN ('accepted', 'held', 'starting', 'started', 'deduplicated', 'filtered', 'merged', 'refused', 'failed')),
  hold text CHECK (octet_length(hold) <= 32),
  due_at_ms bigint,
  passed text NOT NULL CHECK (octet_length(passed) <= 32),
  is_decided boolean NOT NULL,
  dedupe_key text COLLATE "C" CHECK (octet_length(dedupe_key) <= 1536),
  debounce_key text COLLATE "C" CHECK (octet_length(debounce_key) <= 1536),
  batch_key text COLLATE "C" CHECK (octet_length(batch_key) <= 1536),
  rate_key text COLLATE "C" CHECK (octet_length(rate_key) <= 1536),
  order_key text COLLATE "C" CHECK (octet_length(order_key) <= 1536),
  owns_key boolean NOT NULL,
  group_id text COLLATE "C" CHECK (octet_length(group_id) <= 255),
  group_first_at_ms bigint,
  group_last_at_ms bigint,
  group_count integer,
  group_bytes bigint,
  run_id text COLLATE "C" CHECK (octet_length(run_id) <= 8192),
  run_ended_at_ms bigint,
  into_id text COLLATE "C" CHECK (octet_length(into_id) <= 255),
  code text CHECK (octet_length(code) <= 255),
  message text CHECK (octet_length(message) <= 8192),
  tries integer NOT NULL CHECK (tries >= 0),
  decided_at_ms bigint,
  -- The process that works on it.
  claim text COLLATE "C" CHECK (octet_length(claim) <= 255),
  lease_until_ms bigint,
  CHECK ((due_at_ms IS NOT NULL) = (state IN ('accepted', 'held', 'starting'))),
  CHECK ((hold IS NOT NULL) = (state = 'held')),
  CHECK ((claim IS NULL) = (lease_until_ms IS NULL)),
  CHECK (num_nulls(group_id, group_first_at_ms, group_last_at_ms, group_count, group_bytes) IN (0, 5))
);

CREATE INDEX deliveries_due ON voidbox.deliveries (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX deliveries_of_deployment ON voidbox.deliveries (deployment, seq);
CREATE INDEX deliveries_open ON voidbox.deliveries (deployment, trigger, seq) WHERE due_at_ms IS NOT NULL;
CREATE INDEX deliveries_of_owner ON voidbox.deliveries (deployment, trigger, dedupe_key, accepted_at_ms) WHERE owns_key;
CREATE INDEX deliveries_leading ON voidbox.deliveries (deployment, trigger, coalesce(debounce_key, batch_key), seq)
  WHERE due_at_ms IS NOT NULL AND group_id IS NOT NULL AND passed = 'dedupe';
CREATE INDEX deliveries_in_order ON voidbox.deliveries (deployment, trigger, order_key, seq) WHERE due_at_ms IS NOT NULL;
CREATE INDEX deliveries_waiting_for_room ON voidbox.deliveries (deployment, seq) WHERE hold = 'open-runs';
CREATE INDEX deliveries_running ON voidbox.deliveries (deployment, seq) WHERE state = 'started' AND run_ended_at_ms IS NULL;
CREATE INDEX deliveries_of_group ON voidbox.deliveries (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX deliveries_with_body ON voidbox.deliveries (accepted_at_ms) WHERE body IS NOT NULL;
CREATE INDEX deliveries_by_time ON voidbox.deliveries (accepted_at_ms);

-- A token bucket is the time by which all its tokens are back.
CREATE TABLE voidbox.buckets (
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) BETWEEN 1 AND 63),
  trigger text COLLATE "C" NOT NULL CHECK (octet_length(trigger) BETWEEN 1 AND 1024),
  key text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 1536),
  full_at_ms double precision NOT NULL,
  PRIMARY KEY (deployment, trigger, key)
);

CREATE INDEX buckets_by_time ON voidbox.buckets (full_at_ms);
