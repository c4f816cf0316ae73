import { describe, expect, it } from 'vitest';
import { reference, skill, terminal, z } from '../index.ts';
import { connect, type Rig, serve } from '../../test/rig/servers/mcp-client.ts';
import { referenceTools } from './reference-tools.ts';

const twoSteps = () =>
  skill({ name: 'two', entry: 'ask', version: '1.2.3', description: 'Adds one' })
    .step('ask', { prompt: 'How many?', response: z.object({ n: z.number() }), next: 'tell' })
    .step('tell', {
      prompt: ({ store }) => `You said ${store.steps.ask.n}.`,
      response: z.object({ ok: z.boolean() }),
      next: terminal,
    })
    .build();

const composite = () =>
  skill({ name: 'doctor', entry: 'route', system: 'Be brief.' })
    .step('route', { prompt: 'Which?', response: z.object({ to: z.string() }), next: ({ response }) => response.to })
    .subskill(
      'fix',
      skill({
        name: 'fix',
        entry: 'what',
        description: 'Mends things',
        system: 'You mend.',
        params: z.object({ file: z.string(), deep: z.boolean().default(true) }),
      })
        .step('what', {
          prompt: ({ params }) => `Mend ${params.file}, deep: ${String(params.deep)}.`,
          response: z.object({ v: z.string() }),
          next: 'sure',
        })
        .step('sure', { prompt: ({ params }) => `Sure about ${params.file}?`, next: terminal })
        .build(),
      { params: () => ({ file: 'a.ts' }) },
    )
    .topic('rules', { label: 'The rules', content: ({ refs }) => refs.load('rules.md') })
    .build();

async function sessionOf(rig: Rig, args: Record<string, unknown> = {}): Promise<string> {
  return (await rig.call('start', args)).structured['session'] as string;
}

