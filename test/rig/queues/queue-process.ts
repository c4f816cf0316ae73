/**
 * A process that reads a queue of NATS into PostgreSQL until it is killed, as a service does. It prints a line after
 * each committed delivery, and at SIGTERM it ends as a service ends.
 */
import { openNats } from '../../../app/sources/queue/nats/open-nats.ts';
import { keepQueue } from '../../../app/sources/queue/keep-queue.ts';
import { openAccess } from '../../../store/open-access.ts';
import { ACK_WAIT_MS, makeNats } from '../../conformance/queues.ts';

const { place, migrationsDir, server } = JSON.parse(process.argv[2]!) as {
  readonly place: string;
  readonly migrationsDir: string;
  readonly server: string;
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
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
const report = (step: string): void => void process.stdout.write(`${step}\n`);
const kept = keepQueue(
  { deployment: 'review', version: 1, trigger: 'queue', isOrdered: false, maxDeliver: 1_000 },
  {
    deliveries,
    nowMs: Date.now,
    wake: () => report('accepted'),
    log: () => undefined,
    open: openNats,
    prepare: () => Promise.resolve({ nats: makeNats(server), secrets: {}, clientName: 'test', ackWaitMs: ACK_WAIT_MS }),
    signal: stop.signal,
    countOpen: async (most) => await deliveries.countOpen('review', 'queue', most),
    mayRead: () => true,
    keepLimits: { firstPauseMs: 50, mostPauseMs: 200, calmMs: 60_000 },
  },
);
report('ready');
await kept.ended;
await access.close();
