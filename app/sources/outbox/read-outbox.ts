/**
 * Reads the outbox of a trigger: claims its new rows, commits a delivery for each, and marks the rows. A service that
 * dies between both finds the rows again, and their deliveries too.
 */
import { createHash } from 'node:crypto';
import type { AllowedSources } from '../../../client/embedded/allowed-sources.ts';
import { MOST_PAYLOAD_BYTES } from '../../../domain/delivery/delivery.ts';
import { parseOutboxTable } from '../../../domain/delivery/outbox-table.ts';
import type { OutboxSource } from '../../../domain/delivery/trigger.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { findRowProblem, MOST_ROW_ID, type OutboxRow } from '../../../domain/sources/outbox-row.ts';
import { writeClaimSql, writeMarkSql } from '../../../domain/sources/outbox-sql.ts';
import { showPath } from '../../../domain/sources/file-rules.ts';
import type { TriggerStore } from '../../../store/triggers.ts';
import { AppError } from '../../app-error.ts';
import { acceptOnce } from '../../deliveries/accept.ts';
import type { EnabledSource } from '../enabled-sources.ts';
import { type Loop, startLoop } from '../../loop.ts';
import type { ProblemLog, SourceFault } from '../problem-log.ts';
import { isAllowedHost, parseOutboxAddress } from './outbox-address.ts';
import { connectOutbox, type OutboxDatabase, OutboxFault, type SendSql } from './outbox-database.ts';

/** The rows of one transaction. Their payloads are in memory together. */
export const OUTBOX_ROWS = 20;
/** Another value of the secret counts after this time. */
const SECRET_MS = 60_000;
const LEAST_MS = 100;
const FIRST_FAILURE_MS = 1_000;
const MOST_FAILURE_MS = 60_000;
/** The content of each row: its place says which one it is. */
const ROW = 'row';

export interface OutboxTools {
  readonly openTriggers: () => Promise<Pick<TriggerStore, 'sources'>>;
  /** @throws SetupError */
  readonly readAllowed: () => AllowedSources;
  /** Returns the values of secrets of the deployment, by name. */
  readonly readSecrets: (deployment: string, names: readonly string[]) => Promise<Readonly<Record<string, string>>>;
  readonly problems: ProblemLog;
  readonly nowMs: () => number;
  readonly wake: () => void;
}

export function readOutbox(enabled: EnabledSource<OutboxSource>, tools: OutboxTools): Loop {
  const { source } = enabled;
  const connection = createConnection(enabled, tools, () => loop.wake());
  let failures = 0;
  const loop = startLoop({
    leastMs: LEAST_MS,
    async scan(signal) {
      try {
        const database = await connection.open();
        const { sources } = await tools.openTriggers();
        let hasMore = true;
        while (hasMore && !signal.aborted) hasMore = await readRows(database, enabled, { ...tools, sources });
        failures = 0;
        await tools.problems.report(null);
        return source.everyMs;
      } catch (error) {
        await connection.close();
        if (!signal.aborted) await tools.problems.report(describeFault(error));
        failures += 1;
        return Math.min(MOST_FAILURE_MS, FIRST_FAILURE_MS * 2 ** (failures - 1));
      }
    },
  });
  return {
    wake: loop.wake,
    async close() {
      await loop.close();
      await connection.close();
    },
  };
}

interface Connection {
  /** @throws OutboxFault, AppError and CodedError of secrets */
  open(): Promise<OutboxDatabase>;
  close(): Promise<void>;
}

/** One connection, which begins again after a loss or with another value of the secret. */
function createConnection(
  { id, source }: EnabledSource<OutboxSource>,
  { readSecrets, readAllowed, nowMs }: OutboxTools,
  onNotify: () => void,
): Connection {
  let open: { readonly database: OutboxDatabase; readonly value: string; readAtMs: number } | null = null;
  const names = source.ca === null ? [source.secret] : [source.secret, source.ca];
  const close = async (): Promise<void> => {
    const closing = open;
    open = null;
    await closing?.database.close();
  };
  return {
    close,
    async open() {
      if (open?.database.isLost() === true) await close();
      if (open !== null && Math.abs(nowMs() - open.readAtMs) < SECRET_MS) return open.database;
      const values = await readSecrets(id.deployment, names);
      const absent = names.find((name) => values[name] === undefined);
      if (absent !== undefined) throw new OutboxFault('source/bad-secret', `the secret ${absent} does not exist`);
      const address = parseOutboxAddress(values[source.secret]!);
      if (typeof address === 'string')
        throw new OutboxFault(
          'source/bad-secret',
          `the secret ${source.secret} is no address of a database: ${address}`,
        );
      if (!isAllowedHost(address, readAllowed().outbox))
        throw new OutboxFault(
          'source/not-allowed',
          `the operator of the service does not allow the server of ${source.secret}`,
        );
      const value = JSON.stringify(names.map((name) => values[name]));
      if (open !== null && open.value !== value) await close();
      const ca = source.ca === null ? null : values[source.ca]!;
      const database = open?.database ?? (await connectOutbox(address, { ca, onNotify }));
      open = { database, value, readAtMs: nowMs() };
      return database;
    },
  };
}

