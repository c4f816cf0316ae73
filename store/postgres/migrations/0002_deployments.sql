-- A deployment that was deleted keeps its row, so that its numbers of versions continue.
CREATE TABLE voidbox.deployments (
  name text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 63),
  version integer NOT NULL CHECK (version >= 1),
  is_paused boolean NOT NULL,
  on_pause text NOT NULL CHECK (on_pause IN ('hold', 'drop')),
  created_at_ms bigint NOT NULL,
  changed_at_ms bigint NOT NULL,
  deleted_at_ms bigint
);

-- `facts` is the JSON of a version. It is a text, because `jsonb` refuses NUL and lone surrogates.
CREATE TABLE voidbox.versions (
  deployment text COLLATE "C" NOT NULL REFERENCES voidbox.deployments (name),
  version integer NOT NULL CHECK (version >= 1),
  created_at_ms bigint NOT NULL,
  deployer text COLLATE "C" CHECK (octet_length(deployer) <= 1024),
  folder text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(folder) BETWEEN 1 AND 255),
  hash text NOT NULL CHECK (octet_length(hash) = 64),
  facts text NOT NULL CHECK (octet_length(facts) <= 8388608),
  PRIMARY KEY (deployment, version)
);
