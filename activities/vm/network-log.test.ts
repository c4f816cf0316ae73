/** The notices of a VM's door become events: once, complete and without secrets, whichever workers read them. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RunEventBody } from '../../domain/run/event.ts';
import { DOOR_NOTICE_LIMITS } from '../../domain/run/door-notice.ts';
import { createRedactor, REDACTED } from '../../domain/security/redactor.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mockWorkerDeps } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import { followNetwork, recordNetwork } from './network-log.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SandboxBackend } from '../ports/sandbox.ts';
import { releaseVm } from './shared-vm.ts';

const RUN = 'run-1';
const KEY = { runId: RUN, scope: 'net', instance: [], generation: 0 };
const SCOPE = {
  id: 'net',
  stages: ['net'],
  sandbox: {
    mode: 'mock',
    isolation: 'none',
    memoryMib: 64,
    vcpus: 1,
    diskMib: 64,
    mounts: [],
    egress: { allow: [], deny: [], services: [] },
  },
} as const;
const REQUEST = { runId: RUN, scope: SCOPE, instance: [], generation: 0 };
const NO_SECRETS = createRedactor([]);

let stateDir: string;
let stores: Stores;
/** The notices that the keeper has written so far. */
let written: Buffer;
const backend: SandboxBackend = {
  ...createMockBackend(),
  notices: async (_key, offset) => written.subarray(offset, offset + 4_096),
};

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-network-'));
  written = Buffer.alloc(0);
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

/** Each call creates another worker of the host. */
function worker(change: Partial<ActivityDeps> = {}): {
  readonly deps: ActivityDeps;
  readonly request: typeof REQUEST;
  readonly backend: SandboxBackend;
  readonly vmKey: typeof KEY;
} {
  return {
    deps: mockWorkerDeps({ stateDir, stores, backend: createMockBackend() }, { backendFor: () => backend, ...change }),
    request: REQUEST,
    backend,
    vmKey: KEY,
  };
}

function tell(...lines: readonly object[]): void {
  written = Buffer.concat([written, Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))]);
}

const refusal = (host: string): object => ({
  kind: 'refused',
  atMs: 7,
  host,
  port: 443,
  cause: 'rules',
  reason: `nothing has ${host.toLowerCase()}`,
});

async function told(): Promise<Extract<RunEventBody, { type: 'network' }>[]> {
  const bodies: Extract<RunEventBody, { type: 'network' }>[] = [];
  for await (const { body } of stores.reader.read(RUN, 0)) if (body.type === 'network') bodies.push(body);
  return bodies;
}

const hosts = async (): Promise<unknown[]> => (await told()).map((body) => ('host' in body ? body.host : body.kind));

test('a stage’s follower stores notices as they come, and all of them at its end', async () => {
  const follower = followNetwork(worker(), NO_SECRETS);
  tell(refusal('a.example'));
  await expect.poll(hosts).toEqual(['a.example']);
  tell(refusal('b.example'));
  await follower.catchUp();
  expect(await hosts()).toEqual(['a.example', 'b.example']);
  await follower.stop();
  tell(refusal('c.example'));
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(await hosts(), 'nobody follows').toHaveLength(2);
});

test('another worker reads from the beginning and repeats no event, and neither do two workers at once', async () => {
  tell(refusal('a.example'), refusal('a.example'));
  const first = followNetwork(worker(), NO_SECRETS);
  await first.catchUp();
  tell(refusal('b.example'));
  const [second, third] = [followNetwork(worker(), NO_SECRETS), followNetwork(worker(), NO_SECRETS)];
  await Promise.all([second.catchUp(), third.catchUp(), first.catchUp()]);
  expect(await hosts()).toEqual(['a.example', 'a.example', 'b.example']);
  for (const follower of [first, second, third]) await follower.stop();
});

test('the next read stores notices that could not be stored, and the end of a stage reports the error', async () => {
  let isFull = true;
  const append: EventLog['append'] = (...args) =>
    isFull ? Promise.reject(new Error('no space')) : stores.events.append(...args);
  const follower = followNetwork(worker({ events: { ...stores.events, append } }), NO_SECRETS);
  tell(refusal('a.example'));
  await expect(follower.catchUp()).rejects.toThrow('no space');
  isFull = false;
  await expect.poll(hosts).toEqual(['a.example']);
  await follower.stop();
});

test('a flood becomes a limited number of events with a count', async () => {
  const count = 3_000;
  tell(...Array.from({ length: count }, (_, index) => refusal(`h${index}.example`)));
  await recordNetwork(worker());
  await recordNetwork(worker());
  const bodies = await told();
  const more = bodies.filter(({ kind }) => kind === 'more');
  expect(bodies.length - more.length).toBe(DOOR_NOTICE_LIMITS.refused);
  expect(more.length).toBeLessThanOrEqual(1 + count / DOOR_NOTICE_LIMITS.counted);
  expect(more.at(-1)).toMatchObject({ refused: count - DOOR_NOTICE_LIMITS.refused, closed: 0 });
});

test('the events contain no secret of a stage in the VM, and the reason does not contain it in lower case either', async () => {
  const context = worker();
  const one = followNetwork(context, createRedactor([{ name: 'TOKEN', value: 'Hunter2-Secret' }]));
  const other = followNetwork(context, createRedactor([{ name: 'KEY', value: 'other-secret-9' }]));
  tell(refusal('Hunter2-Secret.evil.example'), refusal('other-secret-9.evil.example'), refusal('plain.example'));
  await other.catchUp();
  const text = JSON.stringify(await told());
  expect(text).not.toMatch(/hunter2-secret|other-secret-9/i);
  expect(await hosts()).toEqual([`${REDACTED}.evil.example`, `${REDACTED}.evil.example`, 'plain.example']);
  await one.stop();
  await other.stop();
});

test('the release of a VM stores the rest, without names if no stage of this worker was in it', async () => {
  tell(refusal('a.example'));
  const context = worker();
  const follower = followNetwork(context, NO_SECRETS);
  await follower.catchUp();
  await follower.stop();
  tell(refusal('b.example'));
  await releaseVm(context.deps, REQUEST as never);
  expect(await hosts()).toEqual(['a.example', 'b.example']);
  tell(refusal('c.example'));
  await releaseVm(worker().deps, REQUEST as never);
  expect((await told()).at(-1)).toMatchObject({ host: REDACTED, reason: REDACTED, port: 443 });
  expect(await hosts()).toHaveLength(3);
});

test('the notices of a VM without a door are not read', async () => {
  const blind: SandboxBackend = { ...backend, notices: () => Promise.reject(new Error('looked')) };
  const { egress: _egress, ...sandbox } = SCOPE.sandbox;
  const context = { ...worker(), backend: blind, request: { runId: RUN, scope: { ...SCOPE, sandbox } } };
  await followNetwork(context, NO_SECRETS).catchUp();
  await recordNetwork(context);
  expect(await told()).toEqual([]);
});
