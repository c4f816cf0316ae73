import { describe, expect, it } from 'vitest';
import { skill, terminal, z } from '../index.ts';
import { serve } from '../../test/rig/servers/mcp-client.ts';
import { MemorySessions } from './memory-sessions.ts';

const HOUR_MS = 60 * 60_000;
const HANDSHAKE = { host: 'generic', toolsAvailable: [], isSubagent: false };
const oneStep = () => skill({ name: 'one', entry: 'a' }).step('a', { prompt: 'A', next: terminal }).build();

/** Each action waits until it is let go, in the order in which they began. */
function gate(): {
  action: () => Promise<unknown>;
  begun: () => number;
  letGo: () => void;
  signals: { aborted: boolean }[];
} {
  const waiting: (() => void)[] = [];
  const signals: { aborted: boolean }[] = [];
  let begun = 0;
  return {
    action: (context?: { readonly signal: { aborted: boolean } }) => {
      begun++;
      if (context !== undefined) signals.push(context.signal);
      return new Promise((resolve) => waiting.push(() => resolve('acted')));
    },
    begun: () => begun,
    letGo: () => waiting.shift()?.(),
    signals,
  };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('several sessions', () => {
  it('run at the same time, each for itself', async () => {
    const built = skill({ name: 's', entry: 'a', params: z.object({ who: z.string() }) })
      .step('a', { prompt: ({ params }) => params.who, response: z.object({ n: z.number() }), next: 'b' })
      .step('b', { prompt: ({ params, store }) => `${params.who} ${store.steps.a.n}`, next: terminal })
      .build();
    const rig = await serve(built);
    const starts = await Promise.all(['x', 'y', 'z'].map((who) => rig.call('start', { params: { who } })));
    const sessions = starts.map(({ structured }) => structured['session']);
    expect(new Set(sessions).size).toBe(3);
    const next = await Promise.all(
      sessions.map((session, n) => rig.call('advance', { session, step: 'a', output: { n } })),
    );
    expect(next.map(({ structured }) => structured['prompt'])).toEqual([
      '<prompt>\nx 0\n</prompt>',
      '<prompt>\ny 1\n</prompt>',
      '<prompt>\nz 2\n</prompt>',
    ]);
  });

  it('are limited in number, and one more may start when one has ended', async () => {
    const rig = await serve(oneStep(), { maxSessions: 2 });
    const first = await rig.call('start');
    expect((await rig.call('start')).isError).toBe(false);
    const third = await rig.call('start');
    expect(third).toMatchObject({ isError: true, structured: { status: 'error', error: 'full', retry: true } });
    expect(third.structured['message']).toBe('2 sessions are open, the most that this server keeps.');
    expect(third.structured['remedy']).toContain('--max-sessions');
    await rig.call('advance', { session: first.structured['session'], step: 'a', output: {} });
    expect((await rig.call('start')).isError).toBe(false);
  });

  it('are 100 by default, counted before the first has got its prompt', async () => {
    const rig = await serve(oneStep());
    const starts = await Promise.all(Array.from({ length: 101 }, () => rig.call('start')));
    expect(starts.filter(({ isError }) => isError)).toHaveLength(1);
  });
});

describe('a session without calls', () => {
  it('expires an hour after its last call', async () => {
    let nowMs = 0;
    const rig = await serve(oneStep(), { now: () => nowMs });
    const kept = (await rig.call('start')).structured['session'];
    const left = (await rig.call('start')).structured['session'];
    nowMs = HOUR_MS;
    expect((await rig.call('advance', { session: kept })).isError).toBe(false);
    nowMs = HOUR_MS + 1;
    const gone = await rig.call('advance', { session: left, step: 'a', output: {} });
    expect(gone).toMatchObject({
      isError: true,
      structured: { error: 'expired', message: `Session "${String(left)}" was idle for more than 60 min and is gone.` },
    });
    expect(gone.structured['remedy']).toBe('Call start to begin a new session.');
    expect((await rig.call('advance', { session: kept, step: 'a', output: {} })).structured['status']).toBe('done');
  });

  it('makes room for another', async () => {
    let nowMs = 0;
    const rig = await serve(oneStep(), { now: () => nowMs, maxSessions: 1, idleMs: 1000 });
    await rig.call('start');
    nowMs = 1000;
    expect((await rig.call('start')).isError).toBe(true);
    nowMs = 1001;
    expect((await rig.call('start')).isError).toBe(false);
  });

  it('does not expire while it waits, nor while a person may still answer', async () => {
    let nowMs = 0;
    const built = skill({ name: 's', entry: 'pause' })
      .step('pause', { wait: { durationMs: 10 * HOUR_MS }, next: 'ask' })
      .step('ask', { prompt: 'A', human: { deadlineMs: 10 * HOUR_MS, onExpiry: 'late' }, next: terminal })
      .step('late', { prompt: 'Late', next: terminal })
      .build();
    const rig = await serve(built, { now: () => nowMs });
    const { session } = (await rig.call('start')).structured;
    nowMs = 11 * HOUR_MS;
    expect((await rig.call('advance', { session })).structured).toMatchObject({ status: 'prompt', step: 'ask' });
    nowMs = 22 * HOUR_MS;
    expect((await rig.call('advance', { session })).structured).toMatchObject({ status: 'prompt', step: 'late' });
    nowMs = 23 * HOUR_MS + 1;
    expect((await rig.call('advance', { session })).structured).toMatchObject({ error: 'expired' });
  });

  it('does not expire while its action runs', async () => {
    let nowMs = 0;
    const { action, letGo } = gate();
    const rig = await serve(
      skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', action, next: terminal }).build(),
      { now: () => nowMs },
    );
    const { session } = (await rig.call('start')).structured;
    const answer = rig.call('advance', { session, step: 'a', output: {} });
    await settled();
    nowMs = 5 * HOUR_MS;
    await rig.call('start');
    letGo();
    expect((await answer).structured).toMatchObject({ status: 'done', finalOutput: 'acted' });
  });
});

describe('a session that has ended', () => {
  it('shows how it ended to a client that asks, and accepts no answers', async () => {
    const rig = await serve(oneStep());
    const { session } = (await rig.call('start')).structured;
    const done = await rig.call('advance', { session, step: 'a', output: {} });
    expect(await rig.call('advance', { session })).toEqual(done);
    const late = await rig.call('advance', { session, step: 'a', output: {} });
    expect(late).toMatchObject({ isError: true, structured: { session, error: 'finished', retry: false } });
    expect(late.structured['message']).toBe(`Session "${String(session)}" has ended (done); the answer was not taken.`);
  });

  it('differs from a session that never existed', async () => {
    const { structured } = await (
      await serve(oneStep())
    ).call('advance', { session: 'abcdefgh', step: 'a', output: {} });
    expect(structured).toMatchObject({ session: 'abcdefgh', error: 'unknown', message: 'Unknown session "abcdefgh".' });
    expect(structured['remedy']).toContain('Call start');
  });

  it('is remembered only as long as there is room', async () => {
    const rig = await serve(oneStep(), { maxSessions: 2 });
    const ended: unknown[] = [];
    for (let i = 0; i < 3; i++) {
      const { session } = (await rig.call('start')).structured;
      await rig.call('advance', { session, step: 'a', output: {} });
      ended.push(session);
    }
    const errors = await Promise.all(ended.map((session) => rig.call('advance', { session, step: 'a', output: {} })));
    expect(errors.map(({ structured }) => structured['error'])).toEqual(['unknown', 'finished', 'finished']);
  });
});

describe('answers that come at the same time', () => {
  it('to the same step run its action once: one is taken, the others learn that the session has moved on', async () => {
    const { action, begun, letGo } = gate();
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', action, next: 'b' })
      .step('b', { prompt: 'B', next: terminal })
      .build();
    const rig = await serve(built);
    const { session } = (await rig.call('start')).structured;
    const answers = Promise.all(
      Array.from({ length: 5 }, () => rig.call('advance', { session, step: 'a', output: {} })),
    );
    await settled();
    expect(begun()).toBe(1);
    letGo();
    const all = (await answers).map(({ structured }) => structured['error'] ?? structured['step']);
    expect(all).toEqual(['b', 'order', 'order', 'order', 'order']);
    expect(begun()).toBe(1);
  });

  it('to one turn of a step that loops are distinguished by the turn', async () => {
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: ({ attempts }) => String(attempts), maxVisits: 9, next: 'self' })
      .build();
    const rig = await serve(built);
    const { session, turn } = (await rig.call('start')).structured;
    const answers = await Promise.all([1, 2].map(() => rig.call('advance', { session, step: 'a', output: {}, turn })));
    expect(answers.map(({ structured }) => structured['error'] ?? structured['prompt'])).toEqual([
      '<prompt>\n1\n</prompt>',
      'order',
    ]);
  });

  it('to one step after another wait for their turn', async () => {
    const { action, letGo } = gate();
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', action, next: 'b' })
      .step('b', { prompt: 'B', next: terminal })
      .build();
    const rig = await serve(built);
    const { session } = (await rig.call('start')).structured;
    const answers = Promise.all(['a', 'b'].map((step) => rig.call('advance', { session, step, output: {} })));
    await settled();
    letGo();
    expect((await answers).map(({ structured }) => structured['status'])).toEqual(['prompt', 'done']);
  });

  it('after the end get the end as their answer', async () => {
    const { action, letGo } = gate();
    const rig = await serve(
      skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', action, next: terminal }).build(),
    );
    const { session } = (await rig.call('start')).structured;
    const answers = Promise.all([1, 2].map(() => rig.call('advance', { session, step: 'a', output: {} })));
    await settled();
    letGo();
    expect((await answers).map(({ structured }) => structured['error'] ?? structured['status'])).toEqual([
      'done',
      'finished',
    ]);
  });

  it('to branches of parallel steps do not wait for each other', async () => {
    const { action, begun, letGo } = gate();
    const built = skill({ name: 's', entry: 'fan' })
      .step('fan', { parallel: { branches: ['a', 'b'], join: 'j' } })
      .step('a', { prompt: 'A', action, next: 'j' })
      .step('b', { prompt: 'B', action, next: 'j' })
      .step('j', { prompt: 'J', next: terminal })
      .build();
    const rig = await serve(built);
    const { session } = (await rig.call('start')).structured;
    const answers = Promise.all(['a', 'b', 'a'].map((step) => rig.call('advance', { session, step, output: {} })));
    await settled();
    expect(begun()).toBe(2);
    letGo();
    letGo();
    const seen = (await answers).map(({ structured }) => structured['error'] ?? structured['step']);
    expect(seen).toEqual(['j', 'j', 'order']);
  });

  it('a status call waits until no other call works on the step', async () => {
    const { action, letGo } = gate();
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', action, next: 'b' })
      .step('b', { prompt: 'B', next: terminal })
      .build();
    const rig = await serve(built);
    const { session } = (await rig.call('start')).structured;
    const answers = Promise.all([
      rig.call('advance', { session, step: 'a', output: {} }),
      rig.call('advance', { session }),
    ]);
    await settled();
    letGo();
    expect((await answers).map(({ structured }) => structured['step'])).toEqual(['b', 'b']);
  });
});

