-- A link has a row once it is used, or while an answer with it is on its way. The row has the hash of the link only.
CREATE TABLE voidbox.approval_links (
  hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
  -- The answer on its way.
  claim text COLLATE "C" CHECK (octet_length(claim) <= 255),
  lease_until_ms bigint,
  used_at_ms bigint,
  expires_at_ms bigint NOT NULL,
  CHECK ((claim IS NULL) = (lease_until_ms IS NULL)),
  CHECK ((claim IS NULL) <> (used_at_ms IS NULL))
);

CREATE INDEX approval_links_by_time ON voidbox.approval_links (expires_at_ms);
