/** Ends of runs in PostgreSQL whose processes are killed at random moments. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDecide } from '../../domain/delivery/decide.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { followTrigger } from '../../test/conformance/run-ends.ts';
import { startTestPostgres, type TestPostgres } from '../../test/rig/access/postgres-server.ts';
import type { AccessStore } from '../access.ts';
import { MIGRATIONS_FOLDER, openAccess } from '../open-access.ts';

const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);
const RUNS = 60;
const MOST_KILLS = 20;
const LIMIT_MS = 60_000;
const KEYS = { dedupe: null, debounce: null, batch: null, rate: null, order: null };

let server: TestPostgres;
let folder: string;
let program: string;
const processes = new Set<ChildProcess>();

beforeAll(async () => {
  server = await startTestPostgres();
  folder = mkdtempSync(join(tmpdir(), 'voidbox-killed-run-ends-'));
  program = join(folder, 'program.mjs');
  const bundle = await rolldown({
    input: fileURLToPath(new URL('../../test/rig/access/run-end-process.ts', import.meta.url)),
    platform: 'node',
    // The process does not migrate, and the client has no native part.
    external: ['node-pg-migrate', 'pg-native'],
    resolve: { extensionAlias: { '.js': ['.ts', '.js'] } },
  });
  await bundle.write({ file: program, format: 'esm', codeSplitting: false });
  await bundle.close();
}, 300_000);

afterAll(async () => {
  for (const child of processes) child.kill('SIGKILL');
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Running {
  readonly child: ChildProcess;
  /** The lines that it has printed. */
  steps: number;
}

async function startProcess(place: string): Promise<Running> {
  const settings = JSON.stringify({ place, migrationsDir: MIGRATIONS });
  const child = spawn(process.execPath, [program, settings], { stdio: ['ignore', 'pipe', 'inherit'] });
  processes.add(child);
  const running: Running = { child, steps: 0 };
  child.stdout!.on('data', (bytes: Buffer) => (running.steps += bytes.toString().split('\n').length - 1));
  await once(child.stdout!, 'data');
  return running;
}

async function killProcess({ child }: Running): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  processes.delete(child);
}

/** Starts the run of a new delivery. */
async function startRun({ triggers: { deliveries } }: AccessStore): Promise<void> {
  const { delivery } = await deliveries.accept(makeDelivery({ deployment: 'build', acceptedAtMs: Date.now() }));
  const claim = { id: delivery.id, token: 'a' };
  const nowMs = Date.now();
  await deliveries.claim({ token: 'a', nowMs, leaseMs: 60_000, limit: 999 });
  const decide = createDecide({ trigger: WEBHOOK, evaluation: { holds: true, params: {}, input: null, keys: KEYS } });
  await deliveries.decide({ ...claim, nowMs, leaseMs: 60_000, trigger: WEBHOOK, keys: KEYS, decide });
  await deliveries.record(claim, { kind: 'started' }, nowMs);
}

test('each ended run has one delivery for each trigger that follows it, although processes are killed', async () => {
  const target = await server.createDatabase();
  const access = await openAccess({
    target,
    migrationsDir: MIGRATIONS,
    migrate: true,
    recover: () => Promise.resolve(),
    retryForMs: 0,
    warn: () => undefined,
  });
  const { deliveries, deployments } = access.triggers;
  await deployments.deploy(makeVersion('build'), { isPaused: false });
  const ordered = followTrigger('build', ['failed'], { name: 'ordered', order: { key: 'x' } });
  for (const name of ['one', 'two']) {
    const triggers = [
      followTrigger('build', ['failed']),
      ordered,
      followTrigger('build', ['succeeded'], { name: 'no' }),
    ];
    await deployments.deploy(makeVersion(name, { spec: name, triggers }), { isPaused: false });
  }
  for (let count = 0; count < RUNS; count += 1) await startRun(access);
  // The address has a descriptor of this process.
  const place = target.place.replaceAll('self', String(process.pid));
  const running = await Promise.all([startProcess(place), startProcess(place)]);
  const isOver = async (): Promise<boolean> => (await deliveries.listOpenRuns(1)).length === 0;
  let kills = 0;
  for (; kills < MOST_KILLS && !(await isOver()); kills += 1) {
    const at = kills % running.length;
    const steps = running[at]!.steps + 1 + Math.floor(Math.random() * 8);
    while (running[at]!.steps < steps && !(await isOver())) await sleep(1);
    await killProcess(running[at]!);
    running[at] = await startProcess(place);
  }
  expect(kills).toBeGreaterThan(3);
  const until = Date.now() + LIMIT_MS;
  while (!(await isOver()) && Date.now() < until) await sleep(20);
  await Promise.all(running.map(killProcess));
  const rows = await deliveries.list({ limit: 999 });
  await access.close();
  const ended = rows.filter(({ deployment }) => deployment === 'build');
  expect(ended).toHaveLength(RUNS);
  expect(ended.filter(({ runEndedAtMs }) => runEndedAtMs === null)).toEqual([]);
  const followers = ['one after-build', 'one ordered', 'two after-build', 'two ordered'];
  for (const { runId } of ended) {
    const made = rows.filter(({ upstream }) => upstream?.runId === runId);
    expect(made.map(({ deployment, trigger }) => `${deployment} ${trigger}`).toSorted()).toEqual(followers);
  }
  expect(rows).toHaveLength(RUNS * (1 + followers.length));
}, 180_000);
