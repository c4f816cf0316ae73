/** A process that sends notifications until it is killed. */
import { sendGuarded } from '../../../http/guarded-post.ts';
import { startSender } from '../../../app/notifications/send-due.ts';
import { openAccess } from '../../../store/open-access.ts';

const { place, migrationsDir, secret, leaseMs } = JSON.parse(process.argv[2]!) as {
  readonly place: string;
  readonly migrationsDir: string;
  readonly secret: string;
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

startSender({
  openTriggers: () => Promise.resolve(access.triggers),
  readSecretValues: () => Promise.resolve({ NOTIFY: secret }),
  createApprovalLink: () => Promise.resolve(null),
  post: (post) => sendGuarded(post, { isOpened: () => true }),
  nowMs: Date.now,
  log: (line) => process.stderr.write(`${line}\n`),
  onIdle: () => Promise.resolve(),
  limits: { atOnce: 4, leaseMs, idleMs: 20, failureMs: 20 },
});
process.stdout.write('ready\n');
