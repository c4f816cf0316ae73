/**
 * A process that records the ends of all open runs until it is killed. Each has failed, and each end makes deliveries
 * of the triggers that follow it. It prints a line before and after each of its transactions.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { openAccess } from '../../../store/open-access.ts';

const { place, migrationsDir } = JSON.parse(process.argv[2]!) as {
  readonly place: string;
  readonly migrationsDir: string;
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
process.stdout.write('ready\n');

for (;;) {
  const open = await deliveries.listOpenRuns(8);
  await Promise.all(
    open.map(async ({ id, runId }) => {
      process.stdout.write('begins\n');
      const body = Buffer.from(JSON.stringify({ run: runId }));
      const event = { state: 'failed', body } as const;
      await deliveries.recordRunEnd({ id, event, nowMs: Date.now(), createId: () => randomUUID() });
      process.stdout.write('recorded\n');
    }),
  );
  if (open.length === 0) await sleep(10);
}
