-- The deployments whose runs the triggers of a version follow. A version never changes, and so do its links.
CREATE TABLE voidbox.links (
  deployment text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  upstream text COLLATE "C" NOT NULL CHECK (octet_length(upstream) BETWEEN 1 AND 63),
  PRIMARY KEY (deployment, version, upstream),
  FOREIGN KEY (deployment, version) REFERENCES voidbox.versions (deployment, version)
);

CREATE INDEX links_by_upstream ON voidbox.links (upstream);

-- The run whose end is the event, as JSON. NULL: another event.
ALTER TABLE voidbox.deliveries ADD COLUMN upstream text CHECK (octet_length(upstream) <= 65536);
