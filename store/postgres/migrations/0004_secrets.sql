-- A value is encrypted before it gets here: `sealed` has its nonce (12 bytes), its encrypted bytes and their tag (16).
-- An empty deployment is all of them. A deployment may have secrets before it exists.
CREATE TABLE voidbox.secrets (
  name text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 256),
  deployment text COLLATE "C" NOT NULL CHECK (octet_length(deployment) <= 63),
  key_id text NOT NULL CHECK (octet_length(key_id) = 16),
  sealed bytea NOT NULL CHECK (octet_length(sealed) BETWEEN 29 AND 65564),
  previous_key_id text CHECK (octet_length(previous_key_id) = 16),
  previous bytea CHECK (octet_length(previous) BETWEEN 29 AND 65564),
  previous_until_ms bigint,
  created_at_ms bigint NOT NULL,
  changed_at_ms bigint NOT NULL,
  PRIMARY KEY (name, deployment),
  CHECK (num_nulls(previous_key_id, previous, previous_until_ms) IN (0, 3))
);