describe('start and advance', () => {
  it('lead from prompt to prompt to the final output, as structured content and as one text item of the same JSON', async () => {
    const rig = await serve(twoSteps());
    const first = await rig.call('start');
    expect(first).toMatchObject({
      isError: false,
      structured: { status: 'prompt', step: 'ask', prompt: '<prompt>\nHow many?\n</prompt>', turn: 1 },
    });
    expect(first.structured['schema']).toMatchObject({ type: 'object', required: ['n'] });
    expect(first.structured['preamble']).toContain('<prompt>');
    const session = first.structured['session'] as string;
    expect(session).toHaveLength(8);
    const second = await rig.call('advance', { session, step: 'ask', output: { n: 3 } });
    expect(second.structured).toMatchObject({
      session,
      status: 'prompt',
      step: 'tell',
      prompt: '<prompt>\nYou said 3.\n</prompt>',
    });
    expect(second.structured).not.toHaveProperty('preamble');
    const done = await rig.call('advance', { session, step: 'tell', output: { ok: true } });
    expect(done.structured).toEqual({ session, status: 'done', finalOutput: { ok: true } });
    for (const answer of [first, second, done]) expect(JSON.parse(answer.text)).toEqual(answer.structured);
  });

  it('refuse a whole number without an exact value, with its place', async () => {
    const rig = await serve(twoSteps());
    const session = await sessionOf(rig);
    const refused = await rig.call('advance', { session, step: 'ask', output: { n: 2 ** 53 } });
    expect(refused).toMatchObject({
      isError: true,
      structured: {
        error: 'arguments',
        message: '`output.n` is 9007199254740992, a number beyond ±9007199254740991, which has no exact value.',
        remedy: 'Pass it as a string and call again.',
      },
    });
    const largest = await rig.call('advance', { session, step: 'ask', output: { n: 2 ** 53 - 1 } });
    expect(largest.structured).toMatchObject({ status: 'prompt', step: 'tell' });
  });

  it('say who serves what, and how to go about it', async () => {
    const { client } = await serve(composite());
    expect(client.getServerVersion()).toEqual({ name: 'doctor', version: '0.0.0' });
    expect(client.getServerCapabilities()).toEqual({ tools: {} });
    for (const word of ['start', 'advance', 'session', 'remedy', 'subskill', 'fix (Mends things)', 'topics'])
      expect(client.getInstructions()).toContain(word);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['start', 'advance', 'topics', 'topic']);
    for (const { inputSchema, outputSchema } of tools)
      expect([inputSchema.type, outputSchema?.type]).toEqual(['object', 'object']);
    expect(tools[0]!.inputSchema.properties).toMatchObject({ subskill: { enum: ['fix'] } });
  });

  it('declare the params of a skill as they are', async () => {
    const built = skill({ name: 's', entry: 'a', params: z.object({ file: z.string() }) })
      .step('a', { prompt: 'A', next: terminal })
      .build();
    const { client } = await serve(built);
    const { tools } = await client.listTools();
    expect(tools[0]!.inputSchema).toMatchObject({
      required: ['params'],
      properties: { params: { type: 'object', properties: { file: { type: 'string' } }, required: ['file'] } },
    });
  });

  it('refuse an answer that does not fit, and take the corrected one', async () => {
    const rig = await serve(twoSteps());
    const session = await sessionOf(rig);
    const refused = await rig.call('advance', { session, step: 'ask', output: { n: 'x' } });
    expect(refused).toMatchObject({
      isError: true,
      structured: { session, status: 'error', error: 'validation', step: 'ask', retry: true },
    });
    expect(refused.structured['message']).toMatch(/^n: /);
    expect(refused.structured['remedy']).toContain('same step');
    expect(JSON.parse(refused.text)).toEqual(refused.structured);
    expect((await rig.call('advance', { session, step: 'ask', output: { n: 1 } })).structured['step']).toBe('tell');
  });

  it('tell a host that passes JSON as a text to pass the value', async () => {
    const rig = await serve(twoSteps());
    const { structured } = await rig.call('advance', { session: await sessionOf(rig), step: 'ask', output: '{"n":1}' });
    expect(structured).toMatchObject({ error: 'validation', retry: true });
    expect(structured['remedy']).toContain('pass the value itself');
  });

  it('refuse a step that is not due, and an answer to a turn that is over', async () => {
    const rig = await serve(twoSteps());
    const session = await sessionOf(rig);
    expect((await rig.call('advance', { session, step: 'tell', output: {} })).structured).toMatchObject({
      error: 'order',
      retry: false,
    });
    expect((await rig.call('advance', { session, step: 'nowhere', output: {} })).structured).toMatchObject({
      error: 'validation',
      retry: false,
    });
    const { structured } = await rig.call('advance', { session, step: 'ask', output: { n: 1 }, turn: 7 });
    expect(structured).toMatchObject({
      error: 'order',
      message: 'Turn 7 of step "ask" has ended; the current turn is 1.',
    });
    expect((await rig.call('advance', { session, step: 'ask', output: { n: 1 }, turn: 1 })).structured['step']).toBe(
      'tell',
    );
  });

  it('with only the session, repeat what is due', async () => {
    const rig = await serve(twoSteps());
    const first = await rig.call('start');
    const session = first.structured['session'] as string;
    expect((await rig.call('advance', { session })).structured).toEqual(first.structured);
    await rig.call('advance', { session, step: 'ask', output: { n: 3 } });
    expect((await rig.call('advance', { session })).structured).toMatchObject({
      step: 'tell',
      prompt: '<prompt>\nYou said 3.\n</prompt>',
    });
  });

  it('refuse arguments that they do not know, that are missing, or of another type', async () => {
    const rig = await serve(twoSteps());
    const session = await sessionOf(rig);
    const wrong = async (tool: string, args: Record<string, unknown>): Promise<unknown> => {
      const { isError, structured } = await rig.call(tool, args);
      expect(isError).toBe(true);
      expect(structured).toMatchObject({ status: 'error', error: 'arguments', retry: true });
      return structured['message'];
    };
    expect(await wrong('start', { param: {} })).toBe('`param` is not an argument of start.');
    expect(await wrong('start', { params: '{}', tools: [1] })).toBe(
      '`params` must be of type object, not string; `tools` must hold values of type string only.',
    );
    expect(await wrong('start', { subskill: 'x' })).toBe('`subskill` is not an argument of start.');
    expect(await wrong('advance', { step: 'ask', output: {} })).toBe('`session` is missing.');
    expect(await wrong('advance', { session, output: {} })).toContain('`step` is missing');
    expect(await wrong('advance', { session, step: 'ask' })).toContain('`output` is missing');
    expect(await wrong('advance', { session, step: 'ask', output: {}, turn: 1.5 })).toBe(
      '`turn` must be of type integer, not number.',
    );
  });

  it('refuse params that do not fit, in words of this protocol', async () => {
    const built = skill({ name: 's', entry: 'a', params: z.object({ file: z.string() }) })
      .step('a', { prompt: ({ params }) => params.file, next: terminal })
      .build();
    const rig = await serve(built);
    const { isError, structured } = await rig.call('start');
    expect(isError).toBe(true);
    expect(structured).toMatchObject({ status: 'error', error: 'params', retry: true });
    expect(structured['message']).toMatch(/^Invalid params for skill "s": file: /);
    expect(structured['message']).not.toContain('--params');
    expect((await rig.call('start', { params: { file: 'x' } })).structured['prompt']).toBe('<prompt>\nx\n</prompt>');
  });

  it('name an unknown tool as an error of the protocol', async () => {
    const { client } = await serve(twoSteps());
    await expect(client.callTool({ name: 'stop', arguments: {} })).rejects.toThrow(
      'Unknown tool "stop". This server has: start, advance.',
    );
  });

  it('show a wait, and the step after it when its time has come', async () => {
    let nowMs = Date.parse('2030-01-01T00:00:00Z');
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', next: 'pause' })
      .step('pause', { wait: { durationMs: 90_000 }, next: 'b' })
      .step('b', { prompt: 'B', next: terminal })
      .build();
    const rig = await serve(built, { now: () => nowMs });
    const session = await sessionOf(rig);
    const { structured, isError } = await rig.call('advance', { session, step: 'a', output: {} });
    expect(isError).toBe(false);
    expect(structured).toMatchObject({
      status: 'waiting',
      step: 'pause',
      dueAt: '2030-01-01T00:01:30.000Z',
      waitMs: 90_000,
    });
    nowMs += 30_000;
    expect((await rig.call('advance', { session })).structured).toMatchObject({ status: 'waiting', waitMs: 60_000 });
    nowMs += 60_000;
    expect((await rig.call('advance', { session })).structured).toMatchObject({ status: 'prompt', step: 'b' });
  });

  it('offer the branches of parallel steps, and say by when a person has to answer', async () => {
    const built = skill({ name: 's', entry: 'fan' })
      .step('fan', { parallel: { branches: ['a', 'b'], join: 'j' } })
      .step('a', { prompt: 'A', next: 'j' })
      .step('b', { prompt: 'B', next: 'j', human: { assignee: 'ann', deadlineMs: 1000, onExpiry: 'j' } })
      .step('j', { prompt: 'J', next: terminal })
      .build();
    const rig = await serve(built, { now: () => 5000 });
    const { structured } = await rig.call('start');
    expect(structured).toMatchObject({
      step: 'a',
      open: [{ step: 'b', prompt: '<prompt>\nB\n</prompt>', schema: null }],
    });
    const next = await rig.call('advance', { session: structured['session'], step: 'a', output: {} });
    expect(next.structured).toMatchObject({
      step: 'b',
      human: { assignee: 'ann', dueMs: 6000, dueAt: '1970-01-01T00:00:06.000Z' },
    });
  });
});

