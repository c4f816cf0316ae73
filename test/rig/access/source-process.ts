/** A process that reads the sources of triggers until it is killed. It prints a line after each delivery that it accepts. */
import { startSources } from '../../../app/sources/start-sources.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import { openAccess } from '../../../store/open-access.ts';
import { openStores } from '../../../store/open-stores.ts';
import { createTestMachine } from '../runs/test-machine.ts';

const {
  place,
  migrationsDir,
  stateDir,
  secrets = {},
} = JSON.parse(process.argv[2]!) as {
  readonly place: string;
  readonly migrationsDir: string;
  readonly stateDir: string;
  /** The values of secrets of each deployment. */
  readonly secrets?: Readonly<Record<string, string>>;
};

const report = (step: string): void => void process.stdout.write(`${step}\n`);
const access = await openAccess({
  target: { kind: 'url', place },
  migrationsDir,
  migrate: false,
  recover: () => Promise.resolve(),
  retryForMs: 0,
  warn: () => undefined,
});
startSources({
  env: readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: stateDir }),
  machine: createTestMachine(await openStores({ stateDir })),
  openTriggers: () => Promise.resolve(access.triggers),
  readSecrets: () => Promise.resolve(secrets),
  wake: () => report('accepted'),
  log: (line) => void process.stderr.write(`${line}\n`),
  leastPauseMs: 20,
});
report('ready');
// Nothing else keeps the process: its timers may be unreferenced.
setInterval(() => undefined, 60_000);
