import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import type { SessionBytes } from '../../agents/stream.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunEvent } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { readTar } from '../../tar/read.ts';
import { writeTar } from '../../tar/write.ts';
import { type ProgressContext, PROGRESS_LIMITS } from './copy.ts';
import { createProgress, isResumable, saveAtEnd } from './progress.ts';
import { needsCheckout, resumePromptOf, findSave } from './resume.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

const SESSIONS = '/home/sandbox/.codex/sessions';
const SECRET = 'sk-0123456789abcdef';

function requestOf(execKey: string, more: object = {}): StageRequest {
  const scope = { id: 'work', sandbox: { mounts: [] } };
  const work = { kind: 'agent', mode: 'task' };
  const stage = { id: 'work', timeoutMs: 3_600_000, outputs: [], work };
  return { runId: 'r', execKey, lease: null, scope, stage, ...more } as unknown as StageRequest;
}

const MIB = 1024 * 1024;

async function* bulk(sizeBytes: number): AsyncIterable<Uint8Array> {
  const chunk = Buffer.alloc(MIB);
  for (let left = sizeBytes; left > 0; left -= MIB) yield chunk.subarray(0, Math.min(MIB, left));
}

/** A guest with a work folder and a session folder, a log and a store, all in memory. */
class World {
  nowMs = 1_000;
  events: NewRunEvent[] = [];
  stored: Buffer[] = [];
  storedBytes = 0;
  work = Buffer.from(`work ${SECRET}`);
  session = (): Buffer => Buffer.from(`{"said":"${SECRET}"}`);
  /** The size of a tar that replaces `work`; no test reads its content. */
  bulkBytes = 0;
  /** The store rejects saves. */
  refuses = false;
  freezes: 'whole' | 'too-slow' | 'none' = 'whole';
  isFrozen = false;
  readsOfFrozen: boolean[] = [];
  freezeLimitsMs: number[] = [];
  hasRoom = true;

  readonly deps = {
    now: () => this.nowMs,
    disk: { hasRoomForOutput: () => this.hasRoom },
    events: {
      append: async (_: string, events: readonly NewRunEvent[]) => {
        if (this.refuses && events.some(({ body }) => body.type === 'stage-progress')) throw new Error('no room');
        const fresh = events.filter(({ id }) => !this.events.some((known) => known.id === id));
        this.events.push(...fresh);
        return fresh.length;
      },
      find: async (_: string, id: string) => (this.events.find((event) => event.id === id) as RunEvent) ?? null,
    },
    artifacts: {
      put: async (bytes: AsyncIterable<Uint8Array>): Promise<DataRef> => {
        const parts: Uint8Array[] = [];
        let sizeBytes = 0;
        for await (const part of bytes) {
          sizeBytes += part.length;
          if (sizeBytes < MIB) parts.push(part);
        }
        this.stored.push(Buffer.concat(parts));
        this.storedBytes += sizeBytes;
        return { sha256: String(this.stored.length - 1), sizeBytes, mediaType: 'application/x-tar' };
      },
    },
  } as unknown as ProgressContext['deps'];

  readonly sandbox = {
    facts: { fence: 1 },
    getFolder: async (guestPath: string) => {
      this.readsOfFrozen.push(this.isFrozen);
      if (guestPath !== SESSIONS && this.bulkBytes > 0) return bulk(this.bulkBytes);
      const body = guestPath === SESSIONS ? this.session() : this.work;
      const items = [
        { kind: 'dir', path: 'a', mode: 0o700 },
        { kind: 'file', path: 'a/file', mode: 0o600, body },
        { kind: 'symlink', path: 'a/link', target: 'file' },
      ] as const;
      return writeTar(items);
    },
  } as unknown as Sandbox;

  readonly exec = {
    whileFrozen: async (limitMs: number, copy: () => Promise<void>) => {
      this.freezeLimitsMs.push(limitMs);
      if (this.freezes === 'none') return false;
      this.isFrozen = true;
      await copy().finally(() => (this.isFrozen = false));
      return this.freezes === 'whole';
    },
  } as unknown as Exec;