describe('what an author gets wrong', () => {
  it('is a result that names the remedy, and the server continues', async () => {
    let isBroken = true;
    const built = skill({ name: 's', entry: 'a' })
      .step('a', {
        prompt: 'A',
        action: () => {
          if (isBroken) throw new TypeError('no network');
          return Promise.resolve(1);
        },
        next: 'b',
      })
      .step('b', { prompt: () => [undefined as never], next: terminal })
      .build();
    const rig = await serve(built);
    const session = await sessionOf(rig);
    const failed = await rig.call('advance', { session, step: 'a', output: {} });
    expect(failed).toMatchObject({
      isError: true,
      structured: { session, status: 'error', error: 'action', step: 'a', retry: true },
    });
    expect(failed.structured['message']).toContain('no network');
    expect(await rig.call('advance', { session, step: 'a', output: {}, turn: 1 })).toMatchObject({
      structured: { error: 'order' },
    });
    expect(failed.structured['remedy']).toContain('without `turn`');
    isBroken = false;
    const stuck = await rig.call('advance', { session, step: 'a', output: {} });
    expect(stuck).toMatchObject({ isError: true, structured: { error: 'action', step: 'b' } });
    expect(stuck.structured['message']).toContain('prompt piece 1 is undefined');
    const again = await rig.call('advance', { session, step: 'a', output: {} });
    expect(again.structured['message']).toBe('Step "a" is not the current step. "b" failed; name it to try again.');
    expect((await rig.call('start')).isError).toBe(false);
  });

  it('a value that JSON cannot represent is reported', async () => {
    const built = skill({ name: 's', entry: 'a' })
      .step('a', { prompt: 'A', save: () => ({ step: { big: 1n } }), next: terminal })
      .build();
    const rig = await serve(built);
    const { isError, structured } = await rig.call('advance', { session: await sessionOf(rig), step: 'a', output: {} });
    expect(isError).toBe(true);
    expect(structured).toMatchObject({ status: 'error', error: 'internal', retry: false });
    expect(structured['message']).toContain('BigInt');
  });

  it('ends the session when a step was visited too often, and reports it', async () => {
    const built = skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', maxVisits: 1, next: 'self' }).build();
    const rig = await serve(built);
    const session = await sessionOf(rig);
    const { structured } = await rig.call('advance', { session, step: 'a', output: {} });
    expect(structured).toMatchObject({
      status: 'error',
      error: 'failed',
      retry: false,
      remedy: 'Call start to begin a new session.',
    });
    expect((await rig.call('advance', { session, step: 'a', output: {} })).structured).toMatchObject({
      error: 'finished',
    });
  });
});