interface StoredRow {
  readonly part: string;
  readonly place: string;
  readonly id: string | null;
  readonly created_at: string | null;
  readonly bytes: number | null;
  readonly payload: string | null;
}

interface Mark {
  readonly row: StoredRow;
  readonly state: 'done' | 'refused';
  readonly delivery: string | null;
  readonly error: string | null;
}

type RowTools = OutboxTools & Pick<TriggerStore, 'sources'>;

/** @returns whether more rows may wait */
async function readRows(
  database: OutboxDatabase,
  enabled: EnabledSource<OutboxSource>,
  tools: RowTools,
): Promise<boolean> {
  const table = parseOutboxTable(enabled.source.table)!;
  return await database.runTransaction(async (send) => {
    const rows = (await send(writeClaimSql(table), [MOST_PAYLOAD_BYTES, OUTBOX_ROWS])) as readonly StoredRow[];
    const marks: Mark[] = [];
    let failure: unknown = null;
    for (const row of rows.slice(0, OUTBOX_ROWS))
      try {
        marks.push(await acceptRow(row, enabled, tools));
      } catch (error) {
        // Rows before it have their deliveries, and are marked.
        failure = error;
        break;
      }
    if (marks.length > 0) await markRows(send, writeMarkSql(table), marks);
    if (marks.length === 0 && failure !== null) throw failure;
    return rows.length === OUTBOX_ROWS || failure !== null;
  });
}

async function markRows(send: SendSql, sql: string, marks: readonly Mark[]): Promise<void> {
  await send(sql, [
    marks.map(({ row }) => row.part),
    marks.map(({ row }) => row.place),
    marks.map(({ state }) => state),
    marks.map(({ delivery }) => delivery),
    marks.map(({ error }) => error),
  ]);
}

async function acceptRow(stored: StoredRow, enabled: EnabledSource<OutboxSource>, tools: RowTools): Promise<Mark> {
  const { id, version, isOrdered, source } = enabled;
  const row: OutboxRow = {
    id: stored.id ?? '',
    createdAt: stored.created_at ?? '',
    payload: stored.payload,
    payloadBytes: stored.bytes ?? 0,
  };
  const problem = findRowProblem(row);
  const shown = showPath(row.id).slice(0, MOST_ROW_ID);
  const message = `the row ${shown} of ${source.table}: ${problem}`;
  // Ids begin again after a table was emptied, and times do not.
  const place = createHash('sha256')
    .update(JSON.stringify([source.table, row.id, row.createdAt]))
    .digest('hex');
  const { delivery } = await acceptOnce(
    { ...id, place, content: ROW, state: '' },
    {
      ...id,
      version,
      isOrdered,
      contentType: 'application/json',
      headers: { 'outbox-id': shown, 'outbox-table': source.table },
      body: Buffer.from(problem === null ? row.payload! : JSON.stringify({ id: shown, problem })),
      senderId: place,
      ...(problem === null ? {} : { refusal: { code: 'trigger/refused-row', message } }),
    },
    tools,
  );
  return { row: stored, state: problem === null ? 'done' : 'refused', delivery, error: problem };
}

function describeFault(error: unknown): SourceFault {
  if (error instanceof OutboxFault) return { code: error.code, message: `the outbox: ${error.message}` };
  const detail = (error as Error).message;
  if (error instanceof AppError)
    return { code: error.code, message: 'the secrets of the deployment cannot be read', detail };
  if (isCodedError(error)) return { code: error.code, message: 'the service cannot store a delivery', detail };
  return { code: 'source/unavailable', message: 'the outbox cannot be read', detail };
}