  /** The base commit of the git workspace; null: the stage has no git workspace. */
  base: string | null = null;

  progressOf(request: StageRequest): (sessionId?: string | null, end?: string) => Promise<void> {
    const redactor = createRedactor([{ name: 'KEY', value: SECRET }]);
    const context = {
      deps: this.deps,
      request,
      sandbox: this.sandbox,
      redactor,
      cli: 'codex' as const,
      sessionFolder: SESSIONS,
      base: this.base,
    };
    const progress = createProgress(context)!;
    return (sessionId = 's1', end) => {
      const isIn = end === undefined ? null : (sessions: SessionBytes): boolean => sessions.includes(end);
      return progress.offer(this.exec, { sessionId, isIn }, new AbortController().signal);
    };
  }

  saves(): readonly Extract<NewRunEvent['body'], { type: 'stage-progress' }>[] {
    return this.events.flatMap(({ body }) => (body.type === 'stage-progress' ? [body] : []));
  }

  notices(): readonly string[] {
    return this.events.flatMap(({ body }) => (body.type === 'notice' ? [body.message] : []));
  }
}

async function filesOf(tar: Buffer): Promise<Readonly<Record<string, string>>> {
  const files: Record<string, string> = {};
  async function* whole(): AsyncIterable<Uint8Array> {
    yield tar;
  }
  for await (const { kind, path, body } of readTar(whole(), tar.length)) files[`${kind} ${path}`] = body.toString();
  return files;
}

test('a save has both folders of the same moment; the session is redacted like the transcript, the work is not', async () => {
  const world = new World();
  await world.progressOf(requestOf('work/0/1'))();
  const [save] = world.saves();
  expect(world.readsOfFrozen, 'it stands still while its files are read').toEqual([true, true]);
  expect(world.freezeLimitsMs).toEqual([PROGRESS_LIMITS.frozenMs]);
  expect(save).toMatchObject({ stage: 'work', execKey: 'work/0/1', sessionId: 's1' });
  const tars = Object.fromEntries(
    save!.folders.map(({ guestPath, ref }) => [guestPath, world.stored[Number(ref.sha256)]!]),
  );
  expect(await filesOf(tars['/workspace']!)).toMatchObject({ 'file a/file': `work ${SECRET}`, 'symlink a/link': '' });
  expect(await filesOf(tars[SESSIONS]!)).toEqual({ 'dir a/': '', 'file a/file': '{"said":"[redacted]"}' });
  expect(tars[SESSIONS]!.includes(SECRET)).toBe(false);
});

test('it saves at most every 30 s, not before a session is known, and not on a full disk', async () => {
  const world = new World();
  const offer = world.progressOf(requestOf('work/0/1'));
  await offer(null);
  expect(world.saves()).toHaveLength(0);
  await offer();
  world.nowMs += PROGRESS_LIMITS.intervalMs - 1;
  await offer();
  expect(world.saves()).toHaveLength(1);
  world.nowMs += 1;
  world.hasRoom = false;
  await offer();
  expect(world.saves()).toHaveLength(1);
  world.hasRoom = true;
  await offer();
  expect(world.saves()).toHaveLength(2);
  expect(world.events.map(({ id }) => id)).toEqual([
    EVENT_ID.progress('work/0/1', 1),
    EVENT_ID.progress('work/0/1', 2),
  ]);
});

test('a worker that takes over numbers its saves after the recorded saves', async () => {
  const world = new World();
  for (let number = 1; number <= 5; number += 1) {
    const offer = world.progressOf(requestOf('work/0/1'));
    await offer();
    expect(world.events.at(-1)!.id).toBe(EVENT_ID.progress('work/0/1', number));
  }
});