describe('bugs of servers before this one', () => {
  it('start of a skill whose entry has no prompt gives the first step that has one', async () => {
    const built = skill({ name: 's', entry: 'gate' })
      .step('gate', { action: () => Promise.resolve({ found: 2 }), next: 'ask' })
      .step('ask', { prompt: ({ store }) => `Found ${(store.steps.gate as { found: number }).found}.`, next: terminal })
      .build();
    expect((await (await serve(built)).call('start')).structured).toMatchObject({
      status: 'prompt',
      step: 'ask',
      prompt: '<prompt>\nFound 2.\n</prompt>',
    });
  });

  it('start of a skill that asks nothing gives its final output', async () => {
    const built = skill({ name: 's', entry: 'gate' })
      .step('gate', { action: () => Promise.resolve({ found: 2 }), next: terminal })
      .build();
    expect((await (await serve(built)).call('start')).structured).toMatchObject({
      status: 'done',
      finalOutput: { found: 2 },
    });
  });

  it("the preamble begins with the skill's system", async () => {
    const { structured } = await (await serve(composite())).call('start');
    expect(structured['preamble']).toMatch(/^Be brief\.\n\n\S/);
  });

  it('a sub-skill comes with its own preamble', async () => {
    const rig = await serve(composite());
    const { structured } = await rig.call('advance', {
      session: await sessionOf(rig),
      step: 'route',
      output: { to: 'subskill:fix' },
    });
    expect(structured).toMatchObject({
      status: 'prompt',
      step: 'fix/what',
      prompt: '<prompt>\nMend a.ts, deep: true.\n</prompt>',
    });
    expect(structured['preamble']).toMatch(/^You mend\.\n\n/);
  });

  it('a sub-skill keeps its params on every advance', async () => {
    const rig = await serve(composite());
    const session = await sessionOf(rig);
    await rig.call('advance', { session, step: 'route', output: { to: 'subskill:fix' } });
    const { structured } = await rig.call('advance', { session, step: 'fix/what', output: { v: 'x' } });
    expect(structured).toMatchObject({ step: 'fix/sure', prompt: '<prompt>\nSure about a.ts?\n</prompt>' });
  });

  it('start takes a sub-skill to start with, and its params', async () => {
    const rig = await serve(composite());
    const { structured } = await rig.call('start', { subskill: 'fix', params: { file: 'b.ts', deep: false } });
    expect(structured).toMatchObject({
      status: 'prompt',
      step: 'fix/what',
      prompt: '<prompt>\nMend b.ts, deep: false.\n</prompt>',
    });
    expect((await rig.call('start', { subskill: 'fix' })).structured).toMatchObject({ error: 'params' });
    expect((await rig.call('start', { subskill: 'fax' })).structured).toMatchObject({
      error: 'arguments',
      remedy: 'It has: fix.',
    });
  });

  it.each([['a text'], [[1, 2]], [7], [false], [null], [{ a: 1 }]])(
    'an output may be any JSON value: %j',
    async (output) => {
      const built = skill({ name: 's', entry: 'a' })
        .step('a', { prompt: 'A', response: z.json(), next: terminal })
        .build();
      const rig = await serve(built);
      const { isError, structured } = await rig.call('advance', { session: await sessionOf(rig), step: 'a', output });
      expect([isError, structured['finalOutput']]).toEqual([false, output]);
    },
  );

  it('topics is a tool wherever there are topics, and an unknown topic says which there are', async () => {
    const rig = await serve(composite());
    const list = await rig.call('topics', { random_string: 'some hosts pass one' });
    expect(list.structured).toEqual({ topics: [{ name: 'rules', label: 'The rules' }] });
    expect(JSON.parse(list.text)).toEqual(list.structured);
    const topic = await rig.call('topic', { name: 'rules' });
    expect(topic.structured).toEqual({ name: 'rules', content: 'text of rules.md' });
    expect(JSON.parse(topic.text)).toEqual(topic.structured);
    expect(await rig.call('topic', { name: 'constructor' })).toMatchObject({
      isError: true,
      structured: { message: 'Unknown topic "constructor".', remedy: 'Available: rules.' },
    });
  });

  it('a redirect to a topic ends the session with its text', async () => {
    const rig = await serve(composite());
    const { structured } = await rig.call('advance', {
      session: await sessionOf(rig),
      step: 'route',
      output: { to: 'topic:rules' },
    });
    expect(structured).toMatchObject({ status: 'done', finalOutput: { topic: 'rules', content: 'text of rules.md' } });
  });

  it('a sub-agent can say that it is one, and its tools are all that is counted on', async () => {
    const built = skill({ name: 's', entry: 'a' })
      .step('a', {
        prompt: ({ host }) => `${host.host} ${host.toolsAvailable.join('+')} ${String(host.isSubagent)}`,
        next: terminal,
      })
      .build();
    const rig = await serve(built, { handshake: { toolsAvailable: ['Bash'] }, clientName: 'Claude Code' });
    expect((await rig.call('start')).structured['prompt']).toBe('<prompt>\nclaude-code Bash false\n</prompt>');
    const { structured } = await rig.call('start', { host: 'codex', tools: ['shell'], subagent: true });
    expect(structured['prompt']).toBe('<prompt>\ncodex shell true\n</prompt>');
  });
});

