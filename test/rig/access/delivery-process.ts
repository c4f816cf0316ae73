/**
 * A process that decides about deliveries until it is killed. A run starts by making a file with its id, which fails if
 * the file exists, as a start with a taken id does. It prints a line after each of its steps. Each seventeenth delivery fails at its first try.
 */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDecide } from '../../../domain/delivery/decide.ts';
import type { DeliveryKeys } from '../../../domain/delivery/delivery.ts';
import { openAccess } from '../../../store/open-access.ts';
import type { DeliveryResult, DeliveryRow } from '../../../store/triggers.ts';
import { KILLED_TRIGGERS } from './killed-triggers.ts';

const { place, migrationsDir, runsDir, leaseMs } = JSON.parse(process.argv[2]!) as {
  readonly place: string;
  readonly migrationsDir: string;
  readonly runsDir: string;
  readonly leaseMs: number;
};

const access = await openAccess({
  target: { kind: 'url', place },
  migrationsDir,
  migrate: false,
  recover: () => Promise.resolve(),
  retryForMs: 0,
  warn: () => undefined,
});
const { deliveries } = access.triggers;
report('ready');

for (;;) {
  const token = randomUUID();
  const claimed = await deliveries.claim({ token, nowMs: Date.now(), leaseMs, limit: 4 });
  if (claimed.length > 0) report('claimed');
  await Promise.all(claimed.map((row) => work(row, token)));
  if (claimed.length === 0) await sleep(20);
}

async function work(row: DeliveryRow, token: string): Promise<void> {
  const trigger = KILLED_TRIGGERS.find(({ name }) => name === row.trigger)!;
  const group = row.senderId!.charAt(0);
  const keys: DeliveryKeys = {
    dedupe: row.senderId,
    debounce: trigger.debounce === null ? null : group,
    batch: trigger.batch === null ? null : group,
    rate: null,
    order: trigger.order === null ? null : group,
  };
  const decide = createDecide({ trigger, evaluation: { holds: true, params: {}, input: null, keys } });
  const claim = { id: row.id, token };
  const decided = await deliveries.decide({ ...claim, nowMs: Date.now(), leaseMs, trigger, keys, decide });
  report('decided');
  if (decided?.state !== 'starting') return;
  const result = startRun(decided);
  report('started');
  await deliveries.record(claim, result, Date.now());
  report('recorded');
}

/** A pipe gets the line before the next step begins. */
function report(step: string): void {
  process.stdout.write(`${step}\n`);
}

function startRun({ runId, tries, seq }: DeliveryRow): DeliveryResult {
  if (tries === 0 && seq % 17 === 0) return { kind: 'failed', code: 'api/bug', message: 'no answer' };
  try {
    writeFileSync(join(runsDir, runId!), '', { flag: 'wx' });
  } catch (error) {
    // An earlier try, whose process was killed, has started it.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return { kind: 'started' };
}