describe('a client that gives up on a call', () => {
  it('finds its result later', async () => {
    const { action, begun, letGo } = gate();
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', action, next: 'b' })
      .step('b', { prompt: 'B', next: terminal })
      .build();
    const rig = await serve(built);
    const { session } = (await rig.call('start')).structured;
    const given = new AbortController();
    const answer = rig.client.callTool({ name: 'advance', arguments: { session, step: 'a', output: {} } }, undefined, {
      signal: given.signal,
    });
    await settled();
    given.abort('too slow');
    await expect(answer).rejects.toThrow('too slow');
    letGo();
    expect((await rig.call('advance', { session })).structured).toMatchObject({ status: 'prompt', step: 'b' });
    expect(begun()).toBe(1);
  });

  it('hears that it is worked on when it wants to', async () => {
    const { action, letGo } = gate();
    const rig = await serve(
      skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', action, next: terminal }).build(),
      { progressEveryMs: 5 },
    );
    const { session } = (await rig.call('start')).structured;
    const heard: number[] = [];
    await rig.client.callTool({ name: 'advance', arguments: { session, step: 'a', output: {} } }, undefined, {
      onprogress: ({ progress }) => {
        heard.push(progress);
        if (heard.length === 3) letGo();
      },
    });
    expect(heard.slice(0, 3)).toEqual([1, 2, 3]);
  });
});

describe('the store', () => {
  it('refuses a definition that cannot run, at once', () => {
    expect(() => new MemorySessions({ ...oneStep(), entry: 'nowhere' })).toThrow('nowhere');
  });

  it('fires the signals of what is under way when it is closed', async () => {
    const { action, signals } = gate();
    const store = new MemorySessions(
      skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', action, next: terminal }).build(),
    );
    const started = await store.start({ handshake: HANDSHAKE });
    if (started.kind !== 'answered') throw new Error(started.message);
    const answer = store.advance(started.session, { step: 'a', output: {} });
    await settled();
    await store.close();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(await answer).toMatchObject({ kind: 'answered', result: { kind: 'error', error: 'cancelled' } });
  });
});