test('a save that the log rejected leaves no gap: the next attempt continues from the newest save', async () => {
  const world = new World();
  const offer = world.progressOf(requestOf('work/0/1'));
  const save = async (sessionId: string): Promise<void> => {
    await offer(sessionId);
    world.nowMs += PROGRESS_LIMITS.intervalMs;
  };
  await save('s1');
  world.refuses = true;
  await save('s2');
  world.refuses = false;
  await save('s3');
  const before = (): ReturnType<typeof findSave> => findSave(world.deps, requestOf('work/0/2'), SESSIONS);
  expect(await before()).toMatchObject({ sessionId: 's3' });
  // A worker that takes over continues with the next number.
  const next = world.progressOf(requestOf('work/0/1'));
  for (const sessionId of ['s4', 's5']) {
    await next(sessionId);
    world.nowMs += PROGRESS_LIMITS.intervalMs;
    expect(await before()).toMatchObject({ sessionId });
  }
});

test('a command that has ended is not saved, and the log gets no notice', async () => {
  const world = new World();
  world.freezes = 'none';
  await world.progressOf(requestOf('work/0/1'))();
  expect(world.events).toEqual([]);
});

test('files that cannot be read in time or are too large are not saved: one notice reports it, and the third failure is the last', async () => {
  for (const [prepare, reason] of [
    [(world: World) => (world.freezes = 'too-slow'), 'could not be read within 10 s'],
    [(world: World) => (world.bulkBytes = PROGRESS_LIMITS.folderBytes + 1), '/workspace has more than the 64 MiB'],
  ] as const) {
    const world = new World();
    prepare(world);
    const offer = world.progressOf(requestOf('work/0/1'));
    for (let times = 0; times < PROGRESS_LIMITS.failures; times += 1) {
      await offer();
      world.nowMs += PROGRESS_LIMITS.intervalMs;
    }
    expect(world.saves()).toEqual([]);
    expect(world.notices()).toEqual([expect.stringContaining(reason)]);
    world.freezes = 'whole';
    world.bulkBytes = 0;
    await offer();
    expect(world.saves(), 'it had given up').toEqual([]);
  }
});

test('a save waits until the session contains the end of the call, and freezes the command only then', async () => {
  const world = new World();
  let looks = 0;
  world.session = () => Buffer.from((looks += 1) < 3 ? 'the call' : 'the call, and its end');
  await world.progressOf(requestOf('work/0/1'))('s1', 'its end');
  expect(world.readsOfFrozen).toEqual([false, false, false, true, true]);
  expect(world.saves()).toHaveLength(1);
});

test('a session that does not get the end of a call is saved after 2 s', async () => {
  const world = new World();
  await world.progressOf(requestOf('work/0/1'))('s1', 'its end');
  expect(world.readsOfFrozen).toEqual([...Array.from({ length: PROGRESS_LIMITS.polls }, () => false), true, true]);
  expect(world.saves()).toHaveLength(1);
});

test('the saves of an attempt have a common size limit, and are spread over its time', async () => {
  const world = new World();
  world.bulkBytes = PROGRESS_LIMITS.folderBytes;
  const offer = world.progressOf(requestOf('work/0/1'));
  for (let second = 0; second < 3_600; second += 30) {
    await offer();
    world.nowMs += 30_000;
  }
  const bytes = world.saves().flatMap(({ folders }) => folders.map(({ ref }) => ref.sizeBytes));
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(PROGRESS_LIMITS.attemptBytes);
  expect(world.saves().length).toBeGreaterThan(3);
});

test('a worker that takes an attempt over counts the bytes of earlier workers', async () => {
  const world = new World();
  world.bulkBytes = 60 * MIB;
  const longRequest = (): StageRequest => {
    const request = requestOf('work/0/1');
    return { ...request, stage: { ...request.stage, timeoutMs: 365 * 86_400_000 } };
  };
  for (let worker = 0; worker < 20; worker += 1) {
    await world.progressOf(longRequest())();
    world.nowMs += PROGRESS_LIMITS.intervalMs;
  }
  expect(world.saves().length).toBeGreaterThan(1);
  expect(world.storedBytes).toBeGreaterThan(PROGRESS_LIMITS.attemptBytes / 2);
  expect(world.storedBytes).toBeLessThanOrEqual(PROGRESS_LIMITS.attemptBytes);
});

