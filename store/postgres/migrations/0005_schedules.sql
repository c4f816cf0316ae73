-- The time of a schedule that a delivery is for.
ALTER TABLE voidbox.deliveries
  ADD COLUMN scheduled_at_ms bigint,
  ADD COLUMN is_overtaken boolean,
  ADD COLUMN is_asked boolean,
  ADD CHECK (num_nulls(scheduled_at_ms, is_overtaken, is_asked) IN (0, 3));

CREATE INDEX deliveries_waiting_for_schedule ON voidbox.deliveries (deployment, trigger, scheduled_at_ms, seq)
  WHERE hold = 'overlap';

-- A schedule that a person has paused. A second version of its deployment keeps the pause.
CREATE TABLE voidbox.schedule_pauses (
  deployment text COLLATE "C" NOT NULL REFERENCES voidbox.deployments (name),
  trigger text COLLATE "C" NOT NULL CHECK (octet_length(trigger) BETWEEN 1 AND 1024),
  note text NOT NULL CHECK (octet_length(note) <= 8192),
  paused_at_ms bigint NOT NULL,
  PRIMARY KEY (deployment, trigger)
);

-- Names the schedules of this database on a server of Temporal that several databases may share.
CREATE TABLE voidbox.schedule_owner (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  id text NOT NULL CHECK (id ~ '^[0-9a-f]{16}$')
);
INSERT INTO voidbox.schedule_owner (id)
  VALUES (substr(md5(gen_random_uuid()::text || clock_timestamp()::text), 1, 16));
