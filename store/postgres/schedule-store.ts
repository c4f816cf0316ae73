import type { SchedulePause, ScheduleStore } from '../triggers.ts';
import type { Database } from './database.ts';
import { cutStoredText, fromStoredText, toStoredText } from './stored-text.ts';

const NOTE_BYTES = 8_192;

interface StoredPause {
  readonly deployment: string;
  readonly trigger: string;
  readonly note: string;
  /** `bigint` arrives as a text. */
  readonly paused_at_ms: string;
}

export function createPostgresSchedules(database: Database): ScheduleStore {
  return {
    async findOwner() {
      const [row] = await database.send('SELECT id FROM voidbox.schedule_owner', [], true);
      return (row as { readonly id: string }).id;
    },
    async listPauses() {
      const rows = await database.send(
        'SELECT deployment, trigger, note, paused_at_ms FROM voidbox.schedule_pauses ORDER BY deployment, trigger',
        [],
        true,
      );
      return rows.map((row) => readPause(row as StoredPause));
    },
    async pause({ deployment, trigger, note, pausedAtMs }) {
      const rows = await database.send(
        `INSERT INTO voidbox.schedule_pauses (deployment, trigger, note, paused_at_ms)
         SELECT name, $2, $3, $4 FROM voidbox.deployments WHERE name = $1 AND deleted_at_ms IS NULL
         ON CONFLICT (deployment, trigger) DO UPDATE SET note = excluded.note RETURNING deployment`,
        [toStoredText(deployment), toStoredText(trigger), cutStoredText(note, NOTE_BYTES), pausedAtMs],
        true,
      );
      return rows.length > 0;
    },
    async resume({ deployment, trigger }) {
      const rows = await database.send(
        'DELETE FROM voidbox.schedule_pauses WHERE deployment = $1 AND trigger = $2 RETURNING deployment',
        [toStoredText(deployment), toStoredText(trigger)],
        true,
      );
      return rows.length > 0;
    },
  };
}

function readPause(row: StoredPause): SchedulePause {
  return {
    deployment: fromStoredText(row.deployment),
    trigger: fromStoredText(row.trigger),
    note: fromStoredText(row.note),
    pausedAtMs: Number(row.paused_at_ms),
  };
}