test('a failed save counts too, so an agent cannot fill the store with failed saves', async () => {
  const world = new World();
  world.bulkBytes = PROGRESS_LIMITS.folderBytes;
  const offer = world.progressOf(requestOf('work/0/1'));
  for (let times = 0; times < 120; times += 1) {
    // Two saves fail and one succeeds, so that the agent is saved on.
    world.freezes = times % 3 === 2 ? 'whole' : 'too-slow';
    await offer();
    world.nowMs += 30_000;
  }
  expect(world.storedBytes).toBeGreaterThan(PROGRESS_LIMITS.attemptBytes / 2);
  expect(world.storedBytes).toBeLessThanOrEqual(PROGRESS_LIMITS.attemptBytes);
});

test.each([
  ['no tar', 'junk'.repeat(1_000)],
  ['a tar that says nothing of removed files', 'tar'],
])('if the changes of a guest are %s, the VM forgets the output, and the log reports it', async (_what, said) => {
  const world = new World();
  world.base = 'a'.repeat(40);
  const acknowledged: string[] = [];
  const parts: Uint8Array[] = [];
  for await (const part of writeTar([{ kind: 'file', path: 'x', mode: 0o600, body: Buffer.alloc(10) }]))
    parts.push(part);
  const changes = said === 'tar' ? Buffer.concat(parts) : Buffer.from(said);
  world.sandbox.exec = async ({ key }) => {
    const output = async function* (): AsyncIterable<Uint8Array> {
      // The first command lists what git ignores: nothing.
      if (key.endsWith('/5001')) yield changes;
    };
    const exit = { reason: 'exited', exitCode: 0, message: '', stderrBytes: 0 };
    const acknowledge = async (): Promise<void> => void acknowledged.push(key);
    return { attached: false, output, wait: async () => exit, acknowledge } as unknown as Exec;
  };
  const stage = { ...requestOf('work/0/1').stage, workspace: { guestPath: '/workspace' } };
  await world.progressOf(requestOf('work/0/1', { stage }))();
  expect(world.saves()).toEqual([]);
  expect(world.notices()).toEqual([expect.stringContaining('is not saved')]);
  expect(acknowledged).toEqual(['work/0/1/5000', 'work/0/1/5001']);
});

const ended = (outcome: StageResult['outcome'], turns = 1, sessionId: string | null = 's1'): StageResult =>
  ({ outcome, usage: { turns }, agent: { sessionId } }) as unknown as StageResult;

/** Returns a context with the progress of the world. */
function atEnd(world: World, change: Partial<ProgressContext> = {}): Parameters<typeof saveAtEnd>[0] {
  const redactor = createRedactor([{ name: 'KEY', value: SECRET }]);
  const { deps, sandbox } = world;
  const request = requestOf('work/0/1');
  const context = {
    deps,
    request,
    sandbox,
    redactor,
    cli: 'codex' as const,
    sessionFolder: SESSIONS,
    base: null,
    ...change,
  };
  return {
    progress: createProgress(context),
    life: { detached: new AbortController().signal, phase: () => undefined },
  };
}

test('an attempt that failed or was cancelled is saved at its end, redacted, without a freeze and at once', async () => {
  for (const outcome of ['failed', 'cancelled'] as const) {
    const world = new World();
    await world.progressOf(requestOf('work/0/1'))();
    world.freezes = 'none';
    await saveAtEnd(atEnd(world), ended(outcome));
    expect(world.events.map(({ id }) => id)).toEqual([
      EVENT_ID.progress('work/0/1', 1),
      EVENT_ID.progress('work/0/1', 2),
    ]);
    const save = world.saves().at(-1)!;
    expect([save.sessionId, save.frozenMs, world.freezeLimitsMs.length]).toEqual(['s1', 0, 1]);
    expect(world.stored.at(-1)!.includes(SECRET)).toBe(false);
    expect(world.readsOfFrozen.slice(-2)).toEqual([false, false]);
  }
});