describe('a reference', () => {
  const built = reference({ name: 'style', description: 'How we write', version: '2.0.0' })
    .topic('names', { label: 'Names', content: ({ refs }) => `# Names\n"${refs.load('names.md')}"` })
    .topic('gone', {
      label: 'Gone',
      content: () => {
        throw new Error('no such file');
      },
    })
    .build();
  const serveReference = () => connect(referenceTools(built, { load: (name) => name, asset: (path) => path }));

  it('is served as plain texts', async () => {
    const rig = await serveReference();
    expect(rig.client.getServerVersion()).toEqual({ name: 'style', version: '2.0.0' });
    expect((await rig.client.listTools()).tools.map(({ name }) => name)).toEqual(['topics', 'topic']);
    expect(await rig.call('topics')).toMatchObject({
      text: 'names: Names\ngone: Gone',
      structured: { topics: [{ name: 'names' }, { name: 'gone' }] },
    });
    const content = '# Names\n"names.md"';
    expect(await rig.call('topic', { name: 'names' })).toEqual({
      text: content,
      structured: { name: 'names', content },
      isError: false,
    });
  });

  it('says which topics there are, and what is wrong with one', async () => {
    const rig = await serveReference();
    expect(await rig.call('topic', { name: 'x' })).toMatchObject({
      isError: true,
      text: 'Unknown topic "x". Available: names, gone.',
    });
    expect(await rig.call('topic')).toMatchObject({ isError: true, structured: { error: 'arguments' } });
    expect(await rig.call('topic', { name: 'gone' })).toMatchObject({
      isError: true,
      structured: { message: 'Topic "gone" cannot be read: no such file' },
    });
  });
});
