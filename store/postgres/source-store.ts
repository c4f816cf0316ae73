/** Sources that the service reads, in PostgreSQL. */
import {
  type SeenEvent,
  SOURCE_KEPT_MS,
  type SourceId,
  type SourceProblem,
  type SourceStore,
} from '../ports/sources.ts';
import type { Database, SendQuery } from './database.ts';
import { insertAccepted } from './delivery-acceptance.ts';
import { lockAcceptances } from './delivery-rows.ts';
import { cutStoredText, fromStoredText, toStoredText } from './stored-text.ts';

const MESSAGE_BYTES = 8_192;
/** The most rows that one statement of a sweep changes. */
const SWEEP_ROWS = 1_000;

const OF = 'deployment = $1 AND trigger = $2';

export function createPostgresSources(database: Database): SourceStore {
  const send: SendQuery = (text, values) => database.send(text, values, true);
  return {
    async begin(id, place, sinceMs) {
      const [row] = await send(
        `INSERT INTO voidbox.sources AS known (deployment, trigger, place, since_ms) VALUES ($1, $2, $3, $4)
         ON CONFLICT (deployment, trigger) DO UPDATE
           SET since_ms = CASE WHEN known.place = EXCLUDED.place THEN known.since_ms ELSE EXCLUDED.since_ms END,
               place = EXCLUDED.place
         RETURNING since_ms`,
        [...writeId(id), toStoredText(place), sinceMs],
      );
      return Number((row as { readonly since_ms: string }).since_ms);
    },
    keepOnly: async (ids) =>
      void (await send(
        `DELETE FROM voidbox.sources WHERE (deployment, trigger) NOT IN (SELECT * FROM unnest($1::text[], $2::text[]))`,
        [ids.map(({ deployment }) => toStoredText(deployment)), ids.map(({ trigger }) => toStoredText(trigger))],
      )),
    acceptOnce: async (event, delivery) =>
      await database.transact(async (write) => {
        const [added] = await write(
          `INSERT INTO voidbox.source_events (deployment, trigger, place, content, state, delivery, seen_at_ms)
           VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1`,
          [...writeEvent(event), toStoredText(delivery.id), delivery.acceptedAtMs],
        );
        if (added === undefined) return await findAccepted(write, event, delivery.id);
        if (delivery.isOrdered) await lockAcceptances(write, delivery);
        await insertAccepted(write, delivery);
        return { isNew: true, delivery: delivery.id };
      }, true),
    async skip(events, nowMs) {
      await send(
        `INSERT INTO voidbox.source_events (deployment, trigger, place, content, state, seen_at_ms)
         SELECT *, $6::bigint FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
         ON CONFLICT DO NOTHING`,
        [...[0, 1, 2, 3, 4].map((at) => events.map((event) => writeEvent(event)[at])), nowMs],
      );
    },
    async findSeen(id, places) {
      const rows = await send(
        `SELECT place, content, state FROM voidbox.source_events WHERE ${OF} AND place = ANY($3::text[])`,
        [...writeId(id), places],
      );
      return (rows as readonly SeenEvent[]).map(({ place, content, state }) => ({
        place,
        content,
        state: fromStoredText(state),
      }));
    },
    renew: async (id, events, nowMs) =>
      void (await send(
        `UPDATE voidbox.source_events AS known SET state = given.state, seen_at_ms = $6
           FROM unnest($3::text[], $4::text[], $5::text[]) AS given (place, content, state)
          WHERE ${OF} AND known.place = given.place AND known.content = given.content`,
        [
          ...writeId(id),
          events.map(({ place }) => place),
          events.map(({ content }) => content),
          events.map(({ state }) => toStoredText(state)),
          nowMs,
        ],
      )),
    report: async (id, problem, nowMs) =>
      void (await send(
        problem === null
          ? `UPDATE voidbox.sources SET problem_code = NULL, problem_message = NULL, problem_since_ms = NULL
              WHERE ${OF} AND problem_code IS NOT NULL`
          : `INSERT INTO voidbox.sources AS known (deployment, trigger, problem_code, problem_message, problem_since_ms)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (deployment, trigger) DO UPDATE
               SET problem_code = $3, problem_message = $4,
                   problem_since_ms = CASE WHEN known.problem_code = $3 THEN known.problem_since_ms ELSE $5 END`,
        problem === null
          ? writeId(id)
          : [...writeId(id), problem.code, cutStoredText(problem.message, MESSAGE_BYTES), nowMs],
      )),
    async listProblems(deployment) {
      const rows = await send(
        `SELECT trigger, problem_code, problem_message, problem_since_ms FROM voidbox.sources
          WHERE deployment = $1 AND problem_code IS NOT NULL ORDER BY trigger`,
        [toStoredText(deployment)],
      );
      return rows.map((row) => readProblem(deployment, row as StoredProblem));
    },
    async sweep(nowMs) {
      for (let length = SWEEP_ROWS; length === SWEEP_ROWS;)
        ({ length } = await send(
          `DELETE FROM voidbox.source_events WHERE (deployment, trigger, place, content) IN (
             SELECT deployment, trigger, place, content FROM voidbox.source_events
              WHERE seen_at_ms <= $1 ORDER BY seen_at_ms LIMIT ${SWEEP_ROWS} FOR UPDATE SKIP LOCKED) RETURNING 1`,
          [nowMs - SOURCE_KEPT_MS],
        ));
    },
  };
}

/** The transaction of a lost answer may have added the event with the same delivery. */
async function findAccepted(
  send: SendQuery,
  event: SourceId & SeenEvent,
  own: string,
): ReturnType<SourceStore['acceptOnce']> {
  const [row] = await send(
    `SELECT delivery FROM voidbox.source_events WHERE ${OF} AND place = $3 AND content = $4`,
    writeEvent(event).slice(0, 4),
  );
  const { delivery } = (row ?? { delivery: null }) as { readonly delivery: string | null };
  return { isNew: delivery === toStoredText(own), delivery: delivery === null ? null : fromStoredText(delivery) };
}

function writeId({ deployment, trigger }: SourceId): readonly string[] {
  return [toStoredText(deployment), toStoredText(trigger)];
}

function writeEvent(event: SourceId & SeenEvent): readonly string[] {
  return [...writeId(event), event.place, event.content, toStoredText(event.state)];
}

interface StoredProblem {
  readonly trigger: string;
  readonly problem_code: string;
  readonly problem_message: string;
  readonly problem_since_ms: string;
}

function readProblem(deployment: string, row: StoredProblem): SourceProblem {
  return {
    deployment,
    trigger: fromStoredText(row.trigger),
    code: row.problem_code,
    message: fromStoredText(row.problem_message),
    sinceMs: Number(row.problem_since_ms),
  };
}