test('the changes of a repository may be read for the whole time of the save at the end, since nothing is frozen', async () => {
  const limits: number[] = [];
  const world = new World();
  world.sandbox.exec = async ({ key, timeoutMs }) => {
    if (key.endsWith('/5001')) limits.push(timeoutMs);
    const exit = { reason: 'exited', exitCode: 0, message: '', stderrBytes: 0 };
    const output = async function* (): AsyncIterable<Uint8Array> {};
    return { attached: false, output, wait: async () => exit, acknowledge: async () => undefined } as unknown as Exec;
  };
  const stage = { ...requestOf('work/0/1').stage, workspace: { guestPath: '/workspace' } };
  const repository = { request: requestOf('work/0/1', { stage }), base: 'a'.repeat(40) };
  for (const outcome of ['failed', 'cancelled'] as const) await saveAtEnd(atEnd(world, repository), ended(outcome));
  expect(limits.map((ms) => Math.ceil(ms / 10_000) * 10_000)).toEqual([
    PROGRESS_LIMITS.endMs,
    PROGRESS_LIMITS.cancelledMs,
  ]);
});

test('a success, an agent without a session and an agent that did nothing are not saved at their end', async () => {
  const world = new World();
  for (const result of [ended('succeeded'), ended('failed', 1, null), ended('failed', 0)])
    await saveAtEnd(atEnd(world), result);
  expect(world.events).toEqual([]);
});

test('a failed save at the end is a notice, and a lost VM is an error', async () => {
  const full = new World();
  full.hasRoom = false;
  await saveAtEnd(atEnd(full), ended('failed'));
  const large = new World();
  large.bulkBytes = PROGRESS_LIMITS.folderBytes + 1;
  await saveAtEnd(atEnd(large), ended('failed'));
  expect([full.notices(), large.notices()]).toEqual([
    [expect.stringContaining('is not saved: the disk of the state folder is full; `voidbox retry --continue`')],
    [expect.stringContaining('is not saved: /workspace has more than the 64 MiB')],
  ]);
  expect([...full.saves(), ...large.saves()]).toEqual([]);
  const lost = new World();
  lost.sandbox.getFolder = () => Promise.reject(new CodedError('vm/lost', 'gone'));
  await expect(saveAtEnd(atEnd(lost), ended('failed'))).rejects.toMatchObject({ code: 'vm/lost' });
});

test('the limit of all saves of an attempt also bounds the save at its end', async () => {
  const world = new World();
  world.bulkBytes = 60 * MIB;
  for (let times = 0; times < 20; times += 1) await saveAtEnd(atEnd(world), ended('failed'));
  expect(world.storedBytes).toBeGreaterThan(PROGRESS_LIMITS.attemptBytes / 2);
  expect(world.storedBytes).toBeLessThanOrEqual(PROGRESS_LIMITS.attemptBytes);
});

test('only an agent whose VM and files are its own is saved', () => {
  const mounts = (guestPath: string, mode: 'ro' | 'rw'): object => ({
    scope: { id: 'work', sandbox: { mounts: [{ hostPath: '/x', guestPath, mode }] } },
  });
  expect(isResumable(requestOf('work/0/1'), SESSIONS)).toBe(true);
  expect(isResumable(requestOf('work/0/1', mounts('/data', 'ro')), SESSIONS)).toBe(true);
  expect(isResumable(requestOf('work/0/1', mounts('/data', 'rw')), SESSIONS)).toBe(false);
  expect(isResumable(requestOf('work/0/1', mounts('/workspace/data', 'ro')), SESSIONS)).toBe(false);
  expect(isResumable(requestOf('work/0/1', mounts('/home', 'ro')), SESSIONS)).toBe(false);
  expect(isResumable(requestOf('work/0/1', { lease: {} }), SESSIONS)).toBe(false);
  const serving = { id: 'work', outputs: [], work: { kind: 'agent', mode: 'service' } };
  expect(isResumable(requestOf('work/0/1', { stage: serving }), SESSIONS)).toBe(false);
});

