-- Times are milliseconds since 1970. Texts have the form of store/postgres/stored-text.ts. Names are ordered by bytes,
-- whatever the collation of the database is.
CREATE TABLE voidbox.tokens (
  name text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 1024),
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  scopes text[] NOT NULL CHECK (cardinality(scopes) BETWEEN 1 AND 16 AND pg_column_size(scopes) <= 4096),
  runs text[] NOT NULL CHECK (cardinality(runs) <= 1024 AND pg_column_size(runs) <= 1048576),
  groups text[] NOT NULL CHECK (cardinality(groups) <= 1024 AND pg_column_size(groups) <= 1048576),
  allow_git text[] NOT NULL CHECK (cardinality(allow_git) <= 1024 AND pg_column_size(allow_git) <= 1048576),
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  last_used_at_ms bigint,
  revoked_at_ms bigint
);

CREATE TABLE voidbox.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at_ms bigint NOT NULL,
  token text COLLATE "C" CHECK (octet_length(token) <= 1024),
  address text CHECK (octet_length(address) <= 8192),
  method text NOT NULL CHECK (octet_length(method) <= 8192),
  route text NOT NULL CHECK (octet_length(route) <= 8192),
  run_id text COLLATE "C" CHECK (octet_length(run_id) <= 8192),
  status integer NOT NULL,
  code text CHECK (octet_length(code) <= 8192)
);

CREATE INDEX audit_of_token ON voidbox.audit (token, id);

-- An index of the hash, because an entry of an index has 2,704 bytes at most.
CREATE INDEX audit_of_run ON voidbox.audit (md5(run_id), id);