test('the next attempt continues from the newest save of a lost attempt, not of an attempt that ended', async () => {
  const world = new World();
  const before = (execKey: string): ReturnType<typeof findSave> => findSave(world.deps, requestOf(execKey), SESSIONS);
  const started = (execKey: string): number =>
    world.events.push({ id: EVENT_ID.attempt(execKey, 'started'), atMs: 0, body: { type: 'run-resumed', by: 'x' } });
  expect(await before('work/0/1')).toBeNull();
  started('work/0/1');
  expect(await before('work/0/2')).toBeNull();
  expect(world.notices()).toEqual([expect.stringContaining('starts again: nothing of it was saved')]);
  const offer = world.progressOf(requestOf('work/0/1'));
  await offer();
  world.nowMs += PROGRESS_LIMITS.intervalMs;
  await offer('s2');
  expect(await before('work/0/2')).toMatchObject({ execKey: 'work/0/1', sessionId: 's2', savedAtMs: world.nowMs });
  expect(await before('work/0/3'), 'the second was lost before its first save').toMatchObject({ execKey: 'work/0/1' });
  const result = { stage: 'work', execKey: 'work/0/3', outcome: 'failed' };
  world.events.push({
    id: EVENT_ID.attempt('work/0/3', 'finished'),
    atMs: 0,
    body: { type: 'stage-finished', stage: 'work', execKey: 'work/0/3', result } as unknown as NewRunEvent['body'],
  });
  expect(await before('work/0/4'), 'it failed by itself').toBeNull();
});

test('the search for a save covers a limited number of attempts whose VMs were lost', async () => {
  const world = new World();
  await world.progressOf(requestOf('work/0/1'))();
  const before = (attempt: number): ReturnType<typeof findSave> =>
    findSave(world.deps, requestOf(`work/0/${attempt}`), SESSIONS);
  expect(await before(101)).toMatchObject({ execKey: 'work/0/1' });
  expect(await before(102)).toBeNull();
});

test('if the guest cannot list its changes, its whole folder is saved, and the question is asked once', async () => {
  const world = new World();
  world.base = 'a'.repeat(40);
  const keys: string[] = [];
  const exit = { reason: 'exited', exitCode: 90, message: 'unfit', stderrBytes: 0 };
  const output = async function* (): AsyncIterable<Uint8Array> {};
  world.sandbox.exec = async ({ key }) => {
    keys.push(key);
    const known = { attached: false, output, wait: async () => exit, acknowledge: async () => undefined };
    return known as unknown as Exec;
  };
  const offer = world.progressOf(
    requestOf('work/0/1', {
      stage: { ...requestOf('work/0/1').stage, workspace: { guestPath: '/workspace/repository' } },
    }),
  );
  await offer();
  world.nowMs += PROGRESS_LIMITS.intervalMs;
  await offer();
  expect(world.notices()).toEqual([]);
  expect(world.saves().map(({ folders }) => folders.map(({ changes }) => changes))).toEqual([
    [undefined, undefined],
    [undefined, undefined],
  ]);
  expect(keys).toEqual(['work/0/1/5000']);
});

test('the prompt of a resumed agent lists files that were not saved', () => {
  const ref: DataRef = { sha256: '0', sizeBytes: 1, mediaType: 'application/x-tar' };
  const whole = { folders: [{ guestPath: '/workspace', ref }] };
  expect(needsCheckout(whole)).toBe(false);
  expect(resumePromptOf(whole)).not.toContain('not saved');
  const changes = { leftOut: ['node_modules/', 'out'], leftOutCount: 7, fileCount: 0, removedCount: 0 };
  const part = { folders: [{ guestPath: '/workspace', ref, changes }] };
  expect(needsCheckout(part)).toBe(true);
  expect(resumePromptOf(part)).toContain('(node_modules/, out and 5 more) were not saved: make them again');
});
